"""A metric of two arms -> an estimate of their difference, with its lines.

`Effect.estimate` of ratios is the *gain*: above 1 the arm is better, whichever direction of the
metric that is. Differences are arm minus baseline.
"""

import math
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from outpace.evaluate.judge.blocks import per_block
from outpace.evaluate.judge.evidence import Evidence, Pair, Row, Where, by_item, lines_of
from outpace.evaluate.plan.criteria import METRICS
from outpace.stats import (
    Estimate,
    geometric_mean_ratio,
    p_ratio_above,
    paired_difference,
    ratio_of_totals,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """An estimate (None: no data, and `problem` says why), the units, and the lines behind it."""

    estimate: Estimate | None
    unit: str
    records: tuple[int, ...]
    problem: str = ""


def time_of(row: Row, metric: str) -> float | None:
    """A request's time in seconds; None where it has none."""
    value: float | None = getattr(row.m.request, f"{metric}_s")
    return value if value is not None and value > 0 else None


def timed(pairs: Seq[Pair], metric: str) -> list[Pair]:
    """Pairs in which both have the time."""
    return [
        p for p in pairs if p.ok and time_of(p.base, metric) and time_of(p.other, metric)
    ]  # fmt: skip


def times_by_item(pairs: Seq[Pair], metric: str) -> tuple[list[float], list[float]]:
    """Geometric means over each item's pairs: baseline's, arm's."""
    base: list[float] = []
    other: list[float] = []
    for group in by_item(timed(pairs, metric)).values():
        for made, rows in ((base, [p.base for p in group]), (other, [p.other for p in group])):
            logs = [math.log(time_of(row, metric) or 1.0) for row in rows]
            made.append(math.exp(sum(logs) / len(logs)))
    return base, other


def gain(
    evidence: Evidence,
    where: Where,
    *,
    metric: str,
    arm: str,
    against: str,
    level: float,
    totals: bool = False,
) -> Effect:
    """How many times better an arm is; ratios of pairs by item, or of blocks."""
    if METRICS[metric].per == "block":
        return _gain_of_blocks(evidence, where, metric, arm, against, level)
    pairs = timed(evidence.pairs(where, arm=arm, against=against), metric)
    return gain_of_pairs(pairs, metric, level=level, totals=totals)


def gain_of_pairs(
    pairs: Seq[Pair], metric: str, *, level: float, totals: bool = False
) -> Effect:  # fmt: skip
    """The same for given pairs of times."""
    kept = timed(pairs, metric)
    if totals:
        estimate = ratio_of_totals(
            [time_of(p.base, metric) or 0.0 for p in kept],
            [time_of(p.other, metric) or 0.0 for p in kept],
            clusters=[p.item for p in kept],
            level=level,
        )
    else:
        estimate = geometric_mean_ratio(*times_by_item(kept, metric), level=level)
    return Effect(
        estimate=estimate, unit="prompt", records=lines_of(kept),
        problem="" if estimate else "no pair was answered by both arms",
    )  # fmt: skip


def p_slower(pairs: Seq[Pair], metric: str, margin: float) -> float | None:
    """One-sided p-value of "at most `margin` times as slow"."""
    base, other = times_by_item(pairs, metric)
    return p_ratio_above(other, base, margin)


def difference(
    evidence: Evidence, where: Where, *, metric: str, arm: str, against: str, level: float
) -> Effect:
    """Arm minus baseline of a share, over items."""
    asked = evidence.pairs(where, arm=arm, against=against)
    if metric == "pass_rate":
        kept = [p for p in asked if _graded(p.base) is not None and _graded(p.other) is not None]
        return share_difference(kept, lambda row: bool(_graded(row)), level=level)
    return share_difference(asked, lambda row: not row.m.request.ok, level=level)


def share_difference(pairs: Seq[Pair], has: Callable[[Row], bool], *, level: float) -> Effect:
    """The difference of the shares of rows that have a property; an item is one unit."""
    gained = lost = 0.0
    groups = by_item(pairs)
    for group in groups.values():
        moved = sum(has(p.other) - has(p.base) for p in group) / len(group)
        gained, lost = gained + max(moved, 0.0), lost + max(-moved, 0.0)
    estimate = paired_difference(gained, lost, len(groups), level=level)
    return Effect(
        estimate=estimate, unit="prompt", records=lines_of(pairs),
        problem="" if estimate else "no pair of answers was checked",
    )  # fmt: skip


def inverse(estimate: Estimate) -> Estimate:
    """1 / ratio: a gain as how many times worse."""
    return Estimate(
        value=1 / estimate.value,
        low=None if estimate.high is None else 1 / estimate.high,
        high=None if estimate.low is None else 1 / estimate.low,
        n=estimate.n,
    )


def _graded(row: Row) -> bool | None:
    """What the check said; an answer that never came did not pass it."""
    if not row.m.request.ok:
        return False if row.m.grade is not None else None
    return row.m.grade.passed if row.m.grade is not None else None


def _gain_of_blocks(
    evidence: Evidence, where: Where, metric: str, arm: str, against: str, level: float
) -> Effect:
    base = per_block(evidence, where, against, metric)
    other = per_block(evidence, where, arm, metric)
    both = [key for key in base if key in other]
    lines = tuple(sorted({n for key in both for n in (*base[key][1], *other[key][1])}))
    if not both:
        return Effect(estimate=None, unit="block", records=lines, problem=_why_none(metric))
    never = next(
        (name for name, found in ((against, base), (arm, other))
         if any(not 0 < found[key][0] < math.inf for key in both)),
        None,
    )  # fmt: skip
    if never is not None:
        return Effect(
            estimate=None, unit="block", records=lines,
            problem=f"a block of {never} had no useful answer: no ratio can be formed",
        )  # fmt: skip
    a, b = [base[key][0] for key in both], [other[key][0] for key in both]
    over, under = (b, a) if METRICS[metric].better == "higher" else (a, b)
    return Effect(
        estimate=geometric_mean_ratio(over, under, level=level), unit="block", records=lines
    )


def _why_none(metric: str) -> str:
    reasons = {
        "goodput": "no objectives, or no block was finished by both arms",
        "cost_per_useful_outcome": "processor time was not reported, or no block was finished",
        "energy_per_token": "the machine does not report energy",
        "peak_memory": "memory was not reported",
    }
    return reasons.get(metric, "no block was finished by both arms")
