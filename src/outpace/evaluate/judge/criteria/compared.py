"""Arms compared: the rule in words, whether the comparison counts, and ratios and shares."""

from outpace.evaluate.judge.criteria.subgroups import subgroups
from outpace.evaluate.judge.criteria.tails import exceedance
from outpace.evaluate.judge.effects import (
    Effect,
    difference,
    gain,
    inverse,
)
from outpace.evaluate.judge.evidence import Evidence, Where
from outpace.evaluate.judge.validity import problems
from outpace.evaluate.judge.words import (
    METRIC_WORDS,
    above,
    at_most,
    interval,
    invalid,
    nothing,
    number,
    percent,
    points,
    points_between,
    sure,
    units,
    with_one,
)
from outpace.evaluate.plan.criteria import (
    METRICS,
    Exceedance,
    NonInferiority,
    Subgroups,
    Superiority,
)
from outpace.evaluate.verdict import Outcome, Status
from outpace.stats import Estimate, level_of

Compared = Superiority | NonInferiority | Exceedance | Subgroups
_ESTIMATORS = {
    "geometric_mean_ratio": "geometric mean of paired ratios",
    "ratio_of_totals": "ratio of total times",
}


def rule(c: Compared) -> str:
    """What is asked, in words with its numbers."""
    match c:
        case Superiority():
            how = f", {_ESTIMATORS[c.estimator]}" if METRICS[c.metric].per == "request" else ""
            return (
                f"{METRIC_WORDS[c.metric]} of {c.arm} better than {c.against}'s by more than "
                f"{c.min_effect:g} times ({sure(c.alpha)}{how})"
            )
        case NonInferiority():
            if c.margin_abs is not None:
                side = "below" if METRICS[c.metric].better == "higher" else "above"
                limit = f"at most {percent(c.margin_abs)} {side} {c.against}'s"
            else:
                limit = f"at most {c.margin_ratio:g} times worse than {c.against}'s"
            return f"{METRIC_WORDS[c.metric]} of {c.arm} {limit} ({sure(c.alpha)})"
        case Exceedance():
            text = (
                f"at most {percent(1 - c.quantile)} of requests of {c.arm} over "
                f"{c.limit_ms:g} ms {METRIC_WORDS[c.metric]} ({sure(c.alpha)})"
            )
            if c.not_worse_than is not None:
                text += f", and at most {percent(c.margin)} more than {c.not_worse_than}"
            return text
        case Subgroups():
            return (
                f"{METRIC_WORDS[c.metric]} of {c.arm} at most {c.margin_ratio:g} times "
                f"{c.against}'s in every subgroup of {c.min_n} prompts or more ({sure(c.alpha)})"
            )


def compared(evidence: Evidence, c: Compared, where: Where) -> Outcome:
    """A criterion on the records of one phase."""
    against = c.against
    if isinstance(c, Exceedance) and c.not_worse_than is not None:
        against = c.not_worse_than
    why_not = problems(evidence, where, arm=c.arm, against=against)
    if isinstance(c, NonInferiority) and c.metric == "failure_rate":
        why_not = tuple(reason for reason in why_not if " failed; " not in reason)
    if why_not:
        return invalid(c.id, rule(c), why_not, _lines(evidence, where, (c.arm, against)))
    match c:
        case Superiority():
            return _superior(evidence, c, where)
        case NonInferiority():
            return _non_inferior(evidence, c, where)
        case Exceedance():
            return exceedance(evidence, c, where, rule(c))
        case Subgroups():
            return subgroups(evidence, c, where, rule(c))


def _superior(evidence: Evidence, c: Superiority, where: Where) -> Outcome:
    effect = gain(
        evidence, where, metric=c.metric, arm=c.arm, against=c.against, level=level_of(c.alpha),
        totals=c.estimator == "ratio_of_totals",
    )  # fmt: skip
    made = effect.estimate
    if made is None:
        return nothing(c, rule(c), effect.problem)
    found = f"{number(made.value)} times{interval(made.low, made.high)}"
    return _outcome(c, above(made, c.min_effect), found, effect, made)


def _non_inferior(evidence: Evidence, c: NonInferiority, where: Where) -> Outcome:
    level = level_of(c.alpha)
    if c.margin_abs is not None:
        effect = difference(
            evidence, where, metric=c.metric, arm=c.arm, against=c.against, level=level
        )
        made = effect.estimate
        if made is None:
            return nothing(c, rule(c), effect.problem)
        worse = made if METRICS[c.metric].better == "lower" else _negative(made)
        found = f"{points(made.value)}{points_between(made)}"
        return _outcome(c, at_most(worse, c.margin_abs), found, effect, made)
    effect = gain(evidence, where, metric=c.metric, arm=c.arm, against=c.against, level=level)
    if effect.estimate is None:
        return nothing(c, rule(c), effect.problem)
    made = inverse(effect.estimate)
    found = f"{number(made.value)} times{interval(made.low, made.high)}"
    return _outcome(c, at_most(made, c.margin_ratio or 1.0), found, effect, made)


def _negative(e: Estimate) -> Estimate:
    return Estimate(
        value=-e.value, n=e.n, low=None if e.high is None else -e.high,
        high=None if e.low is None else -e.low,
    )  # fmt: skip


def _outcome(c: Compared, status: Status, found: str, effect: Effect, made: Estimate) -> Outcome:
    return Outcome(
        id=c.id, status=status, rule=rule(c),
        found=f"{with_one(made, found)}, {units(made.n, effect.unit)}", estimate=made.value,
        low=made.low, high=made.high, n=made.n, records=effect.records,
    )  # fmt: skip


def _lines(evidence: Evidence, where: Where, arms: tuple[str, str]) -> tuple[int, ...]:
    rows = [row.line for name in arms for row in evidence.requests(where, name)]
    spans = [span.line for name in arms for span in evidence.windows(where, name)]
    return tuple(sorted({*rows, *spans}))
