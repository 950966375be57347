"""A study -> its report: every section, then the answers that draw on all of them."""

from dataclasses import replace

from outpace.evaluate.plan.criteria import Subgroups
from outpace.evaluate.report.facts.answers import answers
from outpace.evaluate.report.facts.guessing import break_even, guesses, stages
from outpace.evaluate.report.facts.speed import latencies, regressions, speed, subgroups
from outpace.evaluate.report.facts.stress import failure_mode, what_if
from outpace.evaluate.report.facts.trail import deviations, events, limits, lineage
from outpace.evaluate.report.facts.use import loads, resources
from outpace.evaluate.report.facts.verdicts import criteria, decision, judgement
from outpace.evaluate.report.shape import Report
from outpace.evaluate.report.study import Reported


def report_of(study: Reported) -> Report:
    """Pure: the same study gives the same report, byte by byte."""
    plan = study.evidence.plan
    margins = [c.margin_ratio for c in plan.criteria if isinstance(c, Subgroups)]
    made = Report(
        decision=decision(study),
        judgement=judgement(study),
        answers=(),
        criteria=criteria(study),
        stages=stages(study),
        speed=speed(study),
        latencies=latencies(study),
        guesses=guesses(study),
        break_even=break_even(study),
        failure_mode=failure_mode(study),
        max_slowdown=plan.failure_mode.max_slowdown if plan.failure_mode is not None else None,
        subgroups=subgroups(study),
        subgroup_margin=margins[0] if margins else None,
        regressions=regressions(study),
        resources=resources(study),
        currency=plan.price.currency,
        loads=loads(study),
        what_if=what_if(study),
        lineage=lineage(study),
        events=events(study),
        limits=limits(study),
        deviations=deviations(study),
        n_records=len(study.evidence.rows) + len(study.evidence.spans),
    )
    return replace(made, answers=answers(study, made))
