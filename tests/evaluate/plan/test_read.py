"""Every slip in a plan is named with its key, its line and what would be right."""

import subprocess
import sys
from pathlib import Path

import pytest

from evaluate.plans import WHOLE, changed, plan
from outpace.errors import ConfigError
from outpace.evaluate.plan.arms import EndpointArm, InProcessArm, ServeArm
from outpace.evaluate.plan.read import PlanError, parse_plan, read_plan


def problem(text: str) -> str:
    with pytest.raises(PlanError) as caught:
        parse_plan(text, name="p.yaml")
    return str(caught.value)


def test_the_whole_plan_is_read() -> None:
    whole = parse_plan(WHOLE)
    assert [c.type for c in whole.criteria][:3] == ["exact_law", "same_text", "superiority"]
    assert whole.criterion_ids[-1] == "failure_mode"
    assert [w.change for w in whole.what_if][-1] == "forced_abstention"
    assert isinstance(whole.arms["candidate"], InProcessArm)


@pytest.mark.parametrize(
    ("steps", "place", "words"),
    [
        ([("desing", {})], "desing", "did you mean design?"),
        ([("design.block", 3)], "design.block", "did you mean blocks?"),
        ([("arms.candidate.draftr", "auto")], "arms.candidate.draftr", "did you mean drafter?"),
        ([("criteria.2.min_efect", 1.1)], "criteria[2].min_efect", "did you mean min_effect?"),
        ([("load.scenarios.1.rate", 2)], "load.scenarios[1].rate", "rate_per_s"),
        ([("load.scenarios.2.time_unit", ...)], "load.scenarios[2].time_unit", "required"),
        ([("load.scenarios.2.trace", ...)], "load.scenarios[2].trace", "required"),
        ([("load.scenarios.2.time_unit", "sec")], "load.scenarios[2].time_unit", "datetime, s"),
        ([("criteria.2.type", "superiorty")], "criteria[2].type", "did you mean superiority?"),
        ([("criteria.2.type", ...)], "criteria[2].type", "required"),
        ([("criteria.2.metric", "e2e")], "criteria[2].metric", "did you mean e2el?"),
        ([("criteria.2.metric", "pass_rate")], "criteria[2].metric", "allowed: ttft"),
        ([("criteria.2.alpha", 5)], "criteria[2].alpha", "less than 0.5"),
        ([("criteria.2.alpha", float("nan"))], "criteria[2].alpha", "finite"),
        ([("criteria.2.min_effect", 0.9)], "criteria[2].min_effect", "greater than or equal to 1"),
        ([("criteria.4.margin_ratio", ...)], "criteria[4].margin_ratio", "ttft needs margin_ratio"),
        ([("criteria.5.margin_ratio", 1.1)], "criteria[5].margin_abs", "pass_rate needs"),
        ([("criteria.0.id", "speed")], "criteria", "'speed' occurs twice"),
        ([("criteria.0.id", "failure_mode")], "criteria", "failure_mode section"),
        ([("design.blocks", "4")], "design.blocks", "a whole number"),
        ([("design.paired", "yes")], "design.paired", "true or false"),
        ([("design", None)], "design", "keys with values"),
        ([("data.split.dev", 0.5)], "data.split", "exactly 1"),
        ([("data.subgroups", ["categorie"])], "data.subgroups[0]", "category"),
        ([("data.subgroups", ["category", "category"])], "data.subgroups", "twice"),
        ([("data.filter", {"language": []})], "data.filter", "leaves nothing"),
        ([("data.source", 7)], "data.source", "a text"),
        ([("arms.baseline", ...)], "arms", "no arm baseline"),
        ([("arms.candidate.speculation", "off"), ("arms.candidate.depth", 4)], "depth", "one of"),
        ([("target", ...)], "target", "needs a model"),
        ([("arms.x", {"endpoint": "127.0.0.1:8000", "model": "m"})], "arms.x.endpoint", "no http"),
        ([("arms.x", {"endpoint": "http://a:b@h/v1", "model": "m"})], "arms.x.endpoint", "api_key"),
        (
            [("arms.x", {"endpoint": "http://h/v1", "model": "m", "api_key": "s"})],
            "arms.x.api_key",
            "did you mean api_key_env?",
        ),
        ([("arms.x", {"serve": {"engine": "vlm"}})], "arms.x.serve.engine", "did you mean vllm?"),
        ([("arms.x", {"serve": {"engine": "command"}})], "arms.x.serve.command", "command line"),
        (
            [("arms.x", {"serve": {"engine": "command", "command": ["run"]}})],
            "arms.x.serve.command",
            "{port}",
        ),
        ([("arms.x", {"serve": {"engine": "vllm", "port": 70000}})], "arms.x.serve.port", "65535"),
        ([("what_if.0.change", "drafter_remove")], "what_if[0].change", "drafter_removed"),
        ([("what_if.3.filter", {})], "what_if[3]", "nothing would change"),
        ([("failure_mode.forced_acceptance", [1.2])], "failure_mode.forced_acceptance[0]", "less"),
        ([("failure_mode.max_slowdown", 0.95)], "failure_mode.max_slowdown", "greater"),
        ([("load.slo_ms.tpot", -1)], "load.slo_ms.tpot", "greater than 0"),
        ([("load.scenarios.1.name", "single")], "load.scenarios", "occurs twice"),
        ([("sampling", {"temperatures": []})], "sampling.temperatures", "at least 1"),
        ([("metadata.name", "a b")], "metadata.name", "pattern"),
        ([("apiVersion", "outpace/v2")], "apiVersion", "allowed: outpace/v1"),
    ],
    ids=lambda value: None if isinstance(value, list) else str(value)[:30],
)  # fmt: skip
def test_a_slip_is_named(steps: list[tuple[str, object]], place: str, words: str) -> None:
    message = problem(changed(*steps))
    first = message.split("\n")[0]
    assert place in first, message
    assert words in first, message
    assert first.startswith("p.yaml:"), message


def test_the_line_is_that_of_the_key() -> None:
    at = next(i for i, line in enumerate(WHOLE.split("\n"), start=1) if "id: speed" in line)
    assert problem(WHOLE.replace("min_effect: 1.15", "min_efect: 1.15")).startswith(f"p.yaml:{at}:")


def test_every_problem_is_named_at_once() -> None:
    message = problem(changed(("design.blocks", 0), ("criteria.2.alpha", 2), ("desing", {})))
    assert "desing" in message, "unknown keys hide others of their part"
    message = problem(changed(("design.blocks", 0), ("criteria.2.alpha", 2)))
    assert "design.blocks" in message
    assert "criteria[2].alpha" in message


def test_a_number_that_yaml_reads_as_text_is_explained() -> None:
    assert "1.0e-12" in problem(WHOLE.replace("tol: 1.0e-12", "tol: 1e-12"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing here"),
        ("[1, 2", "no YAML"),
        ("- 1", "keys with values"),
        ("a: 1\na: 2", "twice"),
        ("a: &x 1\nb: *x", "anchors"),
        ("on: 1", "write it in quotes"),
        ("metadata: {name: 2026-01-01}", "a date; write it in quotes"),
        ("a: !!python/object:os.system {}", "no YAML"),
        ("[" * 5000, "nested too deep"),
        ("a: \x00", "no YAML"),
    ],
)
def test_what_is_no_plan_at_all_is_refused_in_words(text: str, words: str) -> None:
    assert words in problem(text)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    with pytest.raises(ConfigError, match="cannot read"):
        read_plan(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_plan(path)
    path.write_text("#" * (2 << 20))
    with pytest.raises(ConfigError, match="short document"):
        read_plan(path)
    path.write_text(WHOLE)
    assert read_plan(path) == parse_plan(WHOLE)


def test_arms_are_what_their_keys_say() -> None:
    made = plan(
        ("arms.far", {"endpoint": "http://127.0.0.1:8000/v1", "model": "m", "api_key_env": "KEY"}),
        ("arms.near", {"serve": {"engine": "vllm", "model": "m", "args": ["--x", "1"]}}),
    )
    assert isinstance(made.arms["far"], EndpointArm)
    near = made.arms["near"]
    assert isinstance(near, ServeArm)
    assert (near.serve.port, near.serve.ready_path) == ("auto", "/health")


def test_a_setting_of_depth_is_what_the_control_reads() -> None:
    for fields, setting, guesses in [
        ({}, "auto", True),
        ({"depth": 4}, "fixed:4", True),
        ({"depth": 0}, "off", False),
        ({"speculation": "off"}, "off", False),
        ({"drafter": "none"}, "auto", False),
        ({"force": "abstain"}, "auto", False),
        ({"drafter": "none", "test_only": {"synthetic": "wrong"}}, "auto", True),
    ]:
        arm = plan(("arms.candidate", fields)).arms["candidate"]
        assert isinstance(arm, InProcessArm)
        assert (arm.setting, arm.guesses) == (setting, guesses), fields


def test_the_identity_is_that_of_the_meaning() -> None:
    whole = parse_plan(WHOLE)
    backwards = "\n".join(
        ["# a remark", WHOLE.replace("blocks: 4, order: ABBA", "order: ABBA, blocks: 4")]
    )
    assert parse_plan(backwards).identity == whole.identity
    spelled = plan(("design.streams", 1), ("load.scenarios.1.rate_per_s", 2.0))
    assert spelled.identity == whole.identity, "a default spelled out changes nothing"
    others = {
        plan(step).identity
        for step in [
            ("design.seed", 8),
            ("data.split.salt", "other"),
            ("criteria.2.min_effect", 1.16),
            ("arms.candidate.depth", 4),
        ]
    }
    assert len(others | {whole.identity}) == 5


def test_a_plan_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        plan().design.blocks = 3


def test_reading_linting_and_deciding_load_no_torch() -> None:
    code = (
        "import outpace.evaluate.plan.read, outpace.evaluate.plan.lint, outpace.evaluate.phases, "
        "outpace.evaluate.verdict, sys; assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)
