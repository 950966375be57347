"""Means, and ratios of pairs as means of logarithms."""

from collections.abc import Sequence as Seq
from typing import Literal

import numpy as np
from scipy import special

from outpace.stats.estimate import Estimate, pairs
from outpace.stats.resample import bca


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
    over: Seq[float],
    under: Seq[float],
    *,
    level: float = 0.95,
    interval: Literal["t", "bca"] = "t",
    seed: int = 0,
) -> Estimate | None:
    """exp(mean ln(over/under)) of pairs; its interval is that of the logarithms.

    The speed of `under` relative to `over` where both are times: 2 = half the time. interval: "t"
    is Student's, right where logarithms are about normal or many; "bca" follows their skew.
    """
    a, b = pairs(over, under)
    if not (np.all(a > 0) and np.all(b > 0)):
        raise ValueError("ratios need positive values")
    x = np.log(a / b)
    if interval == "t":
        logs = mean_t(x.tolist(), level=level)
    else:
        logs = bca(len(x), lambda rows_BN: x[rows_BN].mean(axis=1), seed=seed, level=level)
    if logs is None:
        return None
    return Estimate(
        value=float(np.exp(logs.value)),
        low=None if logs.low is None else float(np.exp(logs.low)),
        high=None if logs.high is None else float(np.exp(logs.high)),
        n=logs.n,
    )


def p_ratio_above(over: Seq[float], under: Seq[float], limit: float) -> float | None:
    """One-sided p-value of "the geometric mean of over/under is at most `limit`", Student's t.

    None with fewer than two pairs: nothing can be said.
    """
    a, b = pairs(over, under)
    n = len(a)
    if n < 2:
        return None
    x = np.log(a / b) - np.log(limit)
    spread = float(x.std(ddof=1)) / np.sqrt(n)
    if spread == 0:
        return 0.0 if x.mean() > 0 else 1.0
    return float(special.stdtr(n - 1, -x.mean() / spread))
