"""From a plan to a verdict on a table model: each planted truth comes out as planted."""

from pathlib import Path

import pytest
import yaml

from evaluate.steps.lab import WorkTime, document, shell, study_of, walked, write
from outpace.errors import ConfigError
from outpace.evaluate.ledger import LEDGER, LedgerBroken
from outpace.evaluate.steps.session import session
from outpace.evaluate.steps.walk import walk
from outpace.evaluate.study import begin, found_at

QUICK = {"baseline": {"drafter": "none", "test_only": {"slowdown": 5}}}


@pytest.fixture(autouse=True)
def _work_time(monkeypatch: pytest.MonkeyPatch) -> None:
    WorkTime().rule(monkeypatch)


def arms(**candidate: object) -> dict[str, object]:
    return {**QUICK, "candidate": {"drafter": "lookup", **candidate}}


def test_an_arm_that_is_faster_and_right_is_supported_and_confirmed(tmp_path: Path) -> None:
    path = write(tmp_path, document(arms=arms()))
    found = walked(path)
    assert found.verdict.words == "SUPPORTED", found.verdict.reasons
    assert found.verdict.confirmed
    assert not found.stopped
    kinds = [(s.kind, s.event) for s in study_of(path).statements]
    assert kinds == [
        ("lock", "done"), ("verify", "done"), ("test", "opened"), ("test", "done"),
        ("confirm", "opened"), ("confirm", "done"), ("verdict", "done"),
    ]  # fmt: skip
    again = walked(path)
    assert again.verdict == found.verdict
    assert len(study_of(path).statements) == 7, "nothing is done twice"


def test_a_slower_arm_is_refuted_and_the_confirmation_stays_closed(tmp_path: Path) -> None:
    slow = {"baseline": {"drafter": "none"}, "candidate": {"drafter": "none",
            "test_only": {"slowdown": 2.0}}}  # fmt: skip
    path = write(tmp_path, document(arms=slow, sampling={"max_tokens": 40, "ignore_eos": True}))
    found = walked(path)
    assert found.verdict.conclusion == "REFUTED", found.verdict.reasons
    assert "speed" in found.verdict.reasons[0]
    assert "confirmation set would spend it" in found.stopped
    assert study_of(path).state().n_openings == 0


@pytest.mark.parametrize(
    "fault", [{"accept_all": True}, {"synthetic": "wrong", "accept_all": True}]
)
def test_wrong_text_is_refuted_before_anything_is_timed(
    tmp_path: Path, fault: dict[str, object]
) -> None:
    path = write(tmp_path, document(arms=arms(test_only=fault, depth=4)))
    found = walked(path)
    assert found.verdict.conclusion == "REFUTED"
    assert found.stopped.startswith("text:")
    assert not study_of(path).measurements().requests


def test_a_temperature_that_is_off_is_refuted_by_the_law(tmp_path: Path) -> None:
    criteria = [
        {"id": "law", "type": "same_law", "max_tv": 0.2, "critical": True},
        {"id": "speed", "type": "superiority", "metric": "e2el", "min_effect": 1.0,
         "primary": True},
    ]  # fmt: skip
    changes = {
        "criteria": criteria,
        "sampling": {"max_tokens": 12, "ignore_eos": True, "temperatures": [1.0]},
        "decision": {**document()["decision"], "falsified_by": ["speed", "law"]},
    }
    off = write(tmp_path, document(arms=arms(test_only={"temperature_factor": 0.7}), **changes))
    assert "law FAIL" in walked(off).verdict.reasons[0]


def test_the_right_temperature_is_not(tmp_path: Path) -> None:
    criteria = [
        {"id": "law", "type": "same_law", "max_tv": 0.2, "critical": True},
        {"id": "speed", "type": "superiority", "metric": "e2el", "min_effect": 1.0,
         "primary": True},
    ]  # fmt: skip
    changes = {
        "criteria": criteria,
        "sampling": {"max_tokens": 12, "ignore_eos": True, "temperatures": [1.0]},
        "decision": {**document()["decision"], "falsified_by": ["speed", "law"]},
    }
    path = write(tmp_path, document(arms=arms(), **changes))
    found = walked(path).verdict
    (law,) = (o for o in found.outcomes if o.id == "law")
    assert law.status == "PASS", law.found


def test_too_little_data_is_inconclusive(tmp_path: Path) -> None:
    data = {"source": "prompts.jsonl", "split": {"salt": "s", "dev": 0, "test": 1, "confirm": 0}}
    changes = {"data": data, "design": {"blocks": 1, "order": "ABAB", "warmup": 1}}
    path = write(tmp_path, document(arms=arms(), **changes), n_prompts=1)
    assert walked(path).verdict.conclusion == "INCONCLUSIVE"


def test_prompts_that_another_study_confirmed_on_confirm_nothing(tmp_path: Path) -> None:
    first = write(tmp_path, document(arms=arms()))
    assert walked(first).verdict.words == "SUPPORTED"
    data = {"source": "prompts.jsonl", "split": {"salt": "t", "dev": 0.2, "test": 0.5,
            "confirm": 0.3}}  # fmt: skip
    second = tmp_path / "second.yaml"
    second.write_text(yaml.safe_dump(document(arms=arms(), data=data)), encoding="utf-8")
    study = found_at(second, tmp_path / "other")
    begin(study, second)
    with session(study, shell(tmp_path)) as opened_again:
        found = walk(opened_again, base=tmp_path, say=lambda _: None).verdict
    assert found.conclusion == "INCONCLUSIVE"
    assert "was opened 2 times; once is allowed" in found.reasons[0]
    assert walked(first).verdict.words == "SUPPORTED", "the first study stays as it was"


def test_an_edited_ledger_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path, document(arms=arms()))
    walked(path)
    ledger = tmp_path / "study" / LEDGER
    ledger.write_text(ledger.read_text().replace('"blocks":2', '"blocks":3'))
    with pytest.raises(LedgerBroken, match="edited"):
        walked(path)


def test_a_changed_plan_is_a_new_plan(tmp_path: Path) -> None:
    path = write(tmp_path, document(arms=arms()))
    walked(path)
    write(tmp_path, document(arms=arms(depth=2)))
    with pytest.raises(ConfigError, match="a changed plan is a new plan"):
        walked(path)


def test_changed_data_undo_what_was_measured(tmp_path: Path) -> None:
    path = write(tmp_path, document(arms=arms()))
    walked(path)
    write(tmp_path, document(arms=arms()), n_prompts=41)
    with pytest.raises(ConfigError, match=r"no longer counts, since data, .*split changed"):
        walked(path)
