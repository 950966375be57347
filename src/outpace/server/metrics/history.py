"""The last minutes, second by second: what a page needs to say what is true *now*.

Counts since the start answer no question about the present. A mark is a copy of the counts, made
at most once a second and only while passes run; two marks differ by what happened between them.
Made on the engine's thread, where the control may be asked without a race; between marks a pass
costs one look at the clock.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Protocol, TypeVar

from outpace.control.snapshot import Snapshot
from outpace.core.repeat import Clock, Round
from outpace.events import ControlSwitched, Event, RoundsDone
from outpace.server.metrics.meters import Counted, Meters

EVERY_S: Final = 1.0
KEPT_S: Final = 300.0
RECENT_S: Final = 60.0
_DECISIONS_KEPT: Final = 24
_Key = TypeVar("_Key", int, str)


class Measured(Protocol):
    """A control that can say what it knows."""

    def snapshot(self) -> Snapshot:
        """Its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the control decided of one sequence, and why; at_s in the meters' clock.

    kind: guess (up to so many guesses), rest (none), or switch (guessing stopped or resumed).
    """

    at_s: float
    key: int
    kind: str
    guesses: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What happened in the `seconds` up to at_s. length: tokens of a round with guesses, its own
    included; breakeven: how many would have paid; None = no data."""

    at_s: float
    seconds: float
    tokens: int
    rounds: int
    drafts: int
    length: float | None
    breakeven: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    at_s: float
    counted: Counted
    breakeven: float | None


class History:
    """Marks of the last KEPT_S seconds. Let it listen before the meters do: a mark says what was
    counted up to the end of the pass before."""

    def __init__(self, meters: Meters, control: object, clock: Clock) -> None:
        self._meters = meters
        self._ask: Callable[[], Snapshot] | None = getattr(control, "snapshot", None)
        self._clock = clock
        self._lock = threading.Lock()
        self._marks: deque[_Mark] = deque(maxlen=int(KEPT_S / EVERY_S))
        self._decisions: deque[Decision] = deque(maxlen=_DECISIONS_KEPT)
        self._next_s = float("-inf")

    def listen(self, event: Event) -> None:
        """One event of the engine."""
        match event:
            case RoundsDone(rounds=rounds):
                now_s = self._clock()
                if now_s >= self._next_s:
                    self._next_s = now_s + EVERY_S
                    self._mark(now_s, rounds)
            case ControlSwitched(key=key, reason=reason, state=state):
                verb = "stopped guessing" if state == "open" else "guesses again"
                self._decided(key, "switch", 0, f"{verb}: {reason}")
            case _:
                pass

    def points(self, after_s: float) -> list[Point]:
        """What happened between marks, oldest first: those later than after_s, and up to now."""
        with self._lock:
            marks = list(self._marks)
        last_s = self._meters.last_pass_s
        if marks and last_s is not None and last_s > marks[-1].at_s:
            counted = self._meters.counted(histograms=False)
            marks.append(_Mark(at_s=last_s, counted=counted, breakeven=marks[-1].breakeven))
        return [_point(a, b) for a, b in pairwise(marks) if b.at_s > after_s]

    def recent(self) -> Counted | None:
        """The counts of the last RECENT_S seconds; None if no pass ended in them."""
        last_s, since_s = self._meters.last_pass_s, self._clock() - RECENT_S
        if last_s is None or last_s < since_s:
            return None
        with self._lock:
            marks = list(self._marks)
        before = [mark for mark in marks if mark.at_s <= since_s] or marks[:1]
        counted = self._meters.counted(histograms=False)
        return difference(counted, before[-1].counted) if before else counted

    def decisions(self) -> list[Decision]:
        """The last ones that differed, newest first."""
        with self._lock:
            return list(reversed(self._decisions))

    def _mark(self, now_s: float, rounds: tuple[Round, ...]) -> None:
        said = self._ask() if self._ask is not None else None
        at_s = self._meters.last_pass_s
        mark = _Mark(
            at_s=now_s if at_s is None else at_s,
            counted=self._meters.counted(histograms=False),
            breakeven=said.breakeven if said is not None else None,
        )
        with self._lock:
            self._marks.append(mark)
        for done in rounds:
            turn = done.turn
            if done.verdict is not None and turn.reason:
                kind = "guess" if turn.max_nodes else "rest"
                self._decided(turn.sequence.key, kind, turn.max_nodes, turn.reason)

    def _decided(self, key: int, kind: str, guesses: int, reason: str) -> None:
        with self._lock:
            last = next((d for d in reversed(self._decisions) if d.key == key), None)
            if last is None or (last.kind, last.guesses, last.reason) != (kind, guesses, reason):
                self._decisions.append(
                    Decision(at_s=self._clock(), key=key, kind=kind, guesses=guesses, reason=reason)
                )


def difference(now: Counted, before: Counted) -> Counted:
    """What was counted between two moments; histograms are left out."""
    return replace(
        now,
        totals=_less(now.totals, before.totals),
        stages={
            stage: seconds - before.stages.get(stage, 0.0) for stage, seconds in now.stages.items()
        },
        finished=_less(now.finished, before.finished),
        kept_at=_less(now.kept_at, before.kept_at),
        offered_at=_less(now.offered_at, before.offered_at),
        by_source={
            name: (n - old[0], kept - old[1])
            for name, (n, kept) in now.by_source.items()
            if n > (old := before.by_source.get(name, (0, 0)))[0]
        },
        histograms={},
    )


def _less(now: Mapping[_Key, int], before: Mapping[_Key, int]) -> dict[_Key, int]:
    return {key: n - before.get(key, 0) for key, n in now.items() if n > before.get(key, 0)}


def _point(a: _Mark, b: _Mark) -> Point:
    new = difference(b.counted, a.counted).totals
    drafts = new.get("drafts", 0)
    return Point(
        at_s=b.at_s,
        seconds=b.at_s - a.at_s,
        tokens=new.get("generation_tokens", 0),
        rounds=new.get("rounds", 0),
        drafts=drafts,
        length=1 + new.get("accepted_tokens", 0) / drafts if drafts else None,
        breakeven=b.breakeven,
    )
