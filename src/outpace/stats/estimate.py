"""What an estimator returns: a number, its interval, and the independent units behind it."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number, the bounds of its interval (None with fewer than two units), and the units."""

    value: float
    low: float | None
    high: float | None
    n: int


def quantile(values: Seq[float], q: float) -> float | None:
    """The q-quantile, linear between order statistics."""
    return float(np.quantile(np.asarray(values, np.float64), q)) if len(values) else None


def level_of(alpha: float) -> float:
    """The level of the two-sided interval whose bounds are one-sided at 1 - alpha each."""
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha is {alpha}; allowed: above 0 and below 0.5")
    return 1 - 2 * alpha


def pairs(a: Seq[float], b: Seq[float]) -> tuple[Floats, Floats]:
    """Two columns of equal length."""
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.shape != second.shape:
        raise ValueError(f"pairs are needed; found {len(first)} and {len(second)} values")
    return first, second
