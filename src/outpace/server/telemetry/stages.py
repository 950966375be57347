"""Seconds of the five stages, added up by request while it runs."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from outpace.events import Admitted, Event, RoundsDone
from outpace.server.metrics.meters import STAGES

# Requests that nobody takes (they did not come over HTTP) are forgotten beyond this many.
_KEPT: Final = 4096


class StageSeconds:
    """By a sequence's key. `listen` is the engine's thread's, `take` anybody's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: OrderedDict[int, dict[str, float]] = OrderedDict()

    def listen(self, event: Event) -> None:
        """One event of the engine."""
        with self._lock:
            match event:
                case Admitted(sequence=sequence):
                    self._sums.setdefault(sequence.key, dict.fromkeys(STAGES, 0.0))
                    while len(self._sums) > _KEPT:
                        self._sums.popitem(last=False)
                case RoundsDone(rounds=rounds):
                    for done in rounds:
                        sums = self._sums.get(done.turn.sequence.key)
                        if sums is not None:
                            for stage in STAGES:
                                sums[stage] += getattr(done.seconds, stage)
                case _:
                    pass

    def take(self, key: int) -> Mapping[str, float]:
        """A request's sums, which are forgotten with it; empty if it never ran. In a pass that it
        shared, drafting and scoring count whole: that is what the request waited for."""
        with self._lock:
            return self._sums.pop(key, {})
