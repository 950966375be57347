"""Intervals from resampling whole units: ratios of totals and of medians.

A unit is what is independent: a prompt with all that was measured on it. Steps and tokens inside a
text are correlated and are never units.
"""

from collections.abc import Callable, Hashable
from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray
from scipy import special

from outpace.stats.estimate import Estimate, Floats, pairs

_RESAMPLES, _AT_ONCE = 2000, 100
Rows = NDArray[np.int64]


def ratio_of_totals(
    tops: Seq[float],
    bottoms: Seq[float],
    *,
    clusters: Seq[Hashable] | None = None,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate | None:
    """sum(tops) / sum(bottoms) with a BCa interval from resampling whole units.

    For pooled ratios: tokens per pass over requests, rejected over drafted, total times over
    prompts. A unit is one (top, bottom) pair, or all pairs that share a cluster.
    """
    a, b = pairs(tops, bottoms)
    if clusters is not None:
        a, b = _sums(a, clusters), _sums(b, clusters)
    if not len(a) or b.sum() == 0:
        return None

    def pooled(rows_BN: Rows) -> Floats:
        bottom_B = b[rows_BN].sum(axis=1)
        # A resample of units without any bottom says nothing; it is dropped below.
        top_B = a[rows_BN].sum(axis=1)
        ratio_B: Floats = np.full_like(top_B, np.nan)
        np.divide(top_B, bottom_B, out=ratio_B, where=bottom_B != 0)
        return ratio_B

    return bca(len(a), pooled, seed=seed, level=level)


def ratio_of_medians(
    over: Seq[float], under: Seq[float], *, seed: int = 0, level: float = 0.95
) -> Estimate | None:
    """median(over) / median(under) of pairs: secondary, its interval is far wider.

    Medians of resamples jump between few values, and where pairs resemble each other the ordinary
    bootstrap's interval is far too wide. So resampled logarithms are smoothed, by half of
    Silverman's width along their covariance, and the standard error is taken of their medians
    (Silverman and Young 1987).
    """
    a, b = pairs(over, under)
    if not (np.all(a > 0) and np.all(b > 0)):
        raise ValueError("ratios need positive values")
    n = len(a)
    if n == 0:
        return None
    logs_N2 = np.log(np.column_stack([a, b]))
    middle = np.median(logs_N2, axis=0)
    log_ratio = float(middle[0] - middle[1])
    if n == 1:
        return Estimate(value=float(np.exp(log_ratio)), low=None, high=None, n=1)
    rng = np.random.default_rng(seed)
    smooth_B2 = [_smoothed_medians(logs_N2, rng) for _ in range(_RESAMPLES // _AT_ONCE // 2)]
    medians_B2 = np.concatenate(smooth_B2)
    spread = float((medians_B2[:, 0] - medians_B2[:, 1]).std(ddof=1))
    half = float(special.ndtri((1 + level) / 2)) * spread
    low, high = np.exp([log_ratio - half, log_ratio + half])
    return Estimate(value=float(np.exp(log_ratio)), low=float(low), high=float(high), n=n)


def _smoothed_medians(logs_N2: Floats, rng: np.random.Generator) -> Floats:
    n = len(logs_N2)
    values, axes = np.linalg.eigh(np.cov(logs_N2.T))
    shape_22 = axes * np.sqrt(np.maximum(values, 0.0))
    noise_BN2 = rng.standard_normal((_AT_ONCE, n, 2)) @ shape_22.T
    rows_BN = rng.integers(0, n, (_AT_ONCE, n))
    medians_B2: Floats = np.median(logs_N2[rows_BN] + 0.5 * n ** (-1 / 6) * noise_BN2, axis=1)
    return medians_B2


def bca(
    n: int,
    statistic: Callable[[Rows], Floats],
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
    jack_N = statistic(_leave_one_out(n))
    low, high = np.quantile(boot_B, _bca_levels(value, boot_B, jack_N[~np.isnan(jack_N)], level))
    return Estimate(value=value, low=float(low), high=float(high), n=n)


def _leave_one_out(n: int) -> Rows:
    """Row i: all units but unit i; [N, N-1]."""
    rows: Rows = np.arange(n - 1)[np.newaxis] + (np.arange(n - 1) >= np.arange(n)[:, np.newaxis])
    return rows


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


def _sums(values: Floats, clusters: Seq[Hashable]) -> Floats:
    """The total of each cluster, in the order they first come."""
    if len(clusters) != len(values):
        raise ValueError(f"{len(clusters)} clusters for {len(values)} pairs; allowed: one each")
    order = {cluster: i for i, cluster in enumerate(dict.fromkeys(clusters))}
    totals = np.zeros(len(order))
    np.add.at(totals, [order[cluster] for cluster in clusters], values)
    return totals
