"""What exists per block only: throughput, goodput, cost, energy, memory.

Goodput: requests that meet every objective, per second; one that failed meets none. Cost per
useful answer: core- and device-seconds times their price, over answers that met the objectives and
did not fail their check; an answer without a check counts as useful, and the report says so.
"""

import math
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq

from outpace.bench.summary import Objectives
from outpace.evaluate.judge.evidence import Evidence, Row, Span, Where
from outpace.evaluate.plan.document import Plan

_HOUR_S = 3600.0
BlockKey = tuple[str, int]
Value = Callable[[Plan, Span, Seq[Row]], float | None]


def objectives(plan: Plan) -> Objectives:
    """A plan's, in seconds."""
    slo = plan.load.slo_ms if plan.load is not None else None
    if slo is None:
        return Objectives()

    def seconds(ms: float | None) -> float | None:
        return None if ms is None else ms / 1000

    return Objectives(ttft_s=seconds(slo.ttft), tpot_s=seconds(slo.tpot), e2el_s=seconds(slo.e2el))


def useful(plan: Plan, row: Row) -> bool:
    """Whether an answer met the objectives and did not fail its check."""
    graded = row.m.grade.passed if row.m.grade is not None else None
    met = objectives(plan).met_by(row.m.request) if objectives(plan).asked else row.m.request.ok
    return met and graded is not False


def tokens_per_s(plan: Plan, span: Span, rows: Seq[Row]) -> float | None:  # noqa: ARG001
    """Generated tokens per second of the whole block."""
    block = span.w.block
    return span.w.own_tokens / block.wall_s if block.wall_s > 0 else None


def goodput(plan: Plan, span: Span, rows: Seq[Row]) -> float | None:
    """Good requests per second; None without objectives."""
    wanted, wall_s = objectives(plan), span.w.block.wall_s
    if not wanted.asked or wall_s <= 0:
        return None
    return sum(wanted.met_by(row.m.request) for row in rows) / wall_s


def cost(plan: Plan, span: Span, rows: Seq[Row]) -> float | None:  # noqa: ARG001
    """Of all that ran in the block; None where nobody says how long processors ran."""
    w, price = span.w, plan.price
    if w.cpu_s is None and w.gpu_s is None:
        return None
    return (
        (w.cpu_s or 0.0) * price.per_core_hour + (w.gpu_s or 0.0) * price.per_gpu_hour
    ) / _HOUR_S


def cost_per_useful(plan: Plan, span: Span, rows: Seq[Row]) -> float | None:
    """Infinite where no answer was useful."""
    spent = cost(plan, span, rows)
    n = sum(useful(plan, row) for row in rows)
    if spent is None or not rows:
        return None
    return spent / n if n else math.inf


def energy_per_token(plan: Plan, span: Span, rows: Seq[Row]) -> float | None:  # noqa: ARG001
    """Joules per generated token, of the machine."""
    w = span.w
    return None if w.energy_j is None or not w.own_tokens else w.energy_j / w.own_tokens


def peak_memory(plan: Plan, span: Span, rows: Seq[Row]) -> float | None:  # noqa: ARG001
    """Bytes."""
    return None if span.w.peak_bytes is None else float(span.w.peak_bytes)


VALUES: Mapping[str, Value] = {
    "tokens_per_s": tokens_per_s,
    "goodput": goodput,
    "cost_per_useful_outcome": cost_per_useful,
    "energy_per_token": energy_per_token,
    "peak_memory": peak_memory,
}


def per_block(
    evidence: Evidence, where: Where, arm: str, metric: str
) -> dict[BlockKey, tuple[float, tuple[int, ...]]]:
    """(load, repeat) -> value and the lines behind it; blocks without the value are left out."""
    rows: dict[BlockKey, list[Row]] = {}
    for row in evidence.requests(where, arm):
        rows.setdefault((row.m.request.block.load, row.m.request.block.repeat), []).append(row)
    found: dict[BlockKey, tuple[float, tuple[int, ...]]] = {}
    for span in evidence.windows(where, arm):
        key = (span.w.block.block.load, span.w.block.block.repeat)
        mine = rows.get(key, [])
        value = VALUES[metric](evidence.plan, span, mine)
        if value is not None:
            found[key] = (value, (*(row.line for row in mine), span.line))
    return found
