"""Rates and traces: do requests arrive as fast as somebody meant?"""

from collections.abc import Iterator
from collections.abc import Sequence as Seq

from outpace.evaluate.plan.document import Plan
from outpace.evaluate.plan.load import Replay, Timed
from outpace.evaluate.plan.rules.finding import Facts, Finding, error, warning
from outpace.evaluate.plan.shape import Unit

# Requests per second that one server may see; outside, a unit is more likely wrong than not.
LEAST_PER_S, MOST_PER_S = 1e-3, 1e3
_SECONDS: dict[Unit, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def rates(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Rates are per second."""
    for i, scenario in enumerate(plan.load.scenarios if plan.load is not None else ()):
        if isinstance(scenario, Timed):
            where, rate = f"load.scenarios[{i}].rate_per_s", scenario.rate_per_s
            if rate > MOST_PER_S:
                yield error("rate", where, f"{rate:g} per second; per minute it is {rate / 60:g}")
            elif rate < LEAST_PER_S:
                hours = scenario.min_requests / rate / 3600
                yield error("rate", where, f"{rate:g} per second: the scenario takes {hours:.0f} h")
        if isinstance(scenario, Replay) and scenario.name in facts.traces:
            yield from _trace(f"load.scenarios[{i}]", scenario, facts.traces[scenario.name])


def _trace(where: str, scenario: Replay, arrivals_s: Seq[float]) -> Iterator[Finding]:
    used = arrivals_s[: scenario.max_requests]
    if len(used) < 2:
        yield error("short_trace", f"{where}.trace", f"{len(used)} requests; 2 are the least")
        return
    span_s = used[-1] - used[0]
    if span_s <= 0:
        yield error("trace_unit", where, f"all {len(used)} requests arrive at once")
        return
    rate = (len(used) - 1) / span_s
    if not LEAST_PER_S <= rate <= MOST_PER_S:
        yield error(
            "trace_unit", f"{where}.time_unit",
            f"read in {scenario.time_unit}, the trace has {rate:.3g} requests per second"
            f"{_better(rate, scenario.time_unit)}",
        )  # fmt: skip
        return
    scaled = rate * scenario.time_scale
    if not LEAST_PER_S <= scaled <= MOST_PER_S:
        yield error(
            "rate", f"{where}.time_scale", f"scaled, it has {scaled:.3g} requests per second"
        )
    elif scenario.time_scale > 100 or scenario.time_scale < 0.01:
        yield warning("time_scale", f"{where}.time_scale", f"{scenario.time_scale:g} times as fast")


def _better(rate: float, unit: Unit) -> str:
    """Units in which the same stamps would be a plausible load."""
    if unit not in _SECONDS:
        return ""
    others = {
        other: rate * _SECONDS[unit] / seconds
        for other, seconds in _SECONDS.items()
        if other != unit and LEAST_PER_S <= rate * _SECONDS[unit] / seconds <= MOST_PER_S
    }
    said = " or ".join(f"in {other} {r:.3g}" for other, r in others.items())
    return f"; {said}" if said else ""
