"""The decision, the verdict, and every criterion with the line it draws."""

from collections.abc import Sequence as Seq

from outpace.evaluate.plan.criteria import (
    METRICS,
    Criterion,
    Exceedance,
    NonInferiority,
    Subgroups,
    Superiority,
)
from outpace.evaluate.report.figures import Source, spans
from outpace.evaluate.report.shape import Decision, Judged, Judgement, Limit
from outpace.evaluate.report.study import Reported
from outpace.evaluate.verdict import Outcome, Status, promised


def decision(study: Reported) -> Decision:
    """In the plan's words."""
    plan = study.evidence.plan
    status: dict[str, Status] = {o.id: o.status for o in study.verdict.outcomes}
    said = plan.decision
    return Decision(
        plan=plan.identity, name=plan.metadata.name, owner=plan.metadata.owner,
        statement=said.statement, population=said.population,
        consequence_if_wrong=said.consequence_if_wrong,
        falsified_by=tuple((name, status.get(name, "INCONCLUSIVE"))
                           for name in said.falsified_by),
    )  # fmt: skip


def judgement(study: Reported) -> Judgement:
    """As it follows from what is there now."""
    verdict = study.verdict
    last = study.entries[-1] if study.entries else None
    return Judgement(
        conclusion=verdict.conclusion, words=verdict.words, confirmed=verdict.confirmed,
        exit_code=verdict.exit_code, reasons=verdict.reasons,
        n_openings=study.evidence.state.n_openings, at=last.statement.at if last else "",
        head=last.sha256 if last else "",
    )  # fmt: skip


def criteria(study: Reported) -> tuple[Judged, ...]:
    """In the plan's order, the failure mode last."""
    plan = study.evidence.plan
    limits = {c.id: limit_of(c) for c in plan.criteria}
    if plan.failure_mode is not None:
        limits["failure_mode"] = Limit(
            value=plan.failure_mode.max_slowdown, wanted="below", scale="ratio"
        )
    roles = {e.id: " ".join(r for r, on in (("primary", e.primary), ("critical", e.critical)) if on)
             for e in promised(plan)}  # fmt: skip
    return tuple(_judged(o, roles[o.id], limits.get(o.id)) for o in study.verdict.outcomes)


def limit_of(c: Criterion) -> Limit | None:
    """Where an interval would have to lie; None for criteria without one."""
    match c:
        case Superiority():
            return Limit(value=c.min_effect, wanted="above", scale="ratio")
        case NonInferiority() if c.margin_abs is not None:
            higher = METRICS[c.metric].better == "higher"
            value = -c.margin_abs if higher else c.margin_abs
            return Limit(value=value, wanted="above" if higher else "below", scale="difference")
        case NonInferiority():
            return Limit(value=c.margin_ratio or 1.0, wanted="below", scale="ratio")
        case Exceedance():
            return Limit(value=1 - c.quantile, wanted="below", scale="share")
        case Subgroups():
            return Limit(value=c.margin_ratio, wanted="below", scale="ratio")
        case _:
            return None


def _judged(outcome: Outcome, role: str, limit: Limit | None) -> Judged:
    parts: Seq[Outcome] = outcome.parts
    return Judged(
        id=outcome.id, role=role, status=outcome.status, rule=outcome.rule, found=outcome.found,
        estimate=outcome.estimate, low=outcome.low, high=outcome.high, n=outcome.n, limit=limit,
        parts=tuple(_judged(part, "", limit) for part in parts),
        source=Source(records=spans(outcome.records), statements=spans(outcome.statements)),
    )  # fmt: skip
