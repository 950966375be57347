"""Tails: how many requests exceed a limit, and are there more of them than with another arm?"""

from collections.abc import Iterable

from outpace.evaluate.judge.effects import share_difference, time_of
from outpace.evaluate.judge.evidence import Evidence, Row, Where
from outpace.evaluate.judge.words import at_most, nothing, percent, points, points_between, units
from outpace.evaluate.plan.criteria import Exceedance
from outpace.evaluate.verdict import Outcome
from outpace.stats import clopper_pearson, level_of


def exceedance(evidence: Evidence, c: Exceedance, where: Where, rule: str) -> Outcome:
    """Under load each arrival is a unit; else a prompt is, over if any of its answers was."""
    rows = evidence.requests(where, c.arm)
    unit = "request" if where.phase == "load" else "prompt"
    over = _over(rows, c, each=unit == "request")
    share = clopper_pearson(sum(over), len(over), level=level_of(c.alpha))
    if share is None:
        return nothing(c, rule)
    found = f"{sum(over)} of {units(len(over), unit)} over"
    lines = tuple(sorted(row.line for row in rows))
    first = Outcome(
        id=f"{c.id}/limit", status=at_most(share, 1 - c.quantile), rule=rule,
        found=f"{found}: at most {percent(share.high or 1.0)}", estimate=share.value,
        low=share.low, high=share.high, n=share.n, records=lines,
    )  # fmt: skip
    parts = [first]
    if c.not_worse_than is not None:
        parts.append(_not_worse(evidence, c, where, rule))
    worst = max(parts, key=lambda o: ("PASS", "INCONCLUSIVE", "FAIL").index(o.status))
    return Outcome(
        id=c.id, status=worst.status, rule=rule, found="; ".join(p.found for p in parts),
        estimate=share.value, low=share.low, high=share.high, n=share.n,
        parts=tuple(parts) if len(parts) > 1 else (), records=lines,
    )  # fmt: skip


def _not_worse(evidence: Evidence, c: Exceedance, where: Where, rule: str) -> Outcome:
    against = c.not_worse_than or c.against
    pairs = evidence.pairs(where, arm=c.arm, against=against)
    effect = share_difference(pairs, lambda row: _is_over(row, c), level=level_of(c.alpha))
    made = effect.estimate
    if made is None:
        return Outcome(
            id=f"{c.id}/not_worse", status="INCONCLUSIVE", rule=rule,
            found=f"{against} answered none of the same requests",
        )  # fmt: skip
    return Outcome(
        id=f"{c.id}/not_worse", status=at_most(made, c.margin), rule=rule,
        found=f"{points(made.value)}{points_between(made)} against {against}",
        estimate=made.value, low=made.low, high=made.high, n=made.n, records=effect.records,
    )  # fmt: skip


def _over(rows: Iterable[Row], c: Exceedance, *, each: bool) -> list[bool]:
    if each:
        return [_is_over(row, c) for row in rows]
    found: dict[tuple[str, float], bool] = {}
    for row in rows:
        key = (row.m.request.item, row.m.temperature)
        found[key] = found.get(key, False) or _is_over(row, c)
    return list(found.values())


def _is_over(row: Row, c: Exceedance) -> bool:
    """A request that failed is over any limit; one that has no such time is not."""
    if not row.m.request.ok:
        return True
    value = time_of(row, c.metric)
    return value is not None and value * 1000 > c.limit_ms
