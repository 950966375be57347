"""What happens when things go wrong: the failure mode, and assumptions changed one at a time."""

import math

from outpace.evaluate.judge.criteria.failure import probes
from outpace.evaluate.judge.effects import gain_of_pairs
from outpace.evaluate.judge.evidence import Where, by_item, lines_of
from outpace.evaluate.plan.document import BASELINE, CANDIDATE
from outpace.evaluate.report.facts.speed import main_pairs, primary_metric
from outpace.evaluate.report.figures import ProbePoint, Source, WhatIf, spans
from outpace.evaluate.report.study import TEST, Reported
from outpace.stats import Estimate

# A change that takes more than half of the gain is what the gain rests on.
_MOST = 0.5


def failure_mode(study: Reported) -> tuple[ProbePoint, ...]:
    """Every case, with the control on and off."""
    return tuple(
        ProbePoint(
            case=p.case, alpha=p.alpha, control=p.control, slowdown=p.slowdown,
            source=Source(records=spans(lines_of(p.pairs))),
        )
        for p in probes(study.evidence)
    )  # fmt: skip


def what_if(study: Reported) -> tuple[WhatIf, ...]:
    """The claim's gain under each changed assumption, beside the plan's on the same prompts."""
    metric = primary_metric(study)
    evidence = study.evidence
    rows = [r for r in evidence.rows if r.m.phase == "what_if"]
    made: list[WhatIf] = []
    for variant in dict.fromkeys(r.m.variant for r in rows):
        where = Where(phase="what_if", variant=variant)
        arms = {r.m.arm for r in rows if r.m.variant == variant} - {BASELINE}
        for arm in sorted(arms, key=lambda name: (name != CANDIDATE, name)):
            pairs = evidence.pairs(where, arm=arm, against=BASELINE)
            gain = gain_of_pairs(pairs, metric, level=0.95).estimate
            planned = _planned(study, metric, arm, set(by_item(pairs)))
            lost = _lost(gain, planned)
            made.append(
                WhatIf(
                    change=variant, arm=arm, gain=gain, planned=planned, lost=lost,
                    carries=arm == CANDIDATE and lost is not None and lost >= _MOST,
                    source=Source(records=spans(lines_of(pairs))),
                )
            )  # fmt: skip
    return tuple(made)


def _planned(study: Reported, metric: str, arm: str, items: set[str]) -> Estimate | None:
    """The plan's own gain on those prompts, if they are the test's; else on all of them."""
    pairs = (
        main_pairs(study, metric)
        if arm == CANDIDATE
        else study.evidence.pairs(TEST, arm=arm, against=BASELINE)
    )
    same = [p for p in pairs if p.item in items]
    return gain_of_pairs(same or pairs, metric, level=0.95).estimate


def _lost(gain: Estimate | None, planned: Estimate | None) -> float | None:
    """The share of a gain that is gone; None where there was none to lose."""
    if gain is None or planned is None or planned.low is None or planned.low <= 1:
        return None
    return 1 - math.log(gain.value) / math.log(planned.value)
