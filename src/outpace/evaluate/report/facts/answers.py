"""The seven questions of adoption, answered from the evidence and from nothing else."""

from outpace.evaluate.judge.words import interval, milliseconds, number, percent, units
from outpace.evaluate.plan.document import BASELINE, CANDIDATE, FALLBACK
from outpace.evaluate.report.facts.trail import describe, maintenance
from outpace.evaluate.report.figures import Curve, Resources, Source, spans
from outpace.evaluate.report.shape import Answer, Fact, Report
from outpace.evaluate.report.study import Reported
from outpace.stats import Estimate

NO_DATA = "no data"


def answers(study: Reported, report: Report) -> tuple[Answer, ...]:
    """In their order. report: all other sections, made before."""
    return (
        _objective(report),
        _mechanism(study, report),
        _baseline(study, report),
        _evidence(study, report),
        _operations(study, report),
        _risk(report),
        _recovery(study, report),
    )


def said(estimate: Estimate | None, unit: str = " times") -> str:
    """An estimate and its interval, in words."""
    if estimate is None:
        return NO_DATA
    return f"{number(estimate.value)}{unit}{interval(estimate.low, estimate.high)}"


def _objective(report: Report) -> Answer:
    primary = [c for c in report.criteria if "primary" in c.role]
    facts = [
        Fact(label="For", value=report.decision.population),
        Fact(label="If it is wrong", value=report.decision.consequence_if_wrong),
        *(Fact(label="The claim", value=c.rule, source=c.source) for c in primary),
        *(Fact(label="Measured", value=f"{c.status}: {c.found}", source=c.source) for c in primary),
    ]
    return Answer(
        question="What is to be gained?", answer=report.decision.statement, facts=tuple(facts)
    )


def _mechanism(study: Reported, report: Report) -> Answer:
    mine = next((g for g in report.guesses if g.arm == CANDIDATE), None)
    even = report.break_even
    if mine is None:
        answer = "How the gain comes about cannot be seen: nobody told the guesses."
    elif even is None:
        answer = f"A pass brings {said(mine.pooled, ' tokens')}; its price was not measured."
    else:
        answer = (
            f"A pass of the candidate brings {number(even.length.value)} tokens and costs "
            f"{number(even.cost.value)} plain passes: {number(even.predicted)} times as fast by "
            f"arithmetic, {said(even.measured)} as measured per token. {_pays(even.measured)}"
        )
    facts = [Fact(label="Candidate", value=describe(study, CANDIDATE))]
    if mine is not None:
        facts += [
            Fact(label="Tokens per pass", value=f"{said(mine.pooled, ' pooled')}, "
                 f"{said(mine.per_request, ' as the mean of requests')}", source=mine.source),
            Fact(label="Guesses kept", value=f"{mine.kept:,} of {mine.drafted:,}",
                 source=mine.source),
        ]  # fmt: skip
    if even is not None:
        facts.append(
            Fact(label="Break-even", value=f"{said(even.cost, ' tokens per pass')}",
                 source=even.source)
        )  # fmt: skip
    return Answer(question="By what mechanism?", answer=answer, facts=tuple(facts))


def _pays(measured: Estimate | None) -> str:
    """What the bounds say."""
    if measured is None or measured.low is None or measured.high is None:
        return "Whether guessing pays cannot be said."
    if measured.low > 1:
        return "Guessing pays."
    return "Guessing does not pay." if measured.high < 1 else "Whether guessing pays is open."


def _baseline(study: Reported, report: Report) -> Answer:
    same = study.verified.same_model
    told = {True: "yes", False: "NO", None: "could not be told"}[same.same if same else None]
    active = {n: a.moved for n, a in study.verified.activity.items()}
    words = {True: "counted", False: "none", None: "not told"}
    shown = ", ".join(f"{name}: {words[moved]}" for name, moved in active.items())
    effect = "; ".join(
        f"{o.arm} {o.option}: {'live' if o.live else 'not shown' if o.live is None else 'DEAD'}"
        for o in study.verified.config_effect
    )
    facts = (
        Fact(label="Same model, tokenizer, template", value=told),
        Fact(label="Guesses by arm", value=shown or NO_DATA),
        Fact(label="Options that do something", value=effect or NO_DATA),
        Fact(label="Treatment", value=", ".join(t.field for t in report.lineage if t.treatment)
             or "no field of the lineage differs between arms"),
    )  # fmt: skip
    return Answer(
        question="Against what?", answer=f"Against {describe(study, BASELINE)}.", facts=facts
    )


def _evidence(study: Reported, report: Report) -> Answer:
    plan, speed = study.evidence.plan, report.speed
    n = speed.means.n if speed is not None and speed.means is not None else 0
    done = [k for k in ("verify", "test", "confirm", "load") if k in study.evidence.state.done]
    exact = [
        c for c in report.criteria
        if any(k.id == c.id and k.type in ("exact_law", "same_text", "same_law", "contract")
               for k in plan.criteria)
    ]  # fmt: skip
    answer = (
        f"{units(n)} in {units(plan.design.blocks, 'block')}, every one asked of every arm next "
        f"to the other in time; {report.n_records:,} records in all."
    )
    facts = [
        Fact(label="Phases done", value=", ".join(done) or "none"),
        Fact(label="Confirmed", value="yes, on prompts nobody had looked at"
             if report.judgement.confirmed else "no"),
        *(Fact(label=c.id, value=f"{c.status}: {c.found}", source=c.source) for c in exact),
        Fact(label="Head of the ledger", value=report.judgement.head[:16] or NO_DATA),
    ]  # fmt: skip
    return Answer(question="On what evidence?", answer=answer, facts=tuple(facts))


def _operations(study: Reported, report: Report) -> Answer:
    curves = {(c.metric, c.arm): c for c in report.latencies}
    arms = {r.arm: r for r in report.resources}
    mine, base = arms.get(CANDIDATE), arms.get(BASELINE)
    facts = [
        Fact(label=label, value=_both(curves, metric),
             source=curves[metric, CANDIDATE].source if (metric, CANDIDATE) in curves
             else Source())
        for metric, label in (("ttft", "First token, ms"), ("tpot", "Per token, ms"),
                              ("e2el", "Last token, ms"))
    ]  # fmt: skip
    for label, name, scale, unit in (
        ("Peak memory", "peak_bytes", 1e-6, "MB"),
        ("Processor time per 1,000 tokens", "cpu_s_per_1k", 1.0, "s"),
        ("Energy per token", "energy_j_per_token", 1.0, "J"),
        ("Cost of 1,000 useful answers", "cost_per_useful", 1e3, report.currency),
    ):
        facts.append(Fact(label=label, value=_pair(mine, base, name, scale, unit),
                          source=mine.source if mine else Source()))  # fmt: skip
    facts.append(Fact(label="Maintenance", value=maintenance(study)))
    busy = mine.cores_busy if mine is not None else None
    plain = base.cores_busy if base is not None else None
    answer = "What it takes is in the table."
    if busy is not None and plain is not None:
        answer = (
            f"The candidate keeps {number(busy)} cores busy where the baseline keeps "
            f"{number(plain)}; what each answer takes is below, candidate first."
        )
    return Answer(question="What does operating it take?", answer=answer, facts=tuple(facts))


def _risk(report: Report) -> Answer:
    worst = report.subgroups[0] if report.subgroups else None
    on = [p for p in report.failure_mode if p.control and p.slowdown is not None]
    hardest = max(on, key=lambda p: p.slowdown.value if p.slowdown else 0.0, default=None)
    lost = report.regressions[0] if report.regressions else None
    facts = []
    if worst is not None:
        words = f"{worst.name}: {said(worst.estimate)} the baseline's time"
        facts.append(Fact(label="Worst subgroup", value=words, source=worst.source))
    if hardest is not None:
        words = f"at worst {said(hardest.slowdown)} the baseline's time ({hardest.case})"
        facts.append(Fact(label="Guesses forced wrong", value=words, source=hardest.source))
    if lost is not None:
        words = f"{lost.item}: {number(lost.gain)} times as fast"
        facts.append(
            Fact(label="Worst prompt", value=words, source=Source(records=spans(lost.lines)))
        )
    falsifiers = [f"{name} ({status})" for name, status in report.decision.falsified_by]
    facts.append(Fact(label="Would refute it", value=", ".join(falsifiers) or NO_DATA))
    answer = "Nothing was measured that shows a risk; see the limits."
    if report.speed is not None:
        faster = report.speed
        slower = sum(p.base_s < p.other_s for p in faster.pairs)
        answer = f"{percent(slower / len(faster.pairs))} of the pairs were slower with guesses."
    return Answer(question="What could go wrong?", answer=answer, facts=tuple(facts))


def _recovery(study: Reported, report: Report) -> Answer:
    seen = study.tested.recovery
    facts = []
    if seen is not None:
        facts += [
            Fact(label="Stops guessing", value=_seconds(seen.fall_back_s, seen.fall_back_tokens)),
            Fact(label="Starts again", value=_seconds(seen.return_s, seen.return_tokens)),
            Fact(label="Switches", value=NO_DATA if seen.switches is None else str(seen.switches)),
        ]
        facts += [Fact(label="Seen", value=seen.found)] if seen.found else []
    for c in report.criteria:
        if any(k.id == c.id and k.arm == FALLBACK for k in study.evidence.plan.criteria):
            facts.append(Fact(label="Fallback", value=f"{c.status}: {c.found}", source=c.source))
    off = [w for w in report.what_if if w.change == "forced_abstention"]
    facts += [Fact(label="Held at no guesses", value=f"{said(w.gain)} the baseline's speed",
                   source=w.source) for w in off]  # fmt: skip
    answer = "Recovery was not measured."
    if seen is not None and seen.fall_back_s is not None:
        answer = f"When guesses go wrong it stops guessing within {number(seen.fall_back_s)} s."
    elif FALLBACK in study.evidence.plan.arms:
        answer = f"The way back is {describe(study, FALLBACK)}, measured like any other arm."
    return Answer(question="How does it recover?", answer=answer, facts=tuple(facts))


def _both(curves: dict[tuple[str, str], Curve], metric: str) -> str:
    parts = []
    for arm in (CANDIDATE, BASELINE):
        c = curves.get((metric, arm))
        if c is not None:
            parts.append(f"{arm} {milliseconds(c.p50)} median, {milliseconds(c.p99)} p99")
    return "; ".join(parts) or NO_DATA


def _pair(
    mine: Resources | None, base: Resources | None, name: str, scale: float, unit: str
) -> str:
    values = [getattr(r, name) if r is not None else None for r in (mine, base)]
    words = [NO_DATA if v is None else f"{number(scale * v)} {unit}" for v in values]
    return NO_DATA if values == [None, None] else f"{words[0]}; baseline {words[1]}"


def _seconds(took_s: float | None, tokens: int | None) -> str:
    if took_s is None:
        return "not seen"
    return f"after {number(took_s)} s" + (f", {tokens} tokens" if tokens is not None else "")
