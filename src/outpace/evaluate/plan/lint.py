"""Can this plan answer its question? Everything that says no, or not well, before it is locked."""

from collections.abc import Callable, Iterator

from outpace.evaluate.plan.document import Plan
from outpace.evaluate.plan.rules import arms, decision, numbers, traffic
from outpace.evaluate.plan.rules.finding import Counts, Facts, Finding, Level

OF_THE_PLAN: tuple[Callable[[Plan], Iterator[Finding]], ...] = (
    decision.falsifiers,
    decision.one_claim,
    decision.exactness,
    arms.known_arms,
    arms.comparable,
    arms.checkable,
    arms.recovery,
    numbers.alphas,
    numbers.units,
    numbers.order,
    numbers.scenarios,
)
WITH_FACTS: tuple[Callable[[Plan, Facts], Iterator[Finding]], ...] = (
    arms.known_drafters,
    numbers.enough_for_splits,
    numbers.enough_for_subgroups,
    numbers.enough_for_tails,
    traffic.rates,
)

__all__ = ["Counts", "Facts", "Finding", "Level", "lint"]


def lint(plan: Plan, facts: Facts | None = None) -> tuple[Finding, ...]:
    """Errors first, then warnings, each in the order of the rules.

    facts: what was looked up (drafters, counts of prompts, traces); what is not there is not
    judged, so a plan is linted again with all facts when it is locked.
    """
    known = facts or Facts()
    found = [finding for rule in OF_THE_PLAN for finding in rule(plan)]
    found += [finding for rule in WITH_FACTS for finding in rule(plan, known)]
    return tuple(sorted(found, key=lambda finding: finding.level != "error"))
