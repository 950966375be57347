"""What a service is doing, in numbers: fed by the engine's events, read by any thread."""

import threading
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from outpace.core.repeat import Clock
from outpace.events import Event, Preempted, RequestDone, RoundsDone

WINDOW_S = 10.0
_BUCKETS = 20
_ENDS_KEPT = 32
_FIRST_HINT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStats:
    """A snapshot. Totals count since the service began.

    running, waiting: requests that hold memory, and those that wait for it. tokens_per_s: over
    the last seconds. finished: requests by how they ended. longest_wait_s: from submit to memory.
    """

    running: int
    waiting: int
    tokens_per_s: float
    passes: int
    rounds: int
    tokens: int
    drafted: int
    kept: int
    preempted: int
    finished: Mapping[str, int]
    longest_wait_s: float


class Gauge:
    """Counts events. `listen` and `waited` are the engine's thread's; the rest is anybody's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._totals = Counter[str]()
        self._finished = Counter[str]()
        self._longest_wait_s = 0.0
        self._recent: deque[tuple[int, int]] = deque()  # (bucket, tokens)
        self._ends_s: deque[float] = deque(maxlen=_ENDS_KEPT)

    def listen(self, event: Event) -> None:
        """Count one event of the engine."""
        with self._lock:
            match event:
                case RoundsDone():
                    self._count(event)
                case Preempted():
                    self._totals["preempted"] += 1
                case RequestDone():
                    self._finished[event.sequence.finish or "abort"] += 1
                    self._ends_s.append(self._clock())
                case _:
                    pass

    def waited(self, seconds: float) -> None:
        """A request waited this long before it began."""
        with self._lock:
            self._longest_wait_s = max(self._longest_wait_s, seconds)

    def retry_after_s(self) -> float:
        """When one more request may end: the mean time between recent ends."""
        with self._lock:
            ends = self._ends_s
            if len(ends) < 2:
                return _FIRST_HINT_S
            return min(60.0, max(0.05, (ends[-1] - ends[0]) / (len(ends) - 1)))

    def snapshot(self, *, running: int, waiting: int) -> ServiceStats:
        """The numbers now."""
        with self._lock:
            self._forget_old()
            t = self._totals
            return ServiceStats(
                running=running,
                waiting=waiting,
                tokens_per_s=sum(tokens for _, tokens in self._recent) / WINDOW_S,
                passes=t["passes"],
                rounds=t["rounds"],
                tokens=t["tokens"],
                drafted=t["drafted"],
                kept=t["kept"],
                preempted=t["preempted"],
                finished=dict(self._finished),
                longest_wait_s=self._longest_wait_s,
            )

    def _count(self, event: RoundsDone) -> None:
        tokens = sum(len(done.emitted) for done in event.rounds)
        totals = self._totals
        totals["passes"] += 1
        totals["rounds"] += sum(done.verdict is not None for done in event.rounds)
        totals["tokens"] += tokens
        totals["drafted"] += sum(len(done.draft) for done in event.rounds)
        totals["kept"] += sum(done.n_kept for done in event.rounds)
        bucket = self._bucket()
        if self._recent and self._recent[-1][0] == bucket:
            tokens += self._recent.pop()[1]
        self._recent.append((bucket, tokens))
        self._forget_old()

    def _bucket(self) -> int:
        return int(self._clock() / WINDOW_S * _BUCKETS)

    def _forget_old(self) -> None:
        oldest = self._bucket() - _BUCKETS
        while self._recent and self._recent[0][0] <= oldest:
            self._recent.popleft()
