"""The table of verdicts, complete: every combination of roles and statuses."""

from itertools import product

import pytest

from evaluate.plans import plan
from outpace.evaluate.verdict import (
    EXIT_CODES,
    EXIT_USAGE,
    Expected,
    Outcome,
    Status,
    agreeing,
    decide,
    promised,
)

STATUSES: tuple[Status, ...] = ("PASS", "FAIL", "INCONCLUSIVE", "INVALID")
ROLES = ("primary", "critical", "other", "both")


def expected(name: str, role: str) -> Expected:
    return Expected(
        id=name, critical=role in ("critical", "both"), primary=role in ("primary", "both")
    )


def outcome(name: str, status: Status) -> Outcome:
    return Outcome(id=name, status=status, rule="at most 0", found="0")


def sentence(rows: list[tuple[str, Status]], n_openings: int) -> str:
    """Section 4 of the design, read aloud over sets."""
    must = {s for role, s in rows if role != "other"}
    every = {s for _, s in rows}
    has_primary = any(role in ("primary", "both") for role, _ in rows)
    if "FAIL" in must:
        return "REFUTED"
    if "INVALID" in every:
        return "INVALID"
    if has_primary and must == {"PASS"} and "FAIL" not in every:
        return "SUPPORTED" if n_openings <= 1 else "INCONCLUSIVE"
    return "INCONCLUSIVE"


def test_every_combination_of_up_to_four_criteria() -> None:
    kinds = list(product(ROLES, STATUSES))
    n_seen = 0
    for n in range(1, 4):
        for rows in product(kinds, repeat=n):
            for n_openings in (0, 1, 2):
                verdict = decide(
                    [expected(str(i), role) for i, (role, _) in enumerate(rows)],
                    [outcome(str(i), status) for i, (_, status) in enumerate(rows)],
                    n_openings=n_openings,
                    confirmed=n_openings > 0,
                )
                assert verdict.conclusion == sentence(list(rows), n_openings), rows
                assert verdict.exit_code == EXIT_CODES[verdict.conclusion]
                assert verdict.reasons or verdict.conclusion == "INCONCLUSIVE", rows
                n_seen += 1
    assert n_seen == 3 * (16 + 16**2 + 16**3)


def test_a_plan_promises_all_its_criteria() -> None:
    made = promised(plan(("failure_mode.critical", True)))
    assert [e.id for e in made] == list(plan().criterion_ids)
    assert [e.id for e in made if e.primary] == ["speed"]
    assert [e.id for e in made if e.critical] == ["exact_law", "exact_text", "failure_mode"]
    assert "failure_mode" not in [e.id for e in promised(plan(("failure_mode", ...)))]


def test_exit_codes() -> None:
    assert EXIT_CODES == {"SUPPORTED": 0, "REFUTED": 1, "INCONCLUSIVE": 2, "INVALID": 3}
    assert EXIT_USAGE == 4


@pytest.mark.parametrize(
    ("role", "status", "conclusion"),
    [
        ("critical", "FAIL", "REFUTED"),
        ("primary", "FAIL", "REFUTED"),
        ("other", "INCONCLUSIVE", "SUPPORTED"),
    ],
)
def test_missing_data_fails_what_must_have_data(role: str, status: Status, conclusion: str) -> None:
    verdict = decide(
        [expected("speed", "primary"), expected("x", role)], [outcome("speed", "PASS")]
    )
    assert verdict.outcomes[1].status == status
    assert verdict.outcomes[1].found == "no data"
    assert verdict.conclusion == conclusion


def test_nothing_expected_supports_nothing() -> None:
    assert decide([], []).conclusion == "INCONCLUSIVE"


def test_supported_is_unconfirmed_until_the_confirmation_agreed() -> None:
    claim, passed = [expected("speed", "primary")], [outcome("speed", "PASS")]
    assert decide(claim, passed).words == "SUPPORTED (unconfirmed)"
    assert decide(claim, passed, confirmed=True, n_openings=1).words == "SUPPORTED"
    capped = decide(claim, passed, confirmed=True, n_openings=2)
    assert (capped.words, capped.confirmed) == ("INCONCLUSIVE", False)
    assert "opened 2 times" in capped.reasons[0]
    failed = decide(claim, [outcome("speed", "FAIL")], confirmed=True, n_openings=2)
    assert failed.conclusion == "REFUTED", "a cap lifts nothing"


def test_test_and_confirmation_together_are_the_worse() -> None:
    order = ["PASS", "INCONCLUSIVE", "INVALID", "FAIL"]
    for a, b in product(STATUSES, STATUSES):
        both = agreeing(outcome("x", a), outcome("x", b))
        assert both.status == max(a, b, key=order.index)
        assert [part.status for part in both.parts] == [a, b]


def test_outcomes_that_nobody_asked_for_are_refused() -> None:
    with pytest.raises(ValueError, match="not in the plan"):
        decide([], [outcome("x", "PASS")])
    with pytest.raises(ValueError, match="twice"):
        decide([expected("x", "other")], [outcome("x", "PASS"), outcome("x", "FAIL")])


@pytest.mark.parametrize("changes", [{"rule": ""}, {"n": -1}, {"low": 2.0, "high": 1.0}])
def test_an_outcome_checks_itself(changes: dict[str, object]) -> None:
    fields: dict[str, object] = {"id": "x", "status": "PASS", "rule": "r", "found": "f", **changes}
    with pytest.raises(ValueError, match=r"rule|n is|wrong way"):
        Outcome(**fields)  # type: ignore[arg-type]
