"""Intervals for measurements: numbers in, numbers out.

Every estimate comes with the number of *independent* units behind it. Tokens and rounds of one
text are correlated, so the unit is the request (or the prompt, where one is measured repeatedly).
Where there is nothing to estimate from the answer is None, "no data", never 0 or NaN; where there
is one unit the estimate has no interval.
"""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
_RESAMPLES, _AT_ONCE = 2000, 100


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


def mean_t(values: Seq[float], *, level: float = 0.95) -> Estimate | None:
    """The mean, with Student's t interval."""
    n = len(values)
    if n == 0:
        return None
    x = np.asarray(values, np.float64)
    mean = float(x.mean())
    if n == 1:
        return Estimate(value=mean, low=None, high=None, n=1)
    half = float(special.stdtrit(n - 1, (1 + level) / 2) * x.std(ddof=1) / np.sqrt(n))
    return Estimate(value=mean, low=mean - half, high=mean + half, n=n)


def geometric_mean_ratio(
    over: Seq[float], under: Seq[float], *, level: float = 0.95
) -> Estimate | None:
    """exp(mean ln(over/under)) of pairs, with the t interval of the logarithms.

    The speed of `under` relative to `over` where both are times: 2 = half the time.
    """
    a, b = np.asarray(over, np.float64), np.asarray(under, np.float64)
    if a.shape != b.shape:
        raise ValueError(f"pairs are needed; {len(a)} over {len(b)} values")
    if not (np.all(a > 0) and np.all(b > 0)):
        raise ValueError("ratios need positive values")
    logs = mean_t(np.log(a / b).tolist(), level=level)
    if logs is None:
        return None
    return Estimate(
        value=float(np.exp(logs.value)),
        low=None if logs.low is None else float(np.exp(logs.low)),
        high=None if logs.high is None else float(np.exp(logs.high)),
        n=logs.n,
    )


def ratio_of_totals(
    tops: Seq[float], bottoms: Seq[float], *, seed: int = 0, level: float = 0.95
) -> Estimate | None:
    """sum(tops) / sum(bottoms) with a BCa interval from resampling whole units.

    For pooled ratios: tokens per pass over requests, rejected over drafted, total times over
    prompts. A unit is one (top, bottom) pair.
    """
    a, b = np.asarray(tops, np.float64), np.asarray(bottoms, np.float64)
    if a.shape != b.shape:
        raise ValueError(f"pairs are needed; {len(a)} tops, {len(b)} bottoms")
    if not len(a) or b.sum() == 0:
        return None

    def pooled(rows_BN: NDArray[np.int64]) -> Floats:
        bottom_B = b[rows_BN].sum(axis=1)
        # A resample of units without any bottom says nothing; it is dropped below.
        top_B = a[rows_BN].sum(axis=1)
        ratio_B: Floats = np.full_like(top_B, np.nan)
        np.divide(top_B, bottom_B, out=ratio_B, where=bottom_B != 0)
        return ratio_B

    return bca(len(a), pooled, seed=seed, level=level)


def bca(
    n: int,
    statistic: Callable[[NDArray[np.int64]], Floats],
    *,
    seed: int = 0,
    level: float = 0.95,
    resamples: int = _RESAMPLES,
) -> Estimate | None:
    """A statistic of n units with its bias-corrected and accelerated bootstrap interval.

    statistic: index rows [B, N] -> values [B]; NaN where a resample has no value. Efron 1987.
    """
    if n == 0:
        return None
    everyone = np.arange(n)[np.newaxis]
    value = float(statistic(everyone)[0])
    if np.isnan(value):
        return None
    if n == 1:
        return Estimate(value=value, low=None, high=None, n=1)
    rng = np.random.default_rng(seed)
    parts = [statistic(rng.integers(0, n, (_AT_ONCE, n))) for _ in range(resamples // _AT_ONCE)]
    boot_B = np.concatenate(parts)
    boot_B = boot_B[~np.isnan(boot_B)]
    if np.ptp(boot_B) == 0:
        return Estimate(value=value, low=value, high=value, n=n)
    jack_N = np.concatenate([statistic(np.delete(everyone, i, axis=1)) for i in range(n)])
    low, high = np.quantile(boot_B, _bca_levels(value, boot_B, jack_N[~np.isnan(jack_N)], level))
    return Estimate(value=value, low=float(low), high=float(high), n=n)


def _bca_levels(value: float, boot_B: Floats, jack_N: Floats, level: float) -> Floats:
    """The two quantiles of the resamples that bound the interval."""
    below = (np.sum(boot_B < value) + 0.5 * np.sum(boot_B == value)) / len(boot_B)
    bias = special.ndtri(np.clip(below, 1 / (2 * len(boot_B)), 1 - 1 / (2 * len(boot_B))))
    spread_N = jack_N.mean() - jack_N
    scale = np.sum(spread_N**2) ** 1.5
    skew = np.sum(spread_N**3) / (6 * scale) if scale > 0 else 0.0
    z = bias + special.ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
    levels: Floats = special.ndtr(bias + z / (1 - skew * z))
    return levels


def clopper_pearson(hits: int, n: int, *, level: float = 0.95) -> Estimate | None:
    """A proportion with its exact binomial interval, which never promises too much."""
    if n == 0:
        return None
    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else float(special.betaincinv(hits, n - hits + 1, tail))
    high = 1.0 if hits == n else float(special.betaincinv(hits + 1, n - hits, 1 - tail))
    return Estimate(value=hits / n, low=low, high=high, n=n)
