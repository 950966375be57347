"""Each rule finds the plan made to break it, and nothing in the plan of the design."""

from dataclasses import replace

import pytest

from evaluate.plans import plan
from outpace.evaluate.plan.lint import Counts, Facts, Finding, lint
from outpace.evaluate.plan.rules.numbers import least_requests

DRAFTERS = frozenset({"none", "auto", "lookup", "suffix", "mix", "model", "synthetic"})
_NOT_WORSE, _SCALE = "criteria[3].not_worse_than", "load.scenarios[2].time_scale"
GROUPS = {"category": {"chat": 60, "code": 60}}
ENOUGH = Facts(
    drafters=DRAFTERS,
    prompts=Counts(dev=90, test=300, confirm=90, subgroups=GROUPS),
    traces={"replay": [0.5 * i for i in range(300)]},
)


def found(*steps: tuple[str, object], facts: Facts = ENOUGH) -> dict[str, Finding]:
    return {finding.rule: finding for finding in lint(plan(*steps), facts)}


def test_the_plan_of_the_design_has_no_finding() -> None:
    assert found() == {}
    assert found(facts=Facts()) == {}


@pytest.mark.parametrize(
    ("rule", "level", "where", "steps"),
    [
        ("unfalsifiable", "error", "decision.falsified_by", [("decision.falsified_by", [])]),
        (
            "unknown_criterion",
            "error",
            "decision.falsified_by[0]",
            [("decision.falsified_by.0", "sped")],
        ),
        ("undeclared_falsifier", "warning", "criteria[2]", [("decision.falsified_by.0", "tail")]),
        ("toothless_falsifier", "warning", "criteria[3]", [("decision.falsified_by.3", "tail")]),
        ("no_primary", "error", "criteria", [("criteria.2.primary", False)]),
        ("many_primaries", "error", "criteria", [("criteria.4.primary", True)]),
        ("any_gain", "warning", "criteria[2].min_effect", [("criteria.2.min_effect", 1.0)]),
        (
            "no_exactness",
            "warning",
            "criteria",
            [("criteria.0.critical", False), ("criteria.1.critical", False)],
        ),
        ("unknown_arm", "error", "criteria[7].arm", [("criteria.7.arm", "falback")]),
        ("unknown_arm", "error", _NOT_WORSE, [("criteria.3.not_worse_than", "b")]),
        ("unknown_arm", "error", "what_if[0].arm", [("what_if.0.arm", "x")]),
        ("self_comparison", "error", "criteria[2].arm", [("criteria.2.arm", "baseline")]),
        ("unknown_drafter", "error", "arms.fallback.drafter", [("arms.fallback.drafter", "sufix")]),
        (
            "unknown_drafter",
            "error",
            "arms.candidate.drafter",
            [("arms.candidate.drafter", "mix:lookup+sufix")],
        ),
        (
            "peeking_drafter",
            "error",
            "arms.candidate.drafter",
            [("arms.candidate.drafter", "synthetic:right")],
        ),
        ("baseline_guesses", "warning", "arms.baseline", [("arms.baseline.drafter", "lookup")]),
        ("same_arms", "warning", "arms", [("arms.candidate.drafter", "none")]),
        (
            "models_differ",
            "warning",
            "arms",
            [
                ("arms.a", {"endpoint": "http://h/v1", "model": "m"}),
                ("arms.b", {"endpoint": "http://h/v1", "model": "n"}),
            ],
        ),
        (
            "test_only",
            "warning",
            "arms.candidate.test_only",
            [("arms.candidate.test_only", {"temperature_factor": 1.2})],
        ),
        ("no_failure_mode", "warning", "failure_mode", [("failure_mode", ...)]),
        ("no_fallback", "warning", "arms", [("arms.fallback", ...)]),
        ("unjudged_fallback", "warning", "arms.fallback", [("criteria.7.arm", "candidate")]),
        (
            "law_out_of_reach",
            "error",
            "criteria[0]",
            [("arms.candidate", {"endpoint": "http://h/v1", "model": "m"})],
        ),
        (
            "nothing_sampled",
            "error",
            "criteria[9]",
            [("criteria.9", {"id": "law", "type": "same_law"})],
        ),
        (
            "nothing_greedy",
            "error",
            "criteria[1]",
            [
                ("arms.candidate", {"endpoint": "http://h/v1", "model": "m"}),
                ("sampling", {"temperatures": [0.7]}),
            ],
        ),
        (
            "out_of_reach",
            "error",
            "what_if[5]",
            [("arms.candidate", {"endpoint": "http://h/v1", "model": "m"})],
        ),
        (
            "never_confirmed",
            "warning",
            "data.split.confirm",
            [("data.split.confirm", 0.0), ("data.split.test", 0.7)],
        ),
        (
            "nothing_to_tune_on",
            "warning",
            "data.split.dev",
            [("data.split.dev", 0.0), ("data.split.test", 0.7)],
        ),
        ("no_subgroups", "error", "criteria[6]", [("data.subgroups", [])]),
        ("loose_alpha", "warning", "criteria[2].alpha", [("criteria.2.alpha", 0.2)]),
        ("strict_alpha", "warning", "criteria[2].alpha", [("criteria.2.alpha", 1e-6)]),
        ("unit", "warning", "criteria[3].limit_ms", [("criteria.3.limit_ms", 8)]),
        ("unit", "warning", "load.slo_ms.ttft", [("load.slo_ms.ttft", 0.5)]),
        ("margin", "warning", "criteria[4].margin_ratio", [("criteria.4.margin_ratio", 5)]),
        ("unbalanced", "warning", "design.blocks", [("design.blocks", 5)]),
        ("unpaired", "warning", "design.paired", [("design.paired", False)]),
        ("cold", "warning", "design.warmup", [("design.warmup", 0)]),
        ("unknown_scenario", "error", "criteria[2].scenario", [("criteria.2.scenario", "servr")]),
        (
            "no_objectives",
            "error",
            "criteria[8].metric",
            [("criteria.8.metric", "goodput"), ("load.slo_ms", {})],
        ),
        ("no_objectives", "warning", "criteria[8].metric", [("load.slo_ms", {})]),
        ("one_block", "error", "criteria[8].metric", [("design.blocks", 1)]),
        ("rate", "error", "load.scenarios[1].rate_per_s", [("load.scenarios.1.rate_per_s", 6000)]),
        ("rate", "error", "load.scenarios[1].rate_per_s", [("load.scenarios.1.rate_per_s", 1e-4)]),
        ("rate", "error", "load.scenarios[2].time_scale", [("load.scenarios.2.time_scale", 1e6)]),
        ("time_scale", "warning", _SCALE, [("load.scenarios.2.time_scale", 200)]),
        ("tail", "error", "criteria[3]", [("criteria.3.scenario", "server")]),
    ],
)  # fmt: skip
def test_a_rule_finds_what_it_is_for(
    rule: str, level: str, where: str, steps: list[tuple[str, object]]
) -> None:
    findings = [f for f in lint(plan(*steps), ENOUGH) if f.rule == rule]
    assert (level, where) in [(f.level, f.where) for f in findings], found(*steps)


def test_typos_are_answered_with_the_name_that_was_meant() -> None:
    assert (
        "did you mean speed?"
        in found(("decision.falsified_by.0", "sped"))["unknown_criterion"].message
    )
    assert (
        "did you mean suffix?"
        in found(("arms.candidate.drafter", "sufix"))["unknown_drafter"].message
    )


def test_tails_need_the_requests_of_a_perfect_run() -> None:
    assert least_requests(0.99, 0.01) == 459
    assert least_requests(0.99, 0.05) == 299
    for n in (458, 459):
        assert (0.99**n <= 0.01) == (n == 459)
    few = Facts(prompts=Counts(dev=9, test=74, confirm=9))
    assert "299" in found(facts=few)["tail"].message, "74 prompts x 4 blocks = 296"
    assert (
        found(facts=Facts(prompts=Counts(dev=9, test=75, confirm=9)))["tail_repeats"].level
        == "warning"
    )


def test_a_subgroup_of_three_is_found() -> None:
    groups = {"category": {"chat": 60, "code": 3}}
    facts = Facts(prompts=Counts(dev=90, test=300, confirm=90, subgroups=groups))
    finding = found(facts=facts)["subgroup_too_small"]
    assert finding.level == "error"
    assert "code has 3" in finding.message
    assert "few_prompts" in found(facts=Facts(prompts=Counts(dev=1, test=19, confirm=1)))


def test_an_empty_split_is_found() -> None:
    for part in ("dev", "test", "confirm"):
        counts = replace(Counts(dev=90, test=300, confirm=90), **{part: 0})  # type: ignore[arg-type]
        finding = found(facts=Facts(prompts=counts))["empty_split"]
        assert finding.where == f"data.split.{part}"


def test_a_wrong_time_unit_of_a_trace_is_found_and_the_right_one_named() -> None:
    as_seconds = [500.0 * i * 1000 for i in range(300)]  # milliseconds, read as seconds
    finding = found(facts=Facts(traces={"replay": as_seconds}))["trace_unit"]
    assert finding.level == "error"
    assert "in ms 0.002" in finding.message
    assert "trace_unit" in found(facts=Facts(traces={"replay": [0.0] * 5}))
    assert "short_trace" in found(facts=Facts(traces={"replay": [0.0]}))


def test_errors_come_first() -> None:
    levels = [f.level for f in lint(plan(("design.warmup", 0), ("criteria.2.primary", False)))]
    assert levels == sorted(levels)
    assert set(levels) == {"error", "warning"}
