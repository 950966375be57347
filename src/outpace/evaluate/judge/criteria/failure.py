"""The failure mode: does speculation stay harmless when its guesses are wrong?

Every forced share of kept guesses, and every natural bad case, with the control on, must not be
slower than the baseline by more than the plan allows. With the control off the same is shown, not
judged: it says what the control is worth.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from outpace.evaluate.judge.effects import gain_of_pairs, inverse, p_slower
from outpace.evaluate.judge.evidence import Evidence, Pair, Where, lines_of
from outpace.evaluate.judge.validity import windows
from outpace.evaluate.judge.verified import Tested
from outpace.evaluate.judge.words import at_most, interval, invalid, number, sure, too_early, units
from outpace.evaluate.plan.document import BASELINE, CANDIDATE
from outpace.evaluate.plan.probes import FAILURE_MODE, FailureMode
from outpace.evaluate.verdict import Outcome, Status
from outpace.stats import Estimate, holm, level_of

ALPHA = 0.05
_VARIANT = re.compile(r"^(?P<case>(?:alpha|case)=[^,]+),control=(?P<control>on|off)$")
METRIC = "e2el"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One variant that was measured. slowdown: times the baseline's time; None = no data.
    problems: why it does not count."""

    case: str
    control: bool
    slowdown: Estimate | None
    pairs: tuple[Pair, ...]
    problems: tuple[str, ...] = ()

    @property
    def alpha(self) -> float | None:
        """The forced share of kept guesses; None for natural cases."""
        kind, _, value = self.case.partition("=")
        return float(value) if kind == "alpha" else None


def probes(evidence: Evidence) -> tuple[Probe, ...]:
    """All variants of the failure mode in the records, in the plan's order."""
    found = {row.m.variant for row in evidence.rows if row.m.phase == "failure_mode"}
    made = []
    for variant in sorted(found):
        match = _VARIANT.match(variant)
        if match is None:
            continue
        pairs = _pairs(evidence, variant)
        effect = gain_of_pairs(pairs, METRIC, level=level_of(ALPHA))
        slowdown = None if effect.estimate is None else inverse(effect.estimate)
        made.append(
            Probe(
                case=match["case"],
                control=match["control"] == "on",
                slowdown=slowdown,
                pairs=tuple(pairs),
                problems=tuple(windows(evidence, _where(variant), (CANDIDATE, BASELINE))),
            )
        )
    order = list(planned(evidence.plan.failure_mode)) if evidence.plan.failure_mode else []
    return tuple(sorted(made, key=lambda p: order.index(p.case) if p.case in order else 99))


def planned(mode: FailureMode) -> Iterator[str]:
    """The cases that a plan asks for, as variants name them."""
    yield from (f"alpha={share:g}" for share in mode.forced_acceptance)
    yield from (f"case={case}" for case in mode.cases)


def failure_mode(evidence: Evidence, mode: FailureMode) -> Outcome:
    """All planned cases with the control on; recovery, where the plan limits it."""
    rule = (
        f"with the control on, {METRIC} at most {mode.max_slowdown:g} times the baseline's at "
        f"every forced acceptance and in every bad case ({sure(ALPHA)} each)"
    )
    done = evidence.done("test")
    if done is None:
        return too_early(FAILURE_MODE, rule, "test")
    measured = {p.case: p for p in probes(evidence) if p.control}
    known = [c for c in planned(mode) if c in measured]
    p_values = [p_slower(measured[c].pairs, METRIC, mode.max_slowdown) for c in known]
    adjusted = dict(zip(known, holm([1.0 if p is None else p for p in p_values]), strict=True))
    parts = [
        _case(case, measured.get(case), mode, rule, worse=adjusted.get(case, 1.0) <= ALPHA)
        for case in planned(mode)
    ]
    parts += _recovery(mode, Tested.of(done[1]), rule)
    if all(part.n == 0 and part.status != "INVALID" for part in parts):
        status: Status = "FAIL" if mode.critical else "INCONCLUSIVE"
        return Outcome(id=FAILURE_MODE, status=status, rule=rule, found="no data")
    statuses = {part.status for part in parts}
    order: tuple[Status, ...] = ("FAIL", "INVALID", "INCONCLUSIVE", "PASS")
    status = next(s for s in order if s in statuses)
    timed = [p for p in parts if p.estimate is not None and p.id in measured]
    timed = [p for p in timed if p.status == "FAIL"] or timed
    worst = max(timed, key=lambda p: p.estimate or 0.0, default=parts[0])
    return Outcome(
        id=FAILURE_MODE, status=status, rule=rule,
        found=f"{sum(p.status == 'PASS' for p in parts)} of {units(len(parts), 'case')} pass; "
        f"worst {worst.id}: {worst.found}",
        estimate=worst.estimate, low=worst.low, high=worst.high, n=worst.n, parts=tuple(parts),
        records=tuple(sorted({n for p in parts for n in p.records})), statements=(done[0],),
    )  # fmt: skip


def _case(
    case: str, probe: Probe | None, mode: FailureMode, rule: str, *, worse: bool
) -> Outcome:  # fmt: skip
    if probe is not None and probe.problems:
        return invalid(case, rule, probe.problems, lines_of(probe.pairs))
    if probe is None or probe.slowdown is None:
        return Outcome(id=case, status="INCONCLUSIVE", rule=rule, found="no data")
    made = probe.slowdown
    status = at_most(made, mode.max_slowdown)
    if status == "FAIL" and not worse:
        status = "INCONCLUSIVE"  # one of many cases may look bad by chance
    return Outcome(
        id=case, status=status, rule=rule,
        found=f"{number(made.value)} times{interval(made.low, made.high)}, {units(made.n)}",
        estimate=made.value, low=made.low, high=made.high, n=made.n,
        records=lines_of(probe.pairs),
    )  # fmt: skip


def _recovery(mode: FailureMode, tested: Tested, rule: str) -> list[Outcome]:
    """Only what the plan limits is judged. What was not seen is INCONCLUSIVE, not good."""
    seen = tested.recovery
    limits = (
        ("fall_back", mode.recovery.max_fall_back_s, seen.fall_back_s if seen else None),
        ("return", mode.recovery.max_return_s, seen.return_s if seen else None),
    )
    made = []
    for name, limit, took_s in limits:
        if limit is None:
            continue
        status: Status = "INCONCLUSIVE"
        found = seen.found if seen is not None and seen.found else "not seen"
        if took_s is not None:
            status, found = "PASS" if took_s <= limit else "FAIL", f"{took_s:.2f} s"
        made.append(
            Outcome(
                id=name, status=status, found=found, estimate=took_s, n=int(took_s is not None),
                rule=f"{name.replace('_', ' ')} within {limit:g} s; {rule}",
            )
        )  # fmt: skip
    return made


def _where(variant: str) -> Where:
    return Where(phase="failure_mode", variant=variant)


def _pairs(evidence: Evidence, variant: str) -> list[Pair]:
    """Pairs within the variant; else with the baseline's answers to the same items in the test."""
    where = _where(variant)
    pairs = evidence.pairs(where, arm=CANDIDATE, against=BASELINE)
    if pairs:
        return list(pairs)
    known = {
        (row.m.request.item, row.m.request.turn, row.m.temperature): row
        for row in evidence.requests(Where(phase="test"), BASELINE)
    }
    made = []
    for row in evidence.requests(where, CANDIDATE):
        base = known.get((row.m.request.item, row.m.request.turn, row.m.temperature))
        if base is not None:
            made.append(Pair(base, row))
    return made
