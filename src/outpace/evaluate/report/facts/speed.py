"""How fast: pairs, blocks, three estimators, distributions, and where the candidate lost most."""

from collections.abc import Iterable

from outpace.bench.summary import acceptance
from outpace.evaluate.judge.criteria.subgroups import grouped
from outpace.evaluate.judge.effects import gain_of_pairs, inverse, time_of, timed, times_by_item
from outpace.evaluate.judge.evidence import Pair, by_item, lines_of
from outpace.evaluate.plan.criteria import Subgroups, Superiority
from outpace.evaluate.plan.document import BASELINE, CANDIDATE
from outpace.evaluate.report.figures import (
    Bar,
    Curve,
    PairPoint,
    Regression,
    Source,
    Speed,
    spans,
)
from outpace.evaluate.report.study import TEST, Reported
from outpace.evaluate.verdict import Outcome
from outpace.stats import quantile, ratio_of_medians

METRICS = ("ttft", "tpot", "e2el")
N_WORST = 10


def main_pairs(study: Reported, metric: str = "e2el") -> list[Pair]:
    """Pairs of baseline and candidate in the test that have the time."""
    return timed(study.evidence.pairs(TEST, arm=CANDIDATE, against=BASELINE), metric)


def primary_metric(study: Reported) -> str:
    """The time that the plan's claim is about; time to the last token where it is about others."""
    claims = [c for c in study.evidence.plan.criteria if c.primary and isinstance(c, Superiority)]
    return next((c.metric for c in claims if c.metric in METRICS), "e2el")


def speed(study: Reported) -> Speed | None:
    """None: no pair was answered by both arms."""
    metric = primary_metric(study)
    pairs = main_pairs(study, metric)
    if not pairs:
        return None
    base, other = times_by_item(pairs, metric)
    claims = [c for c in study.evidence.plan.criteria if isinstance(c, Superiority)]
    wanted = [c.min_effect for c in claims if c.metric == metric and c.arm == CANDIDATE]
    return Speed(
        metric=metric,
        pairs=tuple(_point(pair, metric) for pair in pairs),
        blocks=tuple(_blocks(pairs, metric)),
        means=gain_of_pairs(pairs, metric, level=0.95).estimate,
        totals=gain_of_pairs(pairs, metric, level=0.95, totals=True).estimate,
        medians=ratio_of_medians(base, other),
        wanted=wanted[0] if wanted else None,
        source=Source(records=spans(lines_of(pairs))),
    )


def latencies(study: Reported) -> tuple[Curve, ...]:
    """Every time of every arm in the test."""
    made = []
    for metric in METRICS:
        for arm in study.evidence.plan.arms:
            rows = [r for r in study.evidence.requests(TEST, arm) if r.m.request.ok]
            known = sorted(t for t in (time_of(r, metric) for r in rows) if t is not None)
            if known:
                p50, p90, p99 = (quantile(known, q) or 0.0 for q in (0.5, 0.9, 0.99))
                made.append(
                    Curve(
                        metric=metric, arm=arm, values=tuple(known), p50=p50, p90=p90, p99=p99,
                        source=Source(records=spans([r.line for r in rows])),
                    )
                )  # fmt: skip
    return tuple(made)


def subgroups(study: Reported) -> tuple[Bar, ...]:
    """Slowdown by subgroup, worst first: judged ones where the plan judges them."""
    judged = next(
        (
            c
            for c in study.evidence.plan.criteria
            if isinstance(c, Subgroups) and c.arm == CANDIDATE
        ),
        None,
    )
    outcome = study.outcome(judged.id) if judged is not None else None
    parts = {p.id: p for p in _test_part(outcome)} if outcome is not None else {}
    metric = judged.metric if judged is not None else "e2el"
    groups = grouped(study.evidence, main_pairs(study, metric))
    made = []
    for name, pairs in groups.items():
        gain = gain_of_pairs(pairs, metric, level=0.95).estimate
        part = parts.get(name)
        made.append(
            Bar(
                name=name, estimate=None if gain is None else inverse(gain),
                status=part.status if part is not None else None,
                source=Source(records=spans(lines_of(pairs))),
            )
        )  # fmt: skip
    return tuple(sorted(made, key=lambda b: -(b.estimate.value if b.estimate else 0.0)))


def regressions(study: Reported) -> tuple[Regression, ...]:
    """The prompts on which the candidate lost most; fewer where it lost on fewer."""
    metric = primary_metric(study)
    made = []
    for item, pairs in by_item(main_pairs(study, metric)).items():
        ((base_s,), (other_s,)) = times_by_item(pairs, metric)
        if base_s < other_s:
            said = acceptance([p.other.m.request for p in pairs])
            made.append(
                Regression(
                    item=item, category=pairs[0].base.m.request.category, gain=base_s / other_s,
                    base_s=base_s, other_s=other_s, lines=lines_of(pairs),
                    length=said.pooled.value if said is not None else None,
                )
            )  # fmt: skip
    return tuple(sorted(made, key=lambda r: r.gain)[:N_WORST])


def n_slower(study: Reported) -> tuple[int, int]:
    """Prompts on which the candidate was slower, and all."""
    metric = primary_metric(study)
    base, other = times_by_item(main_pairs(study, metric), metric)
    return sum(b < o for b, o in zip(base, other, strict=True)), len(base)


def _point(pair: Pair, metric: str) -> PairPoint:
    request = pair.base.m.request
    return PairPoint(
        item=request.item, category=request.category, repeat=request.block.repeat,
        base_s=time_of(pair.base, metric) or 0.0, other_s=time_of(pair.other, metric) or 0.0,
        lines=(pair.base.line, pair.other.line),
    )  # fmt: skip


def _blocks(pairs: list[Pair], metric: str) -> Iterable[Bar]:
    for repeat in sorted({p.base.m.request.block.repeat for p in pairs}):
        mine = [p for p in pairs if p.base.m.request.block.repeat == repeat]
        yield Bar(
            name=f"block {repeat + 1}", estimate=gain_of_pairs(mine, metric, level=0.95).estimate,
            source=Source(records=spans(lines_of(mine))),
        )  # fmt: skip


def _test_part(outcome: Outcome) -> tuple[Outcome, ...]:
    """Subgroups of the test; after a confirmation they are a level deeper."""
    first = outcome.parts[:1]
    deeper = bool(first) and first[0].id == outcome.id
    return first[0].parts if deeper else outcome.parts
