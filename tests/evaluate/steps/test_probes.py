"""Probes and load on a table model: every variant is measured in pairs under its own name."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evaluate.steps.lab import document, opened, study_of, walked, write
from outpace.errors import ConfigError
from outpace.evaluate.judge import verified
from outpace.evaluate.steps import measured
from outpace.evaluate.steps.locking import findings, lock
from outpace.evaluate.steps.recovery import Step, judged
from outpace.evaluate.steps.verify import verify
from outpace.evaluate.study import found_at

LOAD = {
    "scenarios": [
        {"name": "one", "profile": "synchronous"},
        {"name": "four", "profile": "concurrent", "streams": 4, "requests": 12},
        {"name": "chance", "profile": "poisson", "rate_per_s": 40, "min_requests": 20},
        {"name": "even", "profile": "constant", "rate_per_s": 40, "min_requests": 20},
        {"name": "again", "profile": "trace", "trace": "t.csv", "time_unit": "ms"},
    ],
    "validity": {"rate_tolerance": 0.5},
}
WHAT_IF = [
    {"change": "drafter_removed"}, {"change": "wrong_drafter"}, {"change": "forced_abstention"},
    {"change": "threads", "threads": 1}, {"change": "data", "filter": {"category": ["a"]}},
    {"change": "longer_context", "context_tokens": 20},
]  # fmt: skip
ARMS = {
    "baseline": {"drafter": "none"},
    "candidate": {"drafter": "lookup"},
    "fallback": {"drafter": "lookup", "force": "breaker_open"},
}


def test_every_variant_is_measured_in_pairs(tmp_path: Path) -> None:
    failure = {"forced_acceptance": [0, 0.5, 1], "cases": ["adversarial", "high_entropy"]}
    path = write(tmp_path, document(arms=ARMS, failure_mode=failure, what_if=WHAT_IF))
    walked(path)
    study = study_of(path)
    records = study.measurements()
    found = Counter(
        (m.phase, m.variant, m.arm)
        for m in records.requests
        if m.request.ok and m.phase != "test"
    )  # fmt: skip
    forced = {f"alpha={a},control={c}" for a in ("0", "0.5", "1") for c in ("on", "off")}
    cases = {
        f"case={k},control={c}" for k in ("adversarial", "high_entropy") for c in ("on", "off")
    }
    variants = {v for phase, v, _ in found if phase == "failure_mode"}
    assert variants >= forced
    assert variants <= forced | cases  # shipped cases may be longer than this model reads
    for variant in forced:
        pair = [found["failure_mode", variant, arm] for arm in ("baseline", "candidate")]
        assert pair[0] == pair[1] > 0
    assert {v for phase, v, _ in found if phase == "what_if"} == {
        "drafter_removed", "wrong_drafter", "forced_abstention", "threads=1", "data:category=a",
        "longer_context=20",
    }  # fmt: skip
    kept = {
        variant: [
            m.request.speculation.kept / max(m.request.speculation.drafted, 1)
            for m in records.of("failure_mode", variant=variant, arm="candidate")
            if m.request.speculation is not None
        ]
        for variant in forced
    }
    assert set(kept["alpha=0,control=off"]) == {0.0}
    assert min(kept["alpha=1,control=off"]) > 0.9
    texts = {(m.variant, m.request.item, m.tokens) for m in records.of("failure_mode")}
    assert len(texts) == len({(v, item) for v, item, _ in texts}), "forced guesses change no text"
    test = study.state().done["test"]
    recovered = verified.Tested.of(test).recovery
    assert recovered is not None
    assert "it guessed at first" in recovered.found


def test_recovery_is_read_from_the_rounds() -> None:
    def step(at: int, drafted: int) -> Step:
        return Step(at_s=at / 10, written=at, drafted=drafted)

    # Right for 20 tokens, wrong for 20: guesses go on for 5 and stop, but for a probe now and
    # then; right again from 40: guesses are back after 6.
    drafted = [4] * 25 + [0] * 7 + [2] + [0] * 13 + [4] * 14
    found = judged([step(i, n) for i, n in enumerate(drafted)], 2, 20)
    assert (found.fall_back_tokens, found.return_tokens, found.switches) == (5, 6, 2)
    assert found.fall_back_s == pytest.approx(0.5)
    never = judged([step(i, 4) for i in range(60)], 0, 20)
    assert (never.fall_back_s, never.return_s) == (None, 0.0)


def test_load_scenarios_come_as_scheduled(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n0,9,3\n100,30,5\n200,9,4\n", encoding="utf-8"
    )
    criteria = [
        *document()["criteria"],
        {"id": "busy", "type": "non_inferiority", "metric": "e2el", "margin_ratio": 3,
         "scenario": "chance"},
    ]  # fmt: skip
    arms = {"baseline": {"drafter": "none", "test_only": {"slowdown": 3}},
            "candidate": {"drafter": "lookup"}}  # fmt: skip
    path = write(tmp_path, document(arms=arms, load=LOAD, criteria=criteria))
    walked(path)
    study = study_of(path)
    found = Counter((m.request.block.load, m.arm) for m in study.measurements().of("load"))
    n_test = len({m.request.item for m in study.measurements().of("test")})
    assert found == {
        (name, arm): n
        for name, n in (("one", n_test), ("four", 12), ("chance", 20), ("even", 20), ("again", 3))
        for arm in arms
    }
    trace = [m.request for m in study.measurements().of("load", arm="candidate")
             if m.request.block.load == "again"]  # fmt: skip
    assert sorted(r.completion_tokens for r in trace) == [3, 4, 5]
    assert [round(r.sched_s, 2) for r in sorted(trace, key=lambda r: r.sched_s)] == [0, 0.1, 0.2]
    late = [m.request for m in study.measurements().of("load", arm="baseline")
            if m.request.block.load == "even"]  # fmt: skip
    assert all(r.ttft_s is not None and r.ttft_s >= r.chunks_s[0] - r.sent_s for r in late)
    said: Any = study.state().done["load"].body
    for name, by_arm in said["scenarios"].items():
        for facts in by_arm.values():
            assert facts["failed"] == 0
            asked, achieved = facts["asked_per_s"], facts["achieved_per_s"]
            assert (asked is not None) == (name in ("chance", "even", "again"))
            # Whether this machine kept up is not for a test to say, but the study says so.
            assert facts["valid"] == (asked is None or abs(achieved / asked - 1) <= 0.5), facts
    assert said["scenarios"]["even"]["baseline"]["asked_per_s"] == pytest.approx(40, rel=0.1)
    assert said["valid"] == all(f["valid"] for a in said["scenarios"].values() for f in a.values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {"source": "prompts.jsonl",
                   "split": {"salt": "s", "dev": 0.0001, "test": 0.9998, "confirm": 0.0001}}},
         "empty_split"),
        ({"criteria": [*document()["criteria"],
                       {"id": "groups", "type": "all_subgroups_non_inferior", "metric": "e2el",
                        "margin_ratio": 1.05, "min_n": 30}]}, "subgroup"),
        ({"arms": {"baseline": {"drafter": "none"}, "candidate": {"drafter": "lokup"}}},
         "did you mean lookup"),
        ({"load": {"scenarios": [{"name": "x", "profile": "trace", "trace": "t.csv",
                                  "time_unit": "ns"}]}}, "trace_unit"),
        ({"load": {"scenarios": [{"name": "x", "profile": "trace", "trace": "none.csv",
                                  "time_unit": "s"}]}}, "cannot read the trace"),
        ({"data": {"source": "none.jsonl",
                   "split": {"salt": "s", "dev": 0, "test": 1, "confirm": 0}}}, "none.jsonl"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_said_before_anything_is_measured(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    rows = "".join(f"{1000 * i},9,3\n" for i in range(50))
    (tmp_path / "t.csv").write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}")
    path = write(tmp_path, document(**changes))
    with pytest.raises(ConfigError, match=message):
        walked(path)
    assert not study_of(path).statements
    assert not study_of(path).measurements().requests


def test_a_subgroup_of_three(tmp_path: Path) -> None:
    groups = {"id": "groups", "type": "all_subgroups_non_inferior", "metric": "e2el",
              "margin_ratio": 1.05, "min_n": 5}  # fmt: skip
    data = {**document()["data"], "subgroups": ["category"]}
    path = write(tmp_path, document(data=data, criteria=[*document()["criteria"], groups]), 12)
    found = [f for f in findings(found_at(path)) if f.rule == "subgroup_too_small"]
    assert all("test prompts, 5 are asked; give more" in f.message for f in found), found


def test_what_was_measured_does_not_mix_with_a_changed_program(tmp_path: Path) -> None:
    path = write(tmp_path, document(arms=ARMS))
    with pytest.raises(KeyboardInterrupt):
        walked(path, stop_after=60)
    before = len(study_of(path).measurements().requests)
    assert before
    with (
        pytest.raises(ConfigError, match="since code changed, and nothing else may mix with it"),
        opened(path, program={"version": "another"}) as session,
    ):
        session.require("test")


def test_a_load_run_cut_off_between_arms_is_still_a_comparison(tmp_path: Path) -> None:
    load = {"scenarios": [{"name": "busy", "profile": "concurrent", "streams": 2, "requests": 10}]}
    criteria = [
        *document()["criteria"],
        {"id": "busy", "type": "non_inferiority", "metric": "e2el", "margin_ratio": 3,
         "scenario": "busy"},
    ]  # fmt: skip
    path = write(tmp_path, document(load=load, criteria=criteria))
    with opened(path) as session:
        lock(session, base=tmp_path)
        verify(session)
        measured.test(session)
    with pytest.raises(KeyboardInterrupt):
        walked(path, stop_after=13)  # in the second arm's ten
    found = walked(path)
    attempts = {m.request.attempt for m in study_of(path).measurements().of("load")}
    assert len(attempts) > 1, "both arms of one attempt: nothing was cut off between them"
    (busy,) = (o for o in found.verdict.outcomes if o.id == "busy")
    assert busy.n == 10, busy
