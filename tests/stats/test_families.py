"""Corrections for several tests, against their definitions."""

from itertools import chain, combinations

import numpy as np
import pytest

from outpace.stats import holm, intersection_union


def closed(p_values: list[float]) -> list[float]:
    """Holm by its definition: the closed test of Bonferroni tests of every set of claims."""
    n = len(p_values)
    sets = list(chain.from_iterable(combinations(range(n), k) for k in range(1, n + 1)))
    return [max(min(1.0, len(s) * min(p_values[j] for j in s)) for s in sets if i in s)
            for i in range(n)]  # fmt: skip


def test_holm_is_the_closed_test_of_bonferroni() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        p_values = rng.uniform(0, 1, int(rng.integers(1, 7))).tolist()
        assert list(holm(p_values)) == pytest.approx(closed(p_values))


def test_holm_keeps_false_claims_of_a_family_rare() -> None:
    rng = np.random.default_rng(1)
    families = [holm(row) for row in rng.uniform(0, 1, (2000, 8)).tolist()]
    assert 0.035 <= sum(min(f) <= 0.05 for f in families) / 2000 <= 0.06


def test_all_of_them_holds_as_surely_as_the_least_sure() -> None:
    assert intersection_union([0.01, 0.2, 0.03]) == 0.2
    assert holm([]) == ()
    with pytest.raises(ValueError, match="no tests"):
        intersection_union([])


def test_the_intersection_of_claims_errs_as_seldom_as_one() -> None:
    """Least favourable: one claim false at its boundary, the others plainly true."""
    rng = np.random.default_rng(4)
    p = np.column_stack([rng.uniform(0, 1, 2000), rng.beta(0.01, 50, (2000, 3))])
    claims = sum(intersection_union(row) <= 0.05 for row in p.tolist())
    assert claims / 2000 <= 0.062
