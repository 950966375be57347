"""What the process's own clock shows, in seconds since 1970."""

import time
from collections.abc import Callable

# Reads as close as this are good enough; of worse ones, the closest of so many.
_CLOSE_S, _TRIES = 20e-6, 8


def epoch_s(
    clock: Callable[[], float] = time.perf_counter, wall: Callable[[], float] = time.time
) -> float:
    """What to add to `clock` for seconds since 1970.

    Two clocks cannot be read at once, and a thread may lose its processor in between, on a busy
    machine for many milliseconds. So the wall is read between two reads of the clock, again if they
    lie apart; the error is at most half their distance.
    """
    best_s, found = float("inf"), 0.0
    for _ in range(_TRIES):
        before = clock()
        at = wall()
        after = clock()
        if after - before < best_s:
            best_s, found = after - before, at - (before + after) / 2
        if best_s <= _CLOSE_S:
            break
    return found
