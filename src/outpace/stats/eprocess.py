"""A test that may be looked at after every request: a one-sided e-process for a share.

Against "the share of hits is at most `limit`" it bets on every share above it, weighted by a beta
law cut off at the limit. Whatever the truth within that claim, the expected bet never exceeds 1,
at any time and under any rule of stopping, so the chance that it *ever* reaches 1/alpha is alpha
at most (Ville 1939). Peeking at a test of fixed size has no such promise. Robbins 1970; Ramdas et
al. 2023.
"""

import math
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]
_PRIOR = (0.5, 0.5)


@overload
def log_e_value(hits: int, n: int, *, limit: float, prior: tuple[float, float] = ...) -> float: ...
@overload
def log_e_value(
    hits: NDArray[np.int64],
    n: NDArray[np.int64],
    *,
    limit: float,
    prior: tuple[float, float] = ...,
) -> Floats: ...
def log_e_value(
    hits: ArrayLike, n: ArrayLike, *, limit: float, prior: tuple[float, float] = _PRIOR
) -> float | Floats:
    """ln e after n requests with so many hits; 0 at the start, ln(1/alpha) is where to stop.

    limit: the share that is claimed not to be exceeded. prior: of the beta law over the shares
    above it. For "at least `limit`" count the misses against 1 - limit.
    """
    if not 0 < limit < 1:
        raise ValueError(f"limit is {limit}; allowed: above 0 and below 1")
    k, m = np.asarray(hits, np.float64), np.asarray(n, np.float64)
    if np.any(k < 0) or np.any(k > m):
        raise ValueError("hits are counted among n requests: allowed 0 to n")
    a, b = prior
    with np.errstate(divide="ignore"):  # hits far below the limit: e is 0, and its logarithm -inf
        beyond = np.log(special.betaincc(a + k, b + m - k, limit))
    value = (
        special.betaln(a + k, b + m - k)
        + beyond
        - special.betaln(a, b)
        - math.log(special.betaincc(a, b, limit))
        - k * math.log(limit)
        - (m - k) * math.log1p(-limit)
    )
    return value if np.ndim(value) else float(value)


def stops(hits: int, n: int, *, limit: float, alpha: float) -> bool:
    """Whether the claim "the share is at most `limit`" is to be given up now."""
    return log_e_value(hits, n, limit=limit) >= math.log(1 / alpha)
