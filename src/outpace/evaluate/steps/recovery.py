"""How soon guessing stops when guesses go wrong, and starts again when they are right again.

One long greedy text, guessed by a drafter that knows it: right for a while, then wrong, then
right. The control is the candidate's own. The rounds say what it did, the clock how long it took.
"""

import time
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from outpace.bench.client import Messages, encode
from outpace.core.sampling import Sampling
from outpace.errors import RequestError
from outpace.evaluate.arms.arm import Asked
from outpace.evaluate.arms.local import LocalArm, engine_of
from outpace.evaluate.judge.verified import Recovered
from outpace.evaluate.plan.arms import InProcessArm, Planted
from outpace.evaluate.plan.document import CANDIDATE
from outpace.evaluate.steps.session import Session
from outpace.events import ControlSwitched, Event

ZONE_TOKENS, ZONES = 160, 3
# Guessing has stopped when no more of the next rounds guess than probes do, and is back when no
# more of them rest.
_LOOK, MOST_PROBES = 8, 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A round: when it ended, the text's length before it, and its guesses."""

    at_s: float
    written: int
    drafted: int


def recovery(session: Session) -> Recovered | None:
    """The candidate's; None where the failure mode is not probed, or not in this process."""
    arm, candidate = session.plan.arms[CANDIDATE], session.arms[CANDIDATE]
    if session.plan.failure_mode is None:
        return None
    if not isinstance(arm, InProcessArm) or not isinstance(candidate, LocalArm):
        return Recovered(found="the control of a server cannot be driven from outside")
    item = session.items.part("test")[0]
    changed = arm.model_copy(update={"test_only": Planted(synthetic="right")})
    with session.shell.watch("recovery", 0) as tell:
        tell(0, "recovery")
        return _driven(LocalArm(CANDIDATE, changed, candidate.model), item.messages)


def _driven(arm: LocalArm, messages: Messages) -> Recovered:
    prompt = tuple(encode(arm.model, messages))
    room = arm.model.runtime.traits.context_tokens - len(prompt) - 1
    zone = min(ZONE_TOKENS, room // ZONES)
    sampling = Sampling(temperature=0, max_tokens=ZONES * zone, ignore_eos=True)
    try:
        asked = Asked(messages=messages, sampling=sampling)
        arm.settle([asked])
        steps, switches = _walk(arm, prompt, sampling, zone)
    except RequestError as error:
        return Recovered(found=f"could not be driven: {error}")
    finally:
        arm.close()
    return judged(steps, switches, zone)


def _walk(arm: LocalArm, prompt: Seq[int], sampling: Sampling, zone: int) -> tuple[list[Step], int]:
    """Decode with a script that is wrong in its middle third."""
    script = list(arm.scripts[tuple(prompt)])
    wrong = [(t + 1) % arm.model.runtime.traits.vocab_size for t in script[zone : 2 * zone]]
    twisted = {tuple(prompt): [*script[:zone], *wrong, *script[2 * zone :]]}
    engine = engine_of(arm.arm, arm.model, twisted)
    switches = 0

    def listen(event: Event) -> None:
        nonlocal switches
        switches += isinstance(event, ControlSwitched)

    engine.listeners.append(listen)
    sequence = engine.add(prompt, sampling, seed=0)
    steps: list[Step] = []
    while not engine.idle:
        written = len(sequence.output)
        for done in engine.step():
            steps.append(Step(at_s=time.perf_counter(), written=written, drafted=len(done.draft)))
    return steps, switches


def judged(steps: Seq[Step], switches: int, zone: int) -> Recovered:
    """What the rounds show."""
    bad = [s for s in steps if zone <= s.written < 2 * zone]
    good = [s for s in steps if s.written >= 2 * zone]
    stopped = _first(bad, resting=True)
    back = _first(good, resting=False)
    guessed = any(s.drafted for s in steps if s.written < zone)
    words = f"guesses were right, then wrong, then right, for {zone} tokens each; " + (
        "it guessed at first" if guessed else "it never guessed at first"
    )
    return Recovered(
        fall_back_s=stopped.at_s - bad[0].at_s if stopped else None,
        fall_back_tokens=stopped.written - bad[0].written if stopped else None,
        return_s=back.at_s - good[0].at_s if back else None,
        return_tokens=back.written - good[0].written if back else None,
        switches=switches,
        found=words,
    )


def _first(steps: Seq[Step], *, resting: bool) -> Step | None:
    """The first round that rests, or guesses, where most of those that follow do too."""
    for at, step in enumerate(steps):
        coming = steps[at : at + _LOOK]
        share = sum(s.drafted > 0 for s in coming) / len(coming)
        if resting and not step.drafted and share <= MOST_PROBES:
            return step
        if not resting and step.drafted and share > 1 - MOST_PROBES:
            return step
    return None
