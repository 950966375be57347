"""Is there enough data for what is claimed, and are the numbers of a size that makes sense?"""

import math
from collections.abc import Iterator

from outpace.evaluate.plan.criteria import METRICS, Criterion, Exceedance, Subgroups
from outpace.evaluate.plan.document import Plan
from outpace.evaluate.plan.load import n_requests
from outpace.evaluate.plan.rules.finding import Facts, Finding, criteria, error, warning
from outpace.evaluate.plan.shape import nearest

_FEW_PROMPTS = 20


def least_requests(quantile: float, alpha: float) -> int:
    """Requests that show, with none of them over the limit, that a quantile is under it.

    The smallest n with quantile**n <= alpha: 459 for p99 at 99 %, 299 at 95 % (Wilks 1941).
    """
    return math.ceil(math.log(alpha) / math.log(quantile))


def enough_for_tails(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Tail quantiles have the requests that even a perfect run would need."""
    for where, c in criteria(plan):
        if not isinstance(c, Exceedance):
            continue
        needed = least_requests(c.quantile, c.alpha)
        claim = f"p{100 * c.quantile:g} at {100 * (1 - c.alpha):g} % needs {needed} requests"
        scenario = plan.scenario(c.scenario) if c.scenario else None
        if scenario is not None:
            found = n_requests(scenario)
            if found is not None and found < needed:
                yield error("tail", where, f"{claim}; scenario {scenario.name} has {found}")
        elif facts.prompts is not None:
            asked = facts.prompts.test * len(plan.sampling.temperatures)
            total = asked * plan.design.blocks
            if total < needed:
                yield error(
                    "tail", where,
                    f"{claim}; {facts.prompts.test} test prompts give {total}: more prompts, "
                    "a lower quantile or a load scenario",
                )  # fmt: skip
            elif asked < needed:
                yield warning(
                    "tail_repeats", where,
                    f"{claim}; {total} are there, but only {asked} differ, and repeats of one "
                    "request are not independent",
                )  # fmt: skip


def enough_for_splits(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """No part of the split is empty that the plan needs."""
    split = plan.data.split
    if not split.confirm:
        yield warning("never_confirmed", "data.split.confirm", "0: the verdict stays unconfirmed")
    if not split.dev:
        yield warning("nothing_to_tune_on", "data.split.dev", "0: any look is a look at the test")
    if facts.prompts is None:
        return
    for part in ("dev", "test", "confirm"):
        found = getattr(facts.prompts, part)
        if getattr(split, part) and not found:
            yield error("empty_split", f"data.split.{part}", "no prompt falls into it; give more")
    if 0 < facts.prompts.test < _FEW_PROMPTS:
        yield warning(
            "few_prompts", "data", f"{facts.prompts.test} test prompts: intervals will be wide"
        )


def enough_for_subgroups(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Every subgroup can reach its min_n."""
    for where, c in criteria(plan):
        if not isinstance(c, Subgroups):
            continue
        if not plan.data.subgroups:
            yield error("no_subgroups", where, "data.subgroups is empty; name what to group by")
        if facts.prompts is None:
            continue
        if facts.prompts.test < c.min_n:
            yield error(
                "subgroup_too_small", f"{where}.min_n",
                f"{c.min_n} prompts are asked of each subgroup, the test part has "
                f"{facts.prompts.test} in all",
            )  # fmt: skip
            continue
        for factor, values in facts.prompts.subgroups.items():
            for value, n in values.items():
                if factor in plan.data.subgroups and n < c.min_n:
                    yield error(
                        "subgroup_too_small", f"{where}.min_n",
                        f"{factor} {value} has {n} test prompts, {c.min_n} are asked; give more, "
                        "lower min_n, or filter it out and narrow the population",
                    )  # fmt: skip


def alphas(plan: Plan) -> Iterator[Finding]:
    """Levels of error that people mean."""
    for where, c in criteria(plan):
        alpha = getattr(c, "alpha", None)
        if alpha is not None and alpha > 0.1:
            yield warning("loose_alpha", f"{where}.alpha", f"{alpha:g} accepts wrong PASSes often")
        if alpha is not None and alpha < 1e-4:
            yield warning("strict_alpha", f"{where}.alpha", f"{alpha:g} is hardly ever reached")


def units(plan: Plan) -> Iterator[Finding]:
    """Limits in milliseconds look like milliseconds, margins like margins."""
    for where, c in criteria(plan):
        if isinstance(c, Exceedance) and c.limit_ms < 10:
            yield _seconds(f"{where}.limit_ms", c.limit_ms)
        for name in ("margin_ratio", "min_effect"):
            value = getattr(c, name, None)
            if value is not None and value > 3:
                yield warning(
                    "margin", f"{where}.{name}",
                    f"{value:g} times; 5 % is written 1.05",
                )  # fmt: skip
    if plan.load is not None:
        for name, least in (("ttft", 5), ("tpot", 0.5), ("e2el", 10)):
            value = getattr(plan.load.slo_ms, name)
            if value is not None and value < least:
                yield _seconds(f"load.slo_ms.{name}", value)


def _seconds(where: str, value: float) -> Finding:
    return warning("unit", where, f"{value:g} ms; if seconds were meant, write {value * 1000:g}")


def order(plan: Plan) -> Iterator[Finding]:
    """The design cancels what drifts."""
    design = plan.design
    if design.order == "ABBA" and design.blocks % 2:
        yield warning(
            "unbalanced", "design.blocks",
            f"{design.blocks} blocks in ABBA: one arm goes first once more; use an even number",
        )  # fmt: skip
    if not design.paired:
        yield warning("unpaired", "design.paired", "false: what requests share no longer cancels")
    if not design.warmup:
        yield warning("cold", "design.warmup", "0: first requests measure caches, not arms")


def scenarios(plan: Plan) -> Iterator[Finding]:
    """Criteria under load name scenarios that exist, and metrics that can be had there."""
    names = [s.name for s in plan.load.scenarios] if plan.load is not None else []
    for where, c in criteria(plan):
        scenario = getattr(c, "scenario", None)
        if scenario is not None and scenario not in names:
            hint = nearest(scenario, names) or f"; there are {', '.join(names) or 'none'}"
            yield error("unknown_scenario", f"{where}.scenario", f"no scenario {scenario!r}{hint}")
        yield from _objectives(plan, where, c)


def _objectives(plan: Plan, where: str, c: Criterion) -> Iterator[Finding]:
    metric = getattr(c, "metric", "")
    slo = plan.load.slo_ms if plan.load is not None else None
    asked = slo is not None and any(x is not None for x in (slo.ttft, slo.tpot, slo.e2el))
    if metric == "goodput" and not asked:
        yield error("no_objectives", f"{where}.metric", "goodput needs load.slo_ms")
    if metric == "cost_per_useful_outcome" and not asked:
        yield warning(
            "no_objectives", f"{where}.metric", "without load.slo_ms every time is useful"
        )
    if metric in METRICS and METRICS[metric].per == "block" and plan.design.blocks < 2:
        yield error(
            "one_block", f"{where}.metric",
            f"{metric} is measured per block; with one block there is no interval",
        )  # fmt: skip
