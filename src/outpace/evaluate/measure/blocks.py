"""Asks the blocks of a plan, arm next to arm, and goes on where a killed process stopped.

A group is asked again, of every arm and under the next attempt, unless one attempt has all its
answers: a pair whose halves were measured minutes apart would be no pair. Whatever was written
stays in the records, and counts or not by that rule alone.
"""

import threading
import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from outpace.bench.client import Answer
from outpace.bench.record import BlockId, request_of
from outpace.core.sampling import Sampling as Request
from outpace.evaluate.arms.arm import GENERATED, Asked, OpenArm, moved, used
from outpace.evaluate.measure.schedule import Ask, Group, Question, blocks, request
from outpace.evaluate.measure.shares import Share, window_of
from outpace.evaluate.measure.shares import to_line as share_line
from outpace.evaluate.measurement import Grade, Measurement, Measurements, Phase, to_line
from outpace.evaluate.plan.data import Design, Sampling
from outpace.journal import Journal

# Counters of a server may be published a little after the answer.
_COUNTERS_LATE_S, _COUNTERS_STEP_S = 2.0, 0.05
_WARM_TOKENS = 16

Tell = Callable[[int, str], None]
GradeText = Callable[[str, str], Grade | None]
Key = tuple[str, float]


def no_grade(item: str, text: str) -> Grade | None:  # noqa: ARG001 - the signature of GradeText
    """Nothing to check."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What to measure. plan: the identity. load: the name under which blocks are kept. warm:
    asked of each arm before it counts. grade: item id, text -> what a check says."""

    plan: str
    phase: Phase
    design: Design
    sampling: Sampling
    questions: tuple[Question, ...]
    arms: tuple[str, ...]
    variant: str = ""
    load: str = "closed:1"
    warm: tuple[Question, ...] = ()
    grade: GradeText = no_grade

    def blocks(self) -> list[tuple[Group, ...]]:
        """The groups of each block."""
        return list(blocks(self.design, self.questions, self.arms))

    @property
    def n_requests(self) -> int:
        """How many there are, over all arms and blocks."""
        turns = sum(q.n_turns * len(q.temperatures) for q in self.questions)
        return turns * self.design.blocks * len(self.arms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Where things are written, and what was there before."""

    records: Journal
    shares: Journal
    before: Measurements
    shares_before: Seq[Share]

    @property
    def attempt(self) -> int:
        """Of this process."""
        return self.before.last_attempt + 1


def run(work: Work, arms: Mapping[str, OpenArm], files: Files, tell: Tell) -> None:
    """Measure every group that is not done. A KeyboardInterrupt leaves what was written."""
    past = _Past(work, files)
    warmed = False
    for groups in work.blocks():
        repeat = groups[0].repeat if groups else 0
        if past.windows_of(repeat) >= set(work.arms):
            tell(sum(_size(group) for group in groups), "measured before")
            continue
        if not warmed:
            _warm_up(work, arms)
            warmed = True
        for name in work.arms:
            arms[name].fresh()
        shares = [_Turns(work, group, arms, files, past, tell).shares() for group in groups]
        for name in work.arms:
            mine = [share for part in shares for share in part if share.arm == name]
            if mine and name not in past.windows_of(repeat):
                window = window_of(mine, one_stream=work.design.streams == 1)
                files.records.append(to_line(window))


def _warm_up(work: Work, arms: Mapping[str, OpenArm]) -> None:
    for name in work.arms:
        for place, question in enumerate(work.warm):
            ask = Ask(question=question, temperature=question.temperatures[0], place=place)
            sampling = request(ask, work.sampling.model_copy(update={"max_tokens": _WARM_TOKENS}),
                               seed=work.design.seed)  # fmt: skip
            arms[name].ask(question.messages, sampling)


class _Past:
    """What earlier processes measured of this work."""

    def __init__(self, work: Work, files: Files) -> None:
        self._answered: dict[tuple[int, str, Key], dict[int, int]] = {}
        for m in files.before.of(work.phase, variant=work.variant):
            block = m.request.block
            if block.load == work.load and m.request.ok:
                attempts = self._answered.setdefault(
                    (block.repeat, m.arm, (m.request.item, m.temperature)), {}
                )
                attempts[m.request.attempt] = attempts.get(m.request.attempt, 0) + 1
        self._shares = {
            (s.repeat, s.group, s.arm, s.attempt): s
            for s in files.shares_before
            if (s.plan, s.phase, s.variant, s.load)
            == (work.plan, work.phase, work.variant, work.load)
        }
        self._windows: dict[int, set[str]] = {}
        for w in files.before.windows:
            if (w.phase, w.variant, w.block.block.load) == (work.phase, work.variant, work.load):
                self._windows.setdefault(w.block.block.repeat, set()).add(w.block.block.arm)

    def windows_of(self, repeat: int) -> set[str]:
        """Arms whose window of this block is written."""
        return self._windows.get(repeat, set())

    def shares_of(self, group: Group) -> list[Share] | None:
        """A group's shares if one attempt has all its answers, else None."""
        found: set[int] | None = None
        for arm in group.arms:
            for ask in group.asks:
                key = (group.repeat, arm, (ask.question.id, ask.temperature))
                whole = {
                    attempt
                    for attempt, n in self._answered.get(key, {}).items()
                    if n >= ask.question.n_turns
                }
                found = whole if found is None else found & whole
        for attempt in sorted(found or ()):
            shares = [
                self._shares.get((group.repeat, group.index, arm, attempt)) for arm in group.arms
            ]
            if all(shares):
                return [share for share in shares if share is not None]
        return None


class _Turns:
    """One group, asked of every arm in turn."""

    def __init__(
        self, work: Work, group: Group, arms: Mapping[str, OpenArm], files: Files, past: _Past,
        tell: Tell,
    ) -> None:  # fmt: skip
        self._work, self._group, self._arms = work, group, arms
        self._files, self._past, self._tell = files, past, tell

    def shares(self) -> list[Share]:
        """What each arm's turn took; asked only if it is not there yet."""
        known = self._past.shares_of(self._group)
        if known is not None:
            self._tell(_size(self._group), "measured before")
            return known
        return [self._turn(name, at) for at, name in enumerate(self._group.arms)]

    def _turn(self, name: str, at: int) -> Share:
        work, group, arm = self._work, self._group, self._arms[name]
        sampled = [request(ask, work.sampling, seed=work.design.seed) for ask in group.asks]
        arm.settle([
            Asked(messages=ask.question.messages, sampling=sampling)
            for ask, sampling in zip(group.asks, sampled, strict=True)
        ])  # fmt: skip
        counted, before = arm.counters(), arm.usage()
        began_s = time.perf_counter()
        answers = _together(arm, group.asks, sampled)
        wall_s = time.perf_counter() - began_s
        after = arm.usage()
        own = sum(answer.completion_tokens for given in answers for _, answer in given)
        took = used(before, after)
        share = Share(
            plan=work.plan, phase=work.phase, variant=work.variant, load=work.load,
            repeat=group.repeat, group=group.index, arm=name, attempt=self._files.attempt,
            wall_s=wall_s, requests=sum(map(len, answers)), own_tokens=own, cpu_s=took.cpu_s,
            gpu_s=took.gpu_s, energy_j=took.energy_j, peak_bytes=took.peak_bytes,
            counters=_counted_since(arm, counted, own),
        )  # fmt: skip
        self._files.shares.append(share_line(share))
        self._write(name, at, sampled, answers, began_s)
        return share

    def _write(
        self, name: str, at: int, sampled: Seq[Request], answers: Seq[list[tuple[float, Answer]]],
        began_s: float,
    ) -> None:  # fmt: skip
        work, group = self._work, self._group
        block = BlockId(load=work.load, repeat=group.repeat, arm=name)
        order = (group.index * len(group.arms) + at) * len(group.asks)
        for i, (ask, sampling, given) in enumerate(zip(group.asks, sampled, answers, strict=True)):
            for turn, (due_s, answer) in enumerate(given):
                last = turn == len(ask.question.later)
                measured = Measurement(
                    plan=work.plan, phase=work.phase, variant=work.variant, order=order + i,
                    request=request_of(
                        answer, block, attempt=self._files.attempt,
                        place=(ask.question.id, ask.question.category, turn), sched_s=due_s,
                        began_s=began_s,
                    ),
                    temperature=ask.temperature, seed=sampling.seed,
                    subgroups=ask.question.at(ask.temperature),
                    counted_by=answer.counted_by, text=answer.text, tokens=answer.tokens,
                    logprobs=answer.logprobs, reported=answer.reported,
                    grade=work.grade(ask.question.id, answer.text) if last and answer.ok else None,
                )  # fmt: skip
                self._files.records.append(to_line(measured))
                self._tell(1, f"{name} {work.variant or work.phase} #{group.repeat + 1}")


def _size(group: Group) -> int:
    return len(group.arms) * sum(ask.question.n_turns for ask in group.asks)


def _together(
    arm: OpenArm, asks: Seq[Ask], sampled: Seq[Request]
) -> list[list[tuple[float, Answer]]]:
    """All turns of all asks, at the same time: when each was due, and its answer."""
    if len(asks) == 1:
        return [_all_turns(arm, asks[0].question, sampled[0])]
    found: list[list[tuple[float, Answer]]] = [[] for _ in asks]
    problems: list[BaseException] = []

    def work(i: int) -> None:
        try:
            found[i] = _all_turns(arm, asks[i].question, sampled[i])
        except BaseException as error:  # raised again by the thread that waits
            problems.append(error)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(asks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return found


def _all_turns(arm: OpenArm, question: Question, sampling: Request) -> list[tuple[float, Answer]]:
    messages = list(question.messages)
    due_s = time.perf_counter()
    found: list[tuple[float, Answer]] = []
    for turn in range(question.n_turns):
        answer = arm.ask(messages, sampling, want_text=True)
        found.append((due_s, answer))
        if not answer.ok:
            break
        if turn < len(question.later):
            messages.append({"role": "assistant", "content": answer.text})
            messages.append({"role": "user", "content": question.later[turn]})
        due_s = answer.ended_s
    return found


def _counted_since(
    arm: OpenArm, before: Mapping[str, float] | None, own_tokens: int
) -> dict[str, float]:
    """How far counters moved, once they have caught up with our own tokens."""
    deadline_s = time.perf_counter() + _COUNTERS_LATE_S
    while True:
        found = moved(before, arm.counters())
        late = found.get(GENERATED, own_tokens) < own_tokens
        if not late or time.perf_counter() > deadline_s:
            return found
        time.sleep(_COUNTERS_STEP_S)
