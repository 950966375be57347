"""What it took: processors, memory, energy, cost; and what traffic was asked and achieved."""

from collections.abc import Iterable

from outpace.evaluate.judge.blocks import cost, objectives, useful
from outpace.evaluate.judge.effects import time_of
from outpace.evaluate.judge.evidence import Evidence, Row, Span, Where
from outpace.evaluate.judge.validity import achieved_rate, problems
from outpace.evaluate.plan.document import BASELINE
from outpace.evaluate.plan.load import Timed
from outpace.evaluate.report.figures import LoadRow, Resources, Source, spans
from outpace.evaluate.report.study import TEST, Reported
from outpace.stats import quantile


def resources(study: Reported) -> tuple[Resources, ...]:
    """Of every arm, over the whole test."""
    evidence = study.evidence
    made = []
    for arm in evidence.plan.arms:
        rows, windows = evidence.requests(TEST, arm), evidence.windows(TEST, arm)
        if rows:
            made.append(_of_arm(evidence, arm, rows, windows))
    return tuple(made)


def loads(study: Reported) -> tuple[LoadRow, ...]:
    """Every scenario against every arm; none before the load phase."""
    evidence = study.evidence
    scenarios = evidence.plan.load.scenarios if evidence.plan.load is not None else ()
    made = []
    for scenario in scenarios:
        where = Where(phase="load", load=scenario.name)
        for arm in evidence.plan.arms:
            rows = evidence.requests(where, arm)
            if rows:
                asked = scenario.rate_per_s if isinstance(scenario, Timed) else None
                made.append(_load_row(evidence, where, arm, rows, asked))
    return tuple(made)


def _of_arm(
    evidence: Evidence, arm: str, rows: tuple[Row, ...], windows: tuple[Span, ...]
) -> Resources:
    plan = evidence.plan
    wall_s = sum(s.w.block.wall_s for s in windows)
    tokens = sum(s.w.own_tokens for s in windows)
    cpu_s, gpu_s = _sum(s.w.cpu_s for s in windows), _sum(s.w.gpu_s for s in windows)
    energy_j, spent = (
        _sum(s.w.energy_j for s in windows),
        _sum(cost(plan, s, rows) for s in windows),
    )
    graded = [r.m.grade.passed for r in rows if r.m.grade is not None]
    n_useful = sum(useful(plan, r) for r in rows)
    wanted = objectives(plan)
    said = [r.m.request.speculation for r in rows if r.m.request.speculation is not None]
    drafted = sum(s.drafted for s in said)
    return Resources(
        arm=arm, requests=len(rows), failed=sum(not r.m.request.ok for r in rows), tokens=tokens,
        tokens_per_s=tokens / wall_s if wall_s else None,
        goodput_per_s=sum(wanted.met_by(r.m.request) for r in rows) / wall_s
        if wanted.asked and wall_s else None,
        useful=n_useful, checked=sum(g is not None for g in graded),
        passed=sum(g is True for g in graded),
        cores_busy=cpu_s / wall_s if cpu_s is not None and wall_s else None,
        gpus_busy=gpu_s / wall_s if gpu_s is not None and wall_s else None,
        cpu_s_per_1k=1000 * cpu_s / tokens if cpu_s is not None and tokens else None,
        energy_j_per_token=energy_j / tokens if energy_j is not None and tokens else None,
        peak_bytes=max((s.w.peak_bytes for s in windows if s.w.peak_bytes is not None),
                       default=None),
        cost_per_useful=spent / n_useful if spent is not None and n_useful else None,
        waste=(drafted - sum(s.kept for s in said)) / drafted if drafted else None,
        source=Source(records=spans([*(r.line for r in rows), *(s.line for s in windows)])),
    )  # fmt: skip


def _load_row(
    evidence: Evidence, where: Where, arm: str, rows: tuple[Row, ...], asked: float | None
) -> LoadRow:
    windows = evidence.windows(where, arm)
    rates = achieved_rate(rows)
    wall_s = sum(s.w.block.wall_s for s in windows)
    wanted = objectives(evidence.plan)
    reasons = tuple(
        reason
        for reason in problems(evidence, where, arm=arm, against=BASELINE)
        if arm in reason or arm != BASELINE
    )

    def at(metric: str, q: float) -> float | None:
        known = [time_of(r, metric) for r in rows if r.m.request.ok]
        return quantile([t for t in known if t is not None], q)

    return LoadRow(
        scenario=where.load or "", arm=arm, asked_per_s=asked,
        due_per_s=rates[0] if rates else None, sent_per_s=rates[1] if rates else None,
        requests=len(rows), failed=sum(not r.m.request.ok for r in rows),
        good_per_s=sum(wanted.met_by(r.m.request) for r in rows) / wall_s
        if wanted.asked and wall_s else None,
        ttft_p50_s=at("ttft", 0.5), ttft_p99_s=at("ttft", 0.99), e2el_p99_s=at("e2el", 0.99),
        valid=not reasons, reasons=reasons,
        source=Source(records=spans([*(r.line for r in rows), *(s.line for s in windows)])),
    )  # fmt: skip


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; None if there is none, or any is unknown."""
    known = list(values)
    if not known or any(v is None for v in known):
        return None
    return sum(v for v in known if v is not None)
