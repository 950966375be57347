"""Truths planted in simulated studies come out as they are."""

from collections.abc import Sequence as Seq

import pytest
from pydantic import JsonValue

from evaluate.plans import plan as whole
from evaluate.simulated import CATEGORIES, Study, Truth, studied, verified
from outpace.evaluate.judge import conclude, judge
from outpace.evaluate.plan.document import Plan
from outpace.evaluate.verdict import Outcome, Verdict
from outpace.stats import clopper_pearson

SPEED = {
    "id": "speed", "type": "superiority", "metric": "e2el", "min_effect": 1.15, "primary": True,
}  # fmt: skip
EXACT = {"id": "exact_text", "type": "same_text", "critical": True}


def plan(*criteria: dict[str, object], blocks: int = 2) -> Plan:
    return whole(
        ("criteria", list(criteria)),
        ("decision.falsified_by", [str(c["id"]) for c in criteria]),
        ("failure_mode", ...),
        ("arms.fallback", ...),
        ("design.blocks", blocks),
    )


def concluded(study: Study) -> Verdict:
    return conclude(study.plan, study.measurements, study.statements)


def judged(study: Study) -> dict[str, Outcome]:
    return {o.id: o for o in judge(study.plan, study.measurements, study.statements)}


WRONG = dict.fromkeys(CATEGORIES, 0.0)
SAME = Truth(kept=WRONG, overhead=0.0, n_items=24)  # guesses that cost and bring nothing
SLOWER = Truth(kept=WRONG, overhead=0.075)  # four wrong guesses a pass: 1.3 times the time


def test_equal_arms_are_never_supported_and_seldom_called_faster() -> None:
    """200 plans, each with its own noise; the last claim is at the boundary, where it is right to
    be wrong as often as alpha."""
    faster = {**SPEED, "id": "faster", "min_effect": 1.02, "primary": False}
    any_faster = {**faster, "id": "any_faster", "min_effect": 1.0}
    made = plan(EXACT, SPEED, faster, any_faster)
    claims = dict.fromkeys(("speed", "faster", "any_faster"), 0)
    for seed in range(200):
        study = studied(made, SAME, seed=seed)
        verdict = concluded(study)
        assert verdict.conclusion != "SUPPORTED", seed
        for outcome in verdict.outcomes:
            if outcome.id in claims:
                claims[outcome.id] += outcome.status == "PASS"
    assert claims["speed"] == 0
    assert claims["faster"] <= 10, "at most 5 %"
    rate = clopper_pearson(claims["any_faster"], 200, level=0.98)
    assert rate is not None
    assert rate.low is not None
    assert rate.low <= 0.05


def test_a_slower_arm_is_refuted() -> None:
    for seed in range(10):
        verdict = concluded(studied(plan(EXACT, SPEED), SLOWER, seed=seed))
        assert verdict.conclusion == "REFUTED"
        assert "speed FAIL" in verdict.reasons[0]
        speed = next(o for o in verdict.outcomes if o.id == "speed")
        assert speed.estimate == pytest.approx(1 / 1.3, rel=0.08)


def test_a_faster_arm_is_supported_and_then_confirmed() -> None:
    made = plan(EXACT, SPEED)
    verdict = concluded(studied(made))
    assert verdict.words == "SUPPORTED (unconfirmed)"
    confirmed = concluded(studied(made, confirm=True))
    assert confirmed.words == "SUPPORTED"
    speed = next(o for o in confirmed.outcomes if o.id == "speed")
    assert [part.status for part in speed.parts] == ["PASS", "PASS"]


def test_a_confirmation_opened_twice_is_spent() -> None:
    study = studied(plan(EXACT, SPEED), confirm=True)
    study.say("confirm", event="opened")
    verdict = concluded(study)
    assert verdict.conclusion == "INCONCLUSIVE"
    assert "opened 2 times" in verdict.reasons[0]


def test_a_confirmation_that_disagrees_counts_more() -> None:
    study = Study(plan(EXACT, SPEED), Truth(), seed=1)
    study.verify()
    study.measure("test")
    study.say("test")
    study.say("confirm", event="opened")
    study.truth = SLOWER
    study.measure("confirm")
    study.say("confirm")
    assert concluded(study).conclusion == "REFUTED"


@pytest.mark.parametrize("verdict", ["mismatch", "tie"])
def test_a_lossy_arm_is_refuted_however_fast(verdict: str) -> None:
    body = verified()
    texts = body["texts"]
    assert isinstance(texts, list)
    first = texts[0]
    assert isinstance(first, dict)
    first.update(verdict=verdict, at=17, margin=4.1, noise=0.01)
    outcome = concluded(studied(plan(EXACT, SPEED), texts=texts))
    assert outcome.conclusion == ("REFUTED" if verdict == "mismatch" else "SUPPORTED")
    strict = concluded(studied(plan({**EXACT, "max_ties": 0}, SPEED), texts=texts))
    assert strict.conclusion == "REFUTED"


def test_a_mismatch_where_the_baseline_parts_from_itself_decides_nothing() -> None:
    body = verified()
    texts = body["texts"]
    assert isinstance(texts, list)
    first = texts[0]
    assert isinstance(first, dict)
    first.update(verdict="mismatch", control="mismatch", at=3)
    verdict = concluded(studied(plan(EXACT, SPEED), texts=texts))
    assert verdict.conclusion == "INCONCLUSIVE"
    assert "parts from itself" in verdict.reasons[0]


def test_a_wrong_law_is_refuted() -> None:
    law = {"id": "exact_law", "type": "exact_law", "critical": True}
    worst: dict[str, JsonValue] = {
        "tol": 1e-12,
        "worst": 3e-4,
        "paths": 100,
        "cases": 1,
        "at": "x",
        "seconds": 1,
    }
    assert concluded(studied(plan(law, SPEED), exact_law=worst)).conclusion == "REFUTED"
    assert concluded(studied(plan(law, SPEED))).conclusion == "SUPPORTED"
    assert concluded(studied(plan(law, SPEED), exact_law=None)).conclusion == "REFUTED"


@pytest.mark.parametrize(
    ("p_values", "tv", "conclusion"),
    [
        ([0.4, 0.03, 0.2], 0.05, "SUPPORTED"),
        ([0.4, 0.003, 0.2], 0.05, "REFUTED"),
        ([0.4, 0.5], 0.3, "INCONCLUSIVE"),
        ([], 0.05, "REFUTED"),
    ],
)
def test_sampled_laws(p_values: Seq[float], tv: float, conclusion: str) -> None:
    """Three tests share one level: 0.004 each would be too many claims, so Holm's; and a test
    that could not have seen anything supports nothing."""
    law = {"id": "law", "type": "same_law", "critical": True, "alpha": 0.01, "max_tv": 0.1}
    found: list[JsonValue] = [
        {"prompt": "p", "temperature": 1.0, "test": "known law", "p_value": p, "n": 400,
         "detectable_tv": tv}
        for p in p_values
    ]  # fmt: skip
    study = studied(plan(law, SPEED), laws={"candidate": found})
    assert concluded(study).conclusion == conclusion


def test_too_little_data_is_inconclusive() -> None:
    few = Truth(n_items=3, noise=0.5)
    verdict = concluded(studied(plan(EXACT, SPEED), few, seed=4))
    assert verdict.conclusion == "INCONCLUSIVE"
    one = concluded(studied(plan(EXACT, SPEED), Truth(n_items=1)))
    assert one.conclusion == "INCONCLUSIVE"
    assert "one unit has no interval" in one.reasons[0]


def test_missing_data_fails_what_must_have_it() -> None:
    energy = {"id": "energy", "type": "non_inferiority", "metric": "energy_per_token",
              "margin_ratio": 1.1}  # fmt: skip
    study = studied(plan(EXACT, SPEED, energy))
    assert judged(study)["energy"].status == "INCONCLUSIVE"
    assert concluded(study).conclusion == "SUPPORTED"
    needed = studied(plan(EXACT, SPEED, {**energy, "critical": True}))
    assert judged(needed)["energy"].status == "FAIL"
    assert "does not report energy" in judged(needed)["energy"].found
    assert concluded(needed).conclusion == "REFUTED"


def test_nothing_is_judged_before_its_phase_is_done() -> None:
    study = Study(plan(EXACT, SPEED), Truth())
    assert {o.status for o in judged(study).values()} == {"INCONCLUSIVE"}
    study.verify()
    study.measure("test")
    found = judged(study)
    assert found["exact_text"].status == "PASS"
    assert (found["speed"].status, "not measured yet" in found["speed"].found) == (
        "INCONCLUSIVE", True,
    )  # fmt: skip


def test_a_changed_plan_undoes_what_was_measured() -> None:
    study = studied(plan(EXACT, SPEED))
    other = plan(EXACT, {**SPEED, "min_effect": 1.01})
    verdict = conclude(other, study.measurements, study.statements)
    assert verdict.conclusion == "REFUTED", "no record is of this plan"
    assert "no data" in verdict.reasons[0]
