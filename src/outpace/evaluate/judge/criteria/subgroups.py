"""Subgroups: is the arm no worse in any of them?"""

from collections.abc import Iterable, Mapping

from outpace.evaluate.judge.effects import gain_of_pairs, inverse, p_slower
from outpace.evaluate.judge.evidence import Evidence, Pair, Row, Where, by_item
from outpace.evaluate.judge.words import at_most, interval, nothing, number, units
from outpace.evaluate.plan.criteria import Subgroups
from outpace.evaluate.verdict import Outcome, Status
from outpace.stats import holm, level_of


def subgroups(evidence: Evidence, c: Subgroups, where: Where, rule: str) -> Outcome:
    """All pass: no correction. One fails: Holm's, as any of many could by chance."""
    pairs = evidence.pairs(where, arm=c.arm, against=c.against)
    groups = grouped(evidence, pairs)
    if not groups:
        return nothing(c, rule, "no subgroup has a pair that both arms answered")
    large = {k: g for k, g in groups.items() if len(by_item(g)) >= c.min_n}
    p_values = {k: p_slower(g, c.metric, c.margin_ratio) for k, g in large.items()}
    known = [k for k, p in p_values.items() if p is not None]
    adjusted = dict(zip(known, holm([p_values[k] or 0.0 for k in known]), strict=True))
    parts = tuple(
        _subgroup(
            c, rule, name, group, worse=adjusted.get(name, 1.0) <= c.alpha, large=name in large
        )
        for name, group in groups.items()
    )
    statuses = {part.status for part in parts}
    status: Status = "PASS" if statuses == {"PASS"} else "INCONCLUSIVE"
    if "FAIL" in statuses:
        status = "FAIL"
    failed = [p for p in parts if p.status == "FAIL"]
    measured = failed or [p for p in parts if p.estimate is not None]
    worst = max(measured, key=lambda p: p.estimate or 0.0, default=parts[0])
    count = sum(p.status == "PASS" for p in parts)
    return Outcome(
        id=c.id, status=status, rule=rule,
        found=f"{count} of {units(len(parts), 'subgroup')} pass; worst {worst.id}: {worst.found}",
        estimate=worst.estimate, low=worst.low, high=worst.high, n=worst.n, parts=parts,
        records=tuple(sorted({n for p in parts for n in p.records})),
    )  # fmt: skip


def _subgroup(
    c: Subgroups, rule: str, name: str, pairs: list[Pair], *, worse: bool, large: bool
) -> Outcome:  # fmt: skip
    effect = gain_of_pairs(pairs, c.metric, level=level_of(c.alpha))
    if effect.estimate is None:
        return Outcome(id=name, status="INCONCLUSIVE", rule=rule, found=effect.problem)
    made = inverse(effect.estimate)
    passed = large and at_most(made, c.margin_ratio) == "PASS"
    status: Status = "PASS" if passed else "FAIL" if worse and large else "INCONCLUSIVE"
    found = f"{number(made.value)} times{interval(made.low, made.high)}, {units(made.n)}"
    return Outcome(
        id=name, status=status, rule=rule,
        found=found if large else f"{found}; {c.min_n} are needed",
        estimate=made.value, low=made.low, high=made.high, n=made.n, records=effect.records,
    )  # fmt: skip


def grouped(evidence: Evidence, pairs: Iterable[Pair]) -> Mapping[str, list[Pair]]:
    """Pairs by `factor=value`, for each factor the plan names."""
    found: dict[str, list[Pair]] = {}
    kept = list(pairs)
    for factor in evidence.plan.data.subgroups:
        for pair in kept:
            value = _factor(pair.base, factor)
            if value is not None:
                found.setdefault(f"{factor}={value}", []).append(pair)
    return found


def _factor(row: Row, factor: str) -> str | None:
    given = row.m.subgroups.get(factor)
    if given is None and factor == "temperature":
        return f"{row.m.temperature:g}"
    return row.m.request.category if given is None and factor == "category" else given
