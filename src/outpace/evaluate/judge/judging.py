"""All criteria of a plan, on the phases that judge them; and the verdict that follows."""

from collections.abc import Sequence as Seq

from outpace.evaluate.judge.criteria.compared import Compared, compared, rule
from outpace.evaluate.judge.criteria.exactly import exactness
from outpace.evaluate.judge.criteria.failure import failure_mode
from outpace.evaluate.judge.evidence import Evidence, Where, gather
from outpace.evaluate.judge.words import nothing, too_early
from outpace.evaluate.ledger import Statement
from outpace.evaluate.measurement import Measurements, Phase
from outpace.evaluate.plan.criteria import (
    Contract,
    Criterion,
    ExactLaw,
    SameLaw,
    SameText,
    Subgroups,
)
from outpace.evaluate.plan.document import Plan
from outpace.evaluate.verdict import Outcome, Verdict, agreeing, decide, promised


def judge(
    plan: Plan, measurements: Measurements, statements: Seq[Statement]
) -> tuple[Outcome, ...]:
    """One outcome per criterion, in the plan's order, the failure mode last."""
    return outcomes(gather(plan, measurements, statements))


def conclude(plan: Plan, measurements: Measurements, statements: Seq[Statement]) -> Verdict:
    """The verdict on what is there now."""
    evidence = gather(plan, measurements, statements)
    return verdict(evidence, outcomes(evidence))


def outcomes(evidence: Evidence) -> tuple[Outcome, ...]:
    """The same, on evidence that was gathered."""
    plan = evidence.plan
    made = [_outcome(evidence, c) for c in plan.criteria]
    if plan.failure_mode is not None:
        made.append(failure_mode(evidence, plan.failure_mode))
    return tuple(made)


def verdict(evidence: Evidence, judged: Seq[Outcome]) -> Verdict:
    """What follows from outcomes, with how often the confirmation set was opened."""
    return decide(
        promised(evidence.plan),
        judged,
        confirmed=evidence.done("confirm") is not None,
        n_openings=evidence.state.n_openings,
    )


def _outcome(evidence: Evidence, c: Criterion) -> Outcome:
    if isinstance(c, ExactLaw | SameText | SameLaw | Contract):
        return exactness(evidence, c)
    scenario = None if isinstance(c, Subgroups) else c.scenario
    if scenario is not None:
        return _in_phase(evidence, c, "load", load=scenario)
    test = _in_phase(evidence, c, "test")
    if evidence.done("confirm") is None:
        return test
    return agreeing(test, _in_phase(evidence, c, "confirm"))


def _in_phase(evidence: Evidence, c: Compared, phase: Phase, load: str | None = None) -> Outcome:
    where = Where(phase=phase, load=load)
    if evidence.done(phase) is None:
        return too_early(c.id, rule(c), phase)
    if not any(where.has(row.m) for row in evidence.rows):
        return nothing(c, rule(c))
    return compared(evidence, c, where)
