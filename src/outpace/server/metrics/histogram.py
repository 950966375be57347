"""A cumulative histogram, as Prometheus means it."""

from bisect import bisect_left
from collections.abc import Sequence as Seq
from dataclasses import dataclass

# Seconds, from a cached token on a fast machine to a long answer on a slow one.
SHORT_S = (
    0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5,
    0.75, 1.0, 2.5, 5.0, 10.0, 40.0,
)  # fmt: skip
LONG_S = (
    0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0,
    60.0, 120.0, 240.0, 480.0, 960.0,
)  # fmt: skip
TOKENS = tuple(float(m * 10**e) for e in range(6) for m in (1, 2, 5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Cumulative counts by upper bound (the last is infinite), and the sum."""

    buckets: tuple[tuple[float, int], ...]
    total: float


class Histogram:
    """Counts by upper bound. Whoever shares one brings the lock."""

    def __init__(self, bounds: Seq[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0

    def observe(self, x: float, times: int = 1) -> None:
        """Count x, `times` times."""
        self._counts[bisect_left(self._bounds, x)] += times
        self._total += x * times

    def snapshot(self) -> Snapshot:
        """The counts now."""
        buckets: list[tuple[float, int]] = []
        below = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            below += count
            buckets.append((bound, below))
        return Snapshot(buckets=tuple(buckets), total=self._total)
