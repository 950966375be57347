"""Do samples follow a law, or two samples the same one? And what would have been noticed?

Both tests take strata (prompts, positions) and combine them: a small difference everywhere is seen
where no single stratum shows it. Both say the smallest total variation that they would have shown
at their size: an insensitive test that found nothing has found nothing.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
POWER = 0.8
_LEAST_EXPECTED = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LawTest:
    """What a test showed.

    p: chance of such a statistic under the law. n: samples (of both arms). detectable_tv: a total
    variation from here up would have been shown with probability `POWER` at level alpha; 1 =
    nothing would.
    """

    kind: str
    statistic: float
    p: float
    n: int
    detectable_tv: float


def g_test(
    strata: Seq[tuple[Mapping[Hashable, int], Mapping[Hashable, float]]],
    *,
    alpha: float = 0.01,
    least_expected: float = _LEAST_EXPECTED,
) -> LawTest | None:
    """Counts of outcomes against the known law of each stratum: the likelihood ratio, summed.

    Outcomes of a law that are expected fewer than `least_expected` times are counted as one, and
    so is what a law leaves out (laws cut off at the top k). An outcome of probability 0 in a law
    that sums to 1 refutes it at once. None: no stratum has two cells. Any difference of a
    stratum's law by a total variation d adds at least 4 n d^2 to the noncentrality, which bounds
    `detectable_tv` (Sokal and Rohlf, section 17.2).
    """
    statistic, df, n = 0.0, 0, 0
    for counts, law in strata:
        cells = _cells(counts, law, least_expected)
        if cells is None:
            continue
        observed, expected = cells
        if np.any((observed > 0) & (expected == 0)):
            statistic, df = math.inf, df + 1
            n += int(observed.sum())
            continue
        seen = observed > 0
        statistic += float(2 * np.sum(observed[seen] * np.log(observed[seen] / expected[seen])))
        df += len(observed) - 1
        n += int(observed.sum())
    if df == 0:
        return None
    statistic = max(statistic, 0.0)  # rounding
    p = float(special.chdtrc(df, statistic)) if math.isfinite(statistic) else 0.0
    tv = min(1.0, math.sqrt(_noncentrality(df, alpha) / (4 * n)))
    return LawTest(kind="known law", statistic=statistic, p=p, n=n, detectable_tv=tv)


def two_sample(
    strata: Seq[tuple[Seq[Hashable], Seq[Hashable]]],
    *,
    alpha: float = 0.01,
    permutations: int = 2000,
    seed: int = 0,
) -> LawTest | None:
    """Two arms' outcomes per stratum: is the total variation between them what relabelling gives?

    The statistic is the mean over strata, weighted by samples. p counts the permutations within
    strata that reach it, itself included, so it is exact at any size. None: no stratum has both.
    """
    tables = [_table(a, b) for a, b in strata if len(a) and len(b)]
    if not tables:
        return None
    rng = np.random.default_rng(seed)
    observed = _distance([(t[0][np.newaxis], t[1][np.newaxis]) for t in tables])[0]
    null_B = _distance([_relabelled(t, permutations, rng) for t in tables])
    p = (1 + int(np.sum(null_B >= observed - 1e-12))) / (permutations + 1)
    n = sum(int(t.sum()) for t in tables)
    critical = float(np.quantile(null_B, 1 - alpha))
    return LawTest(
        kind="two samples", statistic=float(observed), p=p, n=n,
        detectable_tv=_detectable(tables, critical, rng),
    )  # fmt: skip


def _cells(
    counts: Mapping[Hashable, int], law: Mapping[Hashable, float], least: float
) -> tuple[Floats, Floats] | None:
    """Observed and expected per cell; rare outcomes share the last one. None: one cell only."""
    n = sum(counts.values())
    total = sum(law.values())
    if total > 1 + 1e-6:
        raise ValueError(f"a law sums to {total}; allowed: at most 1")
    whole = abs(total - 1) <= 1e-6
    common = [o for o, q in law.items() if q * n >= least]
    impossible = sum(c for o, c in counts.items() if not law.get(o, 0.0)) if whole else 0
    seen = sum(counts.get(o, 0) for o in common)
    observed = [*(counts.get(o, 0) for o in common), n - seen - impossible]
    expected = [*(law[o] * n for o in common), max(n - sum(law[o] for o in common) * n, 0.0)]
    if expected[-1] < least and len(expected) > 1:
        at = min(range(len(common)), key=lambda i: expected[i])
        observed[at] += observed.pop()
        expected[at] += expected.pop()
    if impossible:
        return np.array([*observed, impossible], float), np.array([*expected, 0.0])
    if len(expected) < 2:
        return None
    return np.array(observed, float), np.array(expected, float)


def _noncentrality(df: int, alpha: float) -> float:
    """Of a chi-squared law at which a test at level alpha has the wanted power."""
    from scipy import optimize  # a tenth of a second, which not every command has to wait

    critical = float(special.chdtri(df, alpha))
    found = optimize.brentq(
        lambda x: 1 - special.chndtr(critical, df, x) - POWER, 1e-6, 100 + 20 * critical
    )
    return float(found)


def _table(a: Seq[Hashable], b: Seq[Hashable]) -> Counts:
    """Counts [2, K] of the outcomes of both arms."""
    first, second = Counter(a), Counter(b)
    outcomes = list(dict.fromkeys((*first, *second)))
    return np.array([[c[o] for o in outcomes] for c in (first, second)], np.int64)


def _relabelled(table_2K: Counts, n: int, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """Both arms' counts [B, K] after relabelling at random."""
    total_K = table_2K.sum(axis=0)
    first_BK = rng.multivariate_hypergeometric(total_K, int(table_2K[0].sum()), size=n)
    return first_BK, total_K - first_BK


def _distance(tables: Seq[tuple[Counts, Counts]]) -> Floats:
    """Mean total variation [B] over strata, weighted by their samples."""
    weighted_B: Floats = np.zeros(len(tables[0][0]))
    weight = 0.0
    for a_BK, b_BK in tables:
        n, m = int(a_BK[0].sum()), int(b_BK[0].sum())
        weighted_B += (n + m) * 0.5 * np.abs(a_BK / n - b_BK / m).sum(axis=1)
        weight += n + m
    return weighted_B / weight


def _detectable(tables: Seq[Counts], critical: float, rng: np.random.Generator) -> float:
    """The smallest shift that passes the critical value with the wanted power.

    The shift moves mass between two halves of the outcomes, evenly: the kind that shows least.
    """

    def power(shift: float, draws: int = 400) -> float:
        arms = []
        for table in tables:
            law_K = table.sum(axis=0) / table.sum()
            n, m = (int(row.sum()) for row in table)
            moved_K = _shifted(law_K, shift)
            arms.append((rng.multinomial(n, law_K, draws), rng.multinomial(m, moved_K, draws)))
        return float(np.mean(_distance(arms) > critical))

    if power(1.0) < POWER:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def _shifted(law_K: Floats, shift: float) -> Floats:
    """A law at that total variation from the given one, or as far as the halves allow."""
    first = np.zeros(len(law_K), bool)
    first[np.argsort(-law_K, kind="stable")[::2]] = True
    give = law_K[first].sum()
    take = min(shift, give)
    moved_K = law_K.copy()
    moved_K[first] *= 1 - take / give
    if first.all():
        return law_K
    moved_K[~first] += take * law_K[~first] / law_K[~first].sum()
    scaled_K: Floats = moved_K / moved_K.sum()
    return scaled_K
