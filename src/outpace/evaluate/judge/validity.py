"""Does a comparison count at all? Reasons why not; none = it does."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq

from outpace.evaluate.arms.arm import DRAFTED
from outpace.evaluate.judge.evidence import Evidence, Pair, Row, Where, by_item
from outpace.evaluate.judge.verified import Verified
from outpace.evaluate.judge.words import interval, number, percent
from outpace.evaluate.plan.arms import InProcessArm
from outpace.evaluate.plan.document import BASELINE, CANDIDATE
from outpace.evaluate.plan.load import Replay, Timed, Validity
from outpace.stats import geometric_mean_ratio


def problems(evidence: Evidence, where: Where, *, arm: str, against: str) -> tuple[str, ...]:
    """Why an arm cannot be compared with another on these records, in words."""
    verify = evidence.done("verify")
    verified = Verified.of(verify[1]) if verify else Verified()
    pairs = evidence.pairs(where, arm=arm, against=against)
    found = [
        *_models(verified),
        *_activity(evidence, where, verified, (arm, against)),
        *windows(evidence, where, (arm, against)),
        *(_rate(evidence, where, (arm, against)) if where.phase == "load" else ()),
        *_failures(evidence, where, (arm, against)),
        *_lengths(evidence, pairs),
    ]
    return tuple(dict.fromkeys(found))


def rules(evidence: Evidence) -> Validity:
    """When a run counts: as the plan says, or its defaults."""
    return evidence.plan.load.validity if evidence.plan.load is not None else Validity()


def guessed(evidence: Evidence, where: Where, arm: str) -> bool | None:
    """Whether an arm made guesses in these records; None = nobody says."""
    said = [row.m.request.speculation for row in evidence.requests(where, arm)]
    drafted = [s.drafted for s in said if s is not None]
    counted = [s.w.counters[DRAFTED] for s in evidence.windows(where, arm)
               if DRAFTED in s.w.counters]  # fmt: skip
    if not drafted and not counted:
        return None
    return any(drafted) or any(counted)


def achieved_rate(rows: Seq[Row]) -> tuple[float, float] | None:
    """Requests per second that were due, and that were sent; None with fewer than two."""
    due = [row.m.request.sched_s for row in rows]
    sent = [row.m.request.sent_s for row in rows]
    spans = (max(due) - min(due), max(sent) - min(sent)) if len(rows) > 1 else (0.0, 0.0)
    if min(spans) <= 0:
        return None
    return (len(rows) - 1) / spans[0], (len(rows) - 1) / spans[1]


def _models(verified: Verified) -> Iterator[str]:
    if verified.same_model is not None and verified.same_model.same is False:
        differ = [f"{c.what} ({c.found})" for c in verified.same_model.checks if c.same is False]
        yield f"the arms do not serve the same model: {', '.join(differ) or 'they differ'}"


def _activity(
    evidence: Evidence, where: Where, verified: Verified, arms: tuple[str, str]
) -> Iterator[str]:
    for name in arms:
        active = guessed(evidence, where, name)
        if active is None:
            told = verified.activity.get(name)
            active = told.moved if told is not None else None
        if name == BASELINE and active:
            yield "the baseline made guesses, so the arms do not differ in speculation"
        if name == CANDIDATE and active is False and _should_guess(evidence, name):
            yield "the candidate made no guess at all: nothing of it was measured"


def _should_guess(evidence: Evidence, name: str) -> bool:
    """In-process arms say whether they may; a candidate elsewhere is one for its guesses."""
    arm = evidence.plan.arms[name]
    return arm.guesses if isinstance(arm, InProcessArm) else True


def windows(evidence: Evidence, where: Where, arms: tuple[str, str]) -> Iterator[str]:
    """Windows that do not count, and why."""
    for name in arms:
        for span in evidence.windows(where, name):
            if not span.w.valid:
                block = span.w.block.block
                why = ", ".join(span.w.reasons) or "set aside"
                yield f"block {block.repeat + 1} of {name} ({block.load}): {why}"


def _rate(evidence: Evidence, where: Where, arms: tuple[str, str]) -> Iterator[str]:
    if not isinstance(evidence.plan.scenario(where.load or ""), Timed | Replay):
        return  # closed loops send when they are answered
    tolerance = rules(evidence).rate_tolerance
    for name in arms:
        rates = achieved_rate(evidence.requests(where, name))
        if rates is None:
            continue
        asked, sent = rates
        if abs(sent / asked - 1) > tolerance:
            yield (
                f"{name} was sent {number(sent)} requests/s where {number(asked)} were due; "
                f"allowed: within {percent(tolerance)}"
            )


def _failures(evidence: Evidence, where: Where, arms: tuple[str, str]) -> Iterator[str]:
    allowed = rules(evidence).max_failure_rate
    for name in arms:
        rows = evidence.requests(where, name)
        failed = sum(not row.m.request.ok for row in rows)
        if rows and failed / len(rows) > allowed:
            yield (
                f"{failed} of {len(rows)} requests of {name} failed; "
                f"times of the others count up to {percent(allowed)}"
            )


def _lengths(evidence: Evidence, pairs: Seq[Pair]) -> Iterator[str]:
    """Answers of another length are other work; judged on the bounds, as lengths vary by chance."""
    tolerance = rules(evidence).output_length_tolerance
    base: list[float] = []
    other: list[float] = []
    for group in by_item(p for p in pairs if p.ok).values():
        sums = [
            sum(r.m.request.completion_tokens for r in half) for half in zip(*group, strict=True)
        ]
        if all(sums):
            base.append(sums[0])
            other.append(sums[1])
    ratio = geometric_mean_ratio(other, base)
    if ratio is None or ratio.low is None or ratio.high is None:
        return
    if ratio.low > 1 + tolerance or ratio.high < 1 - tolerance:
        yield (
            f"answers have {number(ratio.value)}{interval(ratio.low, ratio.high)} times the "
            f"tokens of the other arm's; allowed: within {percent(tolerance)}"
        )
