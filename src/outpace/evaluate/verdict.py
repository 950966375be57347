"""From what every criterion showed to one verdict, and to the exit code.

    critical or primary FAIL                             -> REFUTED
    any INVALID                                          -> INVALID
    primary and every critical PASS, nothing FAIL        -> SUPPORTED
    else                                                 -> INCONCLUSIVE

in this order. A criterion that must have data (critical, primary) and has none is a FAIL; another
without data is INCONCLUSIVE. SUPPORTED is *unconfirmed* until the confirmation set agreed, and a
confirmation set opened twice is spent: it caps the verdict at INCONCLUSIVE.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Literal

from outpace.evaluate.plan.document import Plan
from outpace.evaluate.plan.probes import FAILURE_MODE

Status = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID"]
Conclusion = Literal["SUPPORTED", "REFUTED", "INCONCLUSIVE", "INVALID"]
EXIT_CODES: Mapping[Conclusion, int] = {
    "SUPPORTED": 0,
    "REFUTED": 1,
    "INCONCLUSIVE": 2,
    "INVALID": 3,
}
EXIT_USAGE = 4
_WORSE: tuple[Status, ...] = ("PASS", "INCONCLUSIVE", "INVALID", "FAIL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A criterion that the plan promised to judge."""

    id: str
    critical: bool
    primary: bool

    @property
    def must_have_data(self) -> bool:
        """Whether silence is a FAIL."""
        return self.critical or self.primary


def promised(plan: Plan) -> tuple[Expected, ...]:
    """What a plan says will be judged, the failure mode included if it is probed."""
    made = [Expected(id=c.id, critical=c.critical, primary=c.primary) for c in plan.criteria]
    if plan.failure_mode is not None:
        critical = plan.failure_mode.critical
        made.append(Expected(id=FAILURE_MODE, critical=critical, primary=False))
    return tuple(made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one criterion showed.

    rule: what was asked, in words with its numbers. found: what was seen, in words. estimate, low,
    high: in the criterion's own unit (ratios: 1 = no difference); None where there is no such
    number. n: independent units. parts: outcomes it was made of (subgroups, cases), for reports.
    records, statements: lines of records.jsonl and ledger.jsonl that it rests on.
    """

    id: str
    status: Status
    rule: str
    found: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    parts: tuple["Outcome", ...] = ()
    records: tuple[int, ...] = ()
    statements: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.id or not self.rule:
            raise ValueError("an outcome names its criterion and its rule")
        if self.n < 0:
            raise ValueError(f"n is {self.n}; allowed: 0 or more")
        if self.low is not None and self.high is not None and not self.low <= self.high:
            raise ValueError(
                f"bounds {self.low} to {self.high} of {self.id} are the wrong way round"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The conclusion, the reasons in words, and the outcomes it rests on, missing ones filled."""

    conclusion: Conclusion
    confirmed: bool
    reasons: tuple[str, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def exit_code(self) -> int:
        """Of the command."""
        return EXIT_CODES[self.conclusion]

    @property
    def words(self) -> str:
        """As it is printed."""
        open_ = self.conclusion == "SUPPORTED" and not self.confirmed
        return f"{self.conclusion} (unconfirmed)" if open_ else self.conclusion


def decide(
    expected: Seq[Expected],
    outcomes: Iterable[Outcome],
    *,
    confirmed: bool = False,
    n_openings: int = 0,
) -> Verdict:
    """The verdict.

    confirmed: the confirmation set was judged, and these outcomes include it. n_openings: how
    often it was opened (`ledger.State.n_openings`).

    Raises:
        ValueError: an outcome nobody expected, or two of one criterion.
    """
    judged = _complete(expected, outcomes)
    role = {e.id: e for e in expected}
    failed = [o for o in judged if o.status == "FAIL"]
    fatal = [o for o in failed if role[o.id].must_have_data]
    invalid = [o for o in judged if o.status == "INVALID"]
    unsure = [o for o in judged if role[o.id].must_have_data and o.status != "PASS"]
    conclusion: Conclusion
    if fatal:
        conclusion, why = "REFUTED", [_line(o) for o in fatal]
    elif invalid:
        conclusion, why = "INVALID", [_line(o) for o in invalid]
    elif failed or unsure or not any(e.primary for e in expected):
        conclusion, why = "INCONCLUSIVE", [_line(o) for o in dict.fromkeys((*failed, *unsure))]
        if not any(e.primary for e in expected):
            why.append("no criterion is primary")
    else:
        conclusion = "SUPPORTED"
        why = [_line(o) for o in judged if role[o.id].must_have_data]
    if n_openings > 1 and conclusion == "SUPPORTED":
        conclusion = "INCONCLUSIVE"
        why.insert(0, f"the confirmation set was opened {n_openings} times; once is allowed")
    return Verdict(
        conclusion=conclusion,
        confirmed=confirmed and n_openings == 1,
        reasons=tuple(why),
        outcomes=judged,
    )


def agreeing(test: Outcome, confirmation: Outcome) -> Outcome:
    """One criterion judged on the test set and on the confirmation set: the worse of the two.

    The numbers are those of the confirmation, which nobody could look at before; both are parts.
    """
    worse = max(test, confirmation, key=lambda o: _WORSE.index(o.status))
    return replace(
        confirmation,
        status=worse.status,
        found=f"test: {test.found}; confirmation: {confirmation.found}",
        parts=(test, confirmation),
        records=(*test.records, *confirmation.records),
        statements=tuple(dict.fromkeys((*test.statements, *confirmation.statements))),
    )


def _complete(expected: Seq[Expected], outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """One outcome per expected criterion, in the plan's order."""
    found: dict[str, Outcome] = {}
    known = {e.id for e in expected}
    for outcome in outcomes:
        if outcome.id not in known or outcome.id in found:
            what = "twice" if outcome.id in found else "and not in the plan"
            raise ValueError(f"criterion {outcome.id!r} was judged {what}")
        found[outcome.id] = outcome
    return tuple(found.get(e.id) or _missing(e) for e in expected)


def _missing(expected: Expected) -> Outcome:
    return Outcome(
        id=expected.id,
        status="FAIL" if expected.must_have_data else "INCONCLUSIVE",
        rule="judged as planned",
        found="no data",
    )


def _line(outcome: Outcome) -> str:
    return f"{outcome.id} {outcome.status}: {outcome.found}"
