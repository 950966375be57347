"""Estimators against known answers and against scipy's own."""

import math

import numpy as np
import pytest
from scipy import stats as reference

from outpace.stats import (
    clopper_pearson,
    geometric_mean_ratio,
    mean_t,
    quantile,
    ratio_of_totals,
)


def test_without_data_there_is_no_number() -> None:
    assert mean_t([]) is None
    assert quantile([], 0.5) is None
    assert ratio_of_totals([], []) is None
    assert ratio_of_totals([1, 2], [0, 0]) is None
    assert clopper_pearson(0, 0) is None
    assert geometric_mean_ratio([], []) is None


def test_one_unit_has_no_interval() -> None:
    for one in (mean_t([3.0]), ratio_of_totals([3], [1]), geometric_mean_ratio([3], [1])):
        assert one is not None
        assert one.value == pytest.approx(3)
        assert (one.low, one.high, one.n) == (None, None, 1)


def test_the_t_interval_is_scipys() -> None:
    values = [1.0, 2.5, 2.0, 4.0, 3.5]
    mine = mean_t(values)
    assert mine is not None
    theirs = reference.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high))


def test_a_ratio_of_pairs_ignores_how_long_each_pair_takes() -> None:
    under = [0.1, 1.0, 10.0, 100.0]
    made = geometric_mean_ratio([1.25 * x for x in under], under)
    assert made is not None
    assert (made.value, made.low, made.high) == pytest.approx((1.25, 1.25, 1.25))
    with pytest.raises(ValueError, match="positive"):
        geometric_mean_ratio([1, 0], [1, 1])
    with pytest.raises(ValueError, match="pairs"):
        geometric_mean_ratio([1], [1, 1])


def test_bca_is_scipys_up_to_resampling() -> None:
    rng = np.random.default_rng(5)
    tops, bottoms = rng.exponential(2, 60), rng.uniform(1, 2, 60)
    mine = ratio_of_totals(tops.tolist(), bottoms.tolist())
    theirs = reference.bootstrap(
        (tops, bottoms),
        lambda a, b, axis: a.sum(axis) / b.sum(axis),
        paired=True, vectorized=True, method="BCa", n_resamples=4000, rng=rng,
    ).confidence_interval  # fmt: skip
    assert mine is not None
    assert mine.value == pytest.approx(tops.sum() / bottoms.sum())
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), rel=0.04)
    again = ratio_of_totals(tops.tolist(), bottoms.tolist())
    assert again == mine, "the same seed gives the same interval"


def test_the_interval_of_a_pooled_ratio_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for run in range(200):
        rounds = rng.integers(5, 40, 40)
        chance = rng.beta(8, 4, 40)  # texts differ, rounds of one text do not
        kept = rng.binomial(rounds, chance)
        made = ratio_of_totals(kept.tolist(), rounds.tolist(), seed=run)
        assert made is not None
        assert made.low is not None
        assert made.high is not None
        hits += made.low <= 8 / 12 <= made.high
    assert hits >= 0.88 * 200


def test_equal_units_leave_no_doubt() -> None:
    made = ratio_of_totals([2, 4, 6], [1, 2, 3])
    assert made is not None
    assert (made.value, made.low, made.high) == (2, 2, 2)


@pytest.mark.parametrize(("hits", "n"), [(0, 20), (20, 20), (7, 20)])
def test_proportions_are_exact(hits: int, n: int) -> None:
    mine = clopper_pearson(hits, n)
    theirs = reference.binomtest(hits, n).proportion_ci(method="exact")
    assert mine is not None
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high))
    assert not math.isnan(mine.value)
