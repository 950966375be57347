"""Do the arms exist, differ in speculation only, and can they show what criteria ask?"""

from collections.abc import Iterator

from outpace.evaluate.plan.arms import EndpointArm, InProcessArm
from outpace.evaluate.plan.criteria import ExactLaw, Exceedance, SameLaw, SameText
from outpace.evaluate.plan.document import BASELINE, CANDIDATE, FALLBACK, Plan
from outpace.evaluate.plan.probes import DrafterRemoved, ForcedAbstention, Threads, WrongDrafter
from outpace.evaluate.plan.rules.finding import Facts, Finding, criteria, error, warning
from outpace.evaluate.plan.shape import nearest

_ONE_ARM = (DrafterRemoved, WrongDrafter, ForcedAbstention)


def known_arms(plan: Plan) -> Iterator[Finding]:
    """Every arm that is named exists."""
    named: list[tuple[str, str]] = []
    for where, c in criteria(plan):
        named += [(f"{where}.arm", c.arm), (f"{where}.against", c.against)]
        if isinstance(c, Exceedance) and c.not_worse_than is not None:
            named.append((f"{where}.not_worse_than", c.not_worse_than))
        if c.arm == c.against:
            yield error("self_comparison", f"{where}.arm", f"{c.arm} against itself shows nothing")
    named += [
        (f"what_if[{i}].arm", w.arm) for i, w in enumerate(plan.what_if) if isinstance(w, _ONE_ARM)
    ]
    for where, name in named:
        if name not in plan.arms:
            hint = nearest(name, list(plan.arms)) or f"; there are {', '.join(plan.arms)}"
            yield error("unknown_arm", where, f"no arm {name!r}{hint}")


def known_drafters(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Every drafter is registered, and none peeks unless it says so."""
    if facts.drafters is None:
        return
    for name, arm in plan.arms.items():
        if isinstance(arm, InProcessArm):
            yield from _drafter(arm.drafter, f"arms.{name}.drafter", facts.drafters)
    for i, what in enumerate(plan.what_if):
        if isinstance(what, WrongDrafter) and not what.drafter.startswith("synthetic:"):
            yield from _drafter(what.drafter, f"what_if[{i}].drafter", facts.drafters)


def _drafter(spec: str, where: str, known: frozenset[str]) -> Iterator[Finding]:
    name, _, argument = spec.partition(":")
    if name not in known:
        hint = nearest(name, sorted(known)) or f"; there are {', '.join(sorted(known))}"
        yield error("unknown_drafter", where, f"no drafter {name!r}{hint}")
    elif name == "mix":
        for part in argument.split("+"):
            yield from _drafter(part, where, known)
    elif name == "synthetic":
        yield error(
            "peeking_drafter", where,
            "synthetic drafters look at the target; write test_only: {synthetic: KIND} instead",
        )  # fmt: skip


def comparable(plan: Plan) -> Iterator[Finding]:
    """The baseline is plain, the candidate is not, and both are the same model."""
    baseline, candidate = plan.arms[BASELINE], plan.arms[CANDIDATE]
    if isinstance(baseline, InProcessArm) and baseline.guesses:
        yield warning(
            "baseline_guesses", f"arms.{BASELINE}",
            "the baseline speculates; the simplest credible alternative is drafter none",
        )  # fmt: skip
    if baseline == candidate:
        yield warning(
            "same_arms", "arms", "baseline and candidate are equal: an A/A plan, nothing to adopt"
        )
    models = {n: a.model for n, a in plan.arms.items() if isinstance(a, EndpointArm)}
    if len(set(models.values())) > 1:
        said = ", ".join(f"{n}: {m}" for n, m in models.items())
        yield warning("models_differ", "arms", f"endpoints serve models of other names ({said})")
    for name, arm in plan.arms.items():
        if isinstance(arm, InProcessArm) and arm.test_only is not None:
            yield warning(
                "test_only", f"arms.{name}.test_only",
                "faults are planted: the verdict is about the evaluation, not about the decision",
            )  # fmt: skip


def recovery(plan: Plan) -> Iterator[Finding]:
    """The way back is measured too."""
    if plan.failure_mode is None:
        yield warning("no_failure_mode", "failure_mode", "the failure mode is not measured")
    if FALLBACK not in plan.arms:
        yield warning("no_fallback", "arms", "no arm fallback: recovery is not measured")
    elif not any(c.arm == FALLBACK for _, c in criteria(plan)):
        yield warning(
            "unjudged_fallback", f"arms.{FALLBACK}", "measured, and no criterion judges it"
        )


def checkable(plan: Plan) -> Iterator[Finding]:
    """Exactness criteria and probes meet arms that can show them."""
    temperatures = plan.sampling.temperatures
    for where, c in criteria(plan):
        arm = plan.arms.get(c.arm)
        local = isinstance(arm, InProcessArm)
        if isinstance(c, ExactLaw) and arm is not None and not local:
            yield error(
                "law_out_of_reach", where,
                f"exact_law walks this program's own code; for {c.arm} use same_text or same_law",
            )  # fmt: skip
        if isinstance(c, SameLaw) and not any(temperatures):
            yield error(
                "nothing_sampled", where,
                "same_law needs sampled texts; add a temperature above 0 to sampling.temperatures",
            )  # fmt: skip
        if isinstance(c, SameText) and 0.0 not in temperatures and not local:
            yield error(
                "nothing_greedy", where,
                "same_text needs temperature 0 where arms do not share noise; add it to "
                "sampling.temperatures",
            )  # fmt: skip
    for i, what in enumerate(plan.what_if):
        if isinstance(what, _ONE_ARM) and what.arm in plan.arms:
            judged = [what.arm]
        elif isinstance(what, Threads):
            judged = list(plan.arms)
        else:
            continue
        if any(not isinstance(plan.arms[name], InProcessArm) for name in judged):
            yield error(
                "out_of_reach", f"what_if[{i}]",
                f"{what.change} can be changed for in-process arms only",
            )  # fmt: skip
