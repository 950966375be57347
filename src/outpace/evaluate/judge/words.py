"""Rules and findings as sentences, and outcomes made from them."""

from outpace.evaluate.plan.criteria import Judged
from outpace.evaluate.verdict import Outcome, Status
from outpace.stats import Estimate

METRIC_WORDS = {
    "ttft": "time to first token",
    "tpot": "time per token after the first",
    "e2el": "time to last token",
    "pass_rate": "share of answers that pass their check",
    "failure_rate": "share of requests that fail",
    "tokens_per_s": "tokens per second",
    "goodput": "requests per second that meet all objectives",
    "cost_per_useful_outcome": "cost per useful answer",
    "energy_per_token": "energy per token",
    "peak_memory": "peak memory",
}
_NOT_YET = "not measured yet"


def sure(alpha: float) -> str:
    """The level of a one-sided bound, in words."""
    return f"{100 * (1 - alpha):g} % bound"


def number(value: float) -> str:
    """A ratio or share as it is read: three digits, those that are 0 too."""
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:#.3g}" if abs(value) >= 1e-3 else f"{value:.3g}"


def milliseconds(seconds: float) -> str:
    """A time as it is read."""
    value = 1000 * seconds
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def interval(low: float | None, high: float | None) -> str:
    """The bounds; nothing where there are none."""
    return "" if low is None or high is None else f" [{number(low)}, {number(high)}]"


def percent(value: float) -> str:
    """A share."""
    return f"{100 * value:.3g} %"


def units(n: int, name: str = "prompt") -> str:
    """So many of something."""
    return f"{n} {name}" if n == 1 else f"{n} {name}s"


def nothing(c: Judged, rule: str, why: str = "no data") -> Outcome:
    """A criterion without data after its phase: silence fails what must have data."""
    status: Status = "FAIL" if c.must_have_data else "INCONCLUSIVE"
    return Outcome(id=c.id, status=status, rule=rule, found=why)


def too_early(name: str, rule: str, phase: str) -> Outcome:
    """A criterion whose phase is not done."""
    return Outcome(
        id=name, status="INCONCLUSIVE", rule=rule, found=f"{_NOT_YET}: {phase} is not done"
    )


def invalid(name: str, rule: str, reasons: tuple[str, ...], records: tuple[int, ...]) -> Outcome:
    """A comparison that does not count."""
    return Outcome(
        id=name, status="INVALID", rule=rule, found="; ".join(reasons), records=records
    )  # fmt: skip


def above(estimate: Estimate, limit: float) -> Status:
    """Is it shown to exceed the limit? PASS yes, FAIL shown not to, else INCONCLUSIVE."""
    if estimate.low is None or estimate.high is None:
        return "INCONCLUSIVE"
    return "PASS" if estimate.low > limit else "FAIL" if estimate.high < limit else "INCONCLUSIVE"


def at_most(estimate: Estimate, limit: float) -> Status:
    """Is it shown to be at most the limit? PASS yes, FAIL shown to exceed it."""
    if estimate.low is None or estimate.high is None:
        return "INCONCLUSIVE"
    return "PASS" if estimate.high <= limit else "FAIL" if estimate.low > limit else "INCONCLUSIVE"


def with_one(estimate: Estimate, words: str) -> str:
    """Words on an estimate; with one unit there is no interval, and it says so."""
    return words if estimate.low is not None else f"{words}; one unit has no interval"


def points(share: float) -> str:
    """A difference of shares, in percentage points."""
    return f"{100 * share:+.2f} points"


def points_between(e: Estimate) -> str:
    """Its bounds; nothing where there are none."""
    if e.low is None or e.high is None:
        return ""
    return f" [{100 * e.low:+.2f}, {100 * e.high:+.2f}]"
