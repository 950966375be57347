"""Numbers as the page and the console show them; "no data" where there is none."""

from outpace.evaluate.judge.words import milliseconds, number, percent
from outpace.stats import Estimate

NO_DATA = "no data"
NAMES = {"ttft": "time to first token", "tpot": "time per token", "e2el": "time to last token"}


def times(estimate: Estimate | None) -> str:
    """A ratio with its interval: 1.25 × [1.20, 1.31]."""
    if estimate is None:
        return NO_DATA
    return f"{number(estimate.value)} ×{between(estimate)}"


def between(estimate: Estimate) -> str:
    """The interval alone."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f" [{number(estimate.low)}, {number(estimate.high)}]"


def ms(seconds: float | None) -> str:
    """Seconds as milliseconds."""
    if seconds is None:
        return NO_DATA
    return milliseconds(seconds)


def plain(value: float | None) -> str:
    """A number, or that there is none."""
    return NO_DATA if value is None else number(value)


def share(value: float | None) -> str:
    """A share in percent."""
    return NO_DATA if value is None else percent(value)


def megabytes(value: int | None) -> str:
    """Bytes as megabytes."""
    return NO_DATA if value is None else f"{value / 1e6:,.0f} MB"


def lines(ranges: str) -> str:
    """Line ranges as they are read: 1–61 (every 3rd), 70."""
    made = []
    for part in ranges.split(",") if ranges else ():
        whole, _, by = part.partition("/")
        made.append(whole.replace("-", "–") + (f" (every {ordinal(int(by))})" if by else ""))
    return ", ".join(made)


def ordinal(n: int) -> str:
    """2 -> 2nd."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{'th' if n % 100 in (11, 12, 13) else ending}"
