"""Can this plan be refuted, by exactly what it names, and does it claim one thing?"""

from collections.abc import Iterator

from outpace.evaluate.plan.criteria import ExactLaw, SameLaw, SameText, Superiority
from outpace.evaluate.plan.document import Plan
from outpace.evaluate.plan.rules.finding import Finding, criteria, error, warning
from outpace.evaluate.plan.shape import nearest

_WHERE = "decision.falsified_by"


def falsifiers(plan: Plan) -> Iterator[Finding]:
    """falsified_by names criteria, and all that decide."""
    named, ids = plan.decision.falsified_by, plan.criterion_ids
    if not named:
        yield error(
            "unfalsifiable", _WHERE,
            f"empty: nothing could refute the decision; name criteria: {', '.join(ids)}",
        )  # fmt: skip
        return
    for i, name in enumerate(named):
        if name not in ids:
            hint = nearest(name, ids) or f"; there are {', '.join(ids)}"
            yield error("unknown_criterion", f"{_WHERE}[{i}]", f"no criterion {name!r}{hint}")
    for where, criterion in criteria(plan):
        if criterion.must_have_data and criterion.id not in named:
            role = "primary" if criterion.primary else "critical"
            yield warning(
                "undeclared_falsifier", where,
                f"{criterion.id} is {role}, so its FAIL refutes; add it to falsified_by",
            )  # fmt: skip
        if criterion.id in named and not criterion.must_have_data:
            yield warning(
                "toothless_falsifier", where,
                f"{criterion.id} is in falsified_by, yet its FAIL only leaves the verdict open; "
                "make it critical if it is meant to refute",
            )  # fmt: skip


def one_claim(plan: Plan) -> Iterator[Finding]:
    """Exactly one primary criterion, and it claims something."""
    primaries = [(where, c) for where, c in criteria(plan) if c.primary]
    if not primaries:
        yield error("no_primary", "criteria", "none is primary; mark the one the decision rests on")
    if len(primaries) > 1:
        names = ", ".join(c.id for _, c in primaries)
        yield error(
            "many_primaries", "criteria",
            f"{names} are all primary; keep one, make the others critical if they must hold",
        )  # fmt: skip
    for where, criterion in primaries:
        if isinstance(criterion, Superiority) and criterion.min_effect == 1:
            yield warning(
                "any_gain", f"{where}.min_effect",
                "any gain above nothing would do; say what gain is worth the change",
            )  # fmt: skip


def exactness(plan: Plan) -> Iterator[Finding]:
    """Something critical would notice wrong text."""
    kinds = (ExactLaw, SameText, SameLaw)
    if not any(isinstance(c, kinds) and c.critical for _, c in criteria(plan)):
        yield warning(
            "no_exactness", "criteria",
            "nothing critical would notice wrong text; add exact_law, same_text or same_law",
        )  # fmt: skip
