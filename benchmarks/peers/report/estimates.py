"""Numbers from paired measurements: medians, geometric mean ratios, intervals over prompts.

A prompt is the unit of resampling: tokens of one text are not independent, texts are. Ratios are
taken inside a prompt before anything is averaged, so that long and short answers count alike.
"""

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np

_N_RESAMPLES = 10_000
_SEED = 7
_LEAST_FOR_INTERVAL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its 95 % interval; low and high are None where too few prompts give none."""

    value: float
    low: float | None
    high: float | None
    n: int


def _resamples(values: Seq[float]) -> np.ndarray:
    rng = np.random.default_rng(_SEED)
    data = np.asarray(values, dtype=float)
    return np.asarray(data[rng.integers(0, len(data), (_N_RESAMPLES, len(data)))])


def median(values: Seq[float]) -> Estimate | None:
    """The median, with a percentile bootstrap interval."""
    if not values:
        return None
    middle = float(np.median(values))
    if len(values) < _LEAST_FOR_INTERVAL:
        return Estimate(value=middle, low=None, high=None, n=len(values))
    drawn = np.median(_resamples(values), axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Estimate(value=middle, low=float(low), high=float(high), n=len(values))


def ratio(above: dict[str, float], below: dict[str, float]) -> Estimate | None:
    """The geometric mean over prompts of above / below, for prompts that both answered."""
    logs = [math.log(above[k] / below[k]) for k in above if k in below]
    if not logs:
        return None
    middle = math.exp(float(np.mean(logs)))
    if len(logs) < _LEAST_FOR_INTERVAL:
        return Estimate(value=middle, low=None, high=None, n=len(logs))
    drawn = np.exp(_resamples(logs).mean(axis=1))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Estimate(value=middle, low=float(low), high=float(high), n=len(logs))


def geometric_mean(values: Seq[float]) -> float:
    """0 for nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 0.0
