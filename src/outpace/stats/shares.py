"""Shares: exact intervals, tails against a fixed limit, and the difference of two paired shares."""

import math

from scipy import special

from outpace.stats.estimate import Estimate


def clopper_pearson(hits: int, n: int, *, level: float = 0.95) -> Estimate | None:
    """A proportion with its exact binomial interval, which never promises too much."""
    if n == 0:
        return None
    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else float(special.betaincinv(hits, n - hits + 1, tail))
    high = 1.0 if hits == n else float(special.betaincinv(hits + 1, n - hits, 1 - tail))
    return Estimate(value=hits / n, low=low, high=high, n=n)


def most_over(n: int, *, quantile: float, alpha: float) -> int | None:
    """How many of n may exceed a limit while their quantile is still shown to be under it.

    The largest k with P(at most k over | n, share 1 - quantile) <= alpha: then the share over the
    limit is below 1 - quantile with confidence 1 - alpha (Wilks 1941). None: n is too small even
    with none over.
    """
    allowed = [
        k
        for k in range(n + 1)
        if k <= n * (1 - quantile) and special.bdtr(k, n, 1 - quantile) <= alpha
    ]
    return allowed[-1] if allowed else None


def least_n(*, quantile: float, alpha: float, over: int = 0) -> int:
    """Requests needed to show a quantile under a limit with `over` of them above it.

    459 with none over and 662 with one, for p99 at 99 %.
    """
    n = max(over, math.floor(over / (1 - quantile)))
    while special.bdtr(over, n, 1 - quantile) > alpha:
        n += 1
    return n


def paired_difference(
    gained: float, lost: float, n: int, *, level: float = 0.95
) -> Estimate | None:
    """The difference of two shares of the same n units, with Tango's score interval.

    gained: units that pass now and did not before; lost: the reverse. Zero of both leaves doubt
    all the same, as it should. Where a unit was asked several times its part in `gained` is the
    amount its own share rose: the variance is then overstated, never understated. Tango 1998.
    """
    if n == 0:
        return None
    if min(gained, lost) < 0 or gained + lost > n + 1e-9:
        raise ValueError(f"{gained} gained and {lost} lost of {n}; allowed: 0 to n together")
    value = (gained - lost) / n
    z = float(special.ndtri((1 + level) / 2))

    def score(delta: float) -> float:
        """How far the data are from a true difference of delta, in standard deviations."""
        b = -gained - lost + (2 * n - gained + lost) * delta
        c = -lost * delta * (1 - delta)
        lost_share = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
        variance = n * (2 * lost_share + delta * (1 - delta))
        distance = gained - lost - n * delta
        if abs(distance) < 1e-12:
            return 0.0
        return distance / math.sqrt(variance) if variance > 0 else math.copysign(1e9, distance)

    from scipy import optimize  # a tenth of a second, which not every command has to wait

    edge = 1 - 1e-9
    low, high = -1.0, 1.0
    if score(-edge) > z:
        low = float(optimize.brentq(lambda d: score(d) - z, -edge, min(value, edge)))
    if score(edge) < -z:
        high = float(optimize.brentq(lambda d: score(d) + z, max(value, -edge), edge))
    return Estimate(value=value, low=low, high=high, n=n)
