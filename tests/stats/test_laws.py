"""Samples against laws: right laws pass as often as they should, wrong ones do not."""

from collections import Counter
from collections.abc import Hashable

import numpy as np
import pytest
from scipy import stats as reference

from outpace.stats import LawTest, g_test, two_sample

LAW: dict[Hashable, float] = {"a": 0.5, "b": 0.3, "c": 0.2}


def counted(values: list[int]) -> dict[Hashable, int]:
    return dict(Counter(values))


def test_the_statistic_is_scipys() -> None:
    made = g_test([({"a": 40, "b": 38, "c": 22}, LAW)])
    theirs = reference.power_divergence([40, 38, 22], [50, 30, 20], lambda_="log-likelihood")
    assert made is not None
    assert (made.statistic, made.p) == pytest.approx((theirs.statistic, theirs.pvalue))
    assert made.n == 100


def test_strata_add_up() -> None:
    counts: dict[Hashable, int] = {"a": 40, "b": 38, "c": 22}
    one = (counts, LAW)
    both = g_test([one, one])
    theirs = reference.power_divergence([40, 38, 22], [50, 30, 20], lambda_="log-likelihood")
    assert both is not None
    assert both.p == pytest.approx(reference.chi2.sf(2 * theirs.statistic, 4))


def test_rare_outcomes_are_counted_as_one() -> None:
    law: dict[Hashable, float] = {0: 0.5, 1: 0.44, **dict.fromkeys(range(2, 102), 0.0006)}
    rng = np.random.default_rng(0)
    p_values = []
    for _ in range(400):
        counts = counted(rng.choice(102, 200, p=list(law.values())).tolist())
        made = g_test([(counts, law)])
        assert made is not None
        p_values.append(made.p)
    assert np.mean(np.array(p_values) < 0.05) < 0.08


def test_what_a_law_leaves_out_is_a_cell() -> None:
    top: dict[Hashable, float] = {0: 0.6, 1: 0.3}
    right = g_test([({0: 600, 1: 300, 7: 60, 8: 40}, top)])
    wrong = g_test([({0: 500, 1: 250, 7: 150, 8: 100}, top)])
    assert right is not None
    assert wrong is not None
    assert right.p > 0.5
    assert wrong.p < 1e-9


def test_an_impossible_outcome_refutes_a_law_at_once() -> None:
    made = g_test([({"a": 500, "b": 300, "c": 199, "d": 1}, LAW)])
    assert made is not None
    assert made.p == 0.0
    with pytest.raises(ValueError, match="at most 1"):
        g_test([({"a": 1}, {"a": 0.9, "b": 0.9})])
    assert g_test([({"a": 5}, {"a": 1.0})]) is None
    assert g_test([]) is None


def test_true_laws_are_refused_as_seldom_as_alpha() -> None:
    rng = np.random.default_rng(5)
    draws = rng.multinomial(300, list(LAW.values()), 2000)
    tests = [g_test([(dict(zip(LAW, row, strict=True)), LAW)]) for row in draws.tolist()]
    assert 0.04 <= np.mean([t.p < 0.05 for t in tests if t is not None]) <= 0.065


def test_what_is_said_to_be_detectable_is_detected() -> None:
    rng = np.random.default_rng(6)
    first = g_test([({"a": 150, "b": 90, "c": 60}, LAW)])
    assert first is not None
    tv = first.detectable_tv
    assert 0.05 < tv < 0.2
    off = [0.5 - tv, 0.3 + tv / 2, 0.2 + tv / 2]
    draws = rng.multinomial(300, off, 800)
    tests = [g_test([(dict(zip(LAW, row, strict=True)), LAW)]) for row in draws.tolist()]
    assert np.mean([t.p < 0.01 for t in tests if t is not None]) >= 0.77, "the bound is asymptotic"


def test_relabelling_is_scipys_permutation_test() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 4, 60), np.minimum(rng.integers(0, 5, 60), 3)

    def distance(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
        halves = [np.abs((x == k).mean(axis) - (y == k).mean(axis)) for k in range(4)]
        total: np.ndarray = 0.5 * np.sum(halves, axis=0)
        return total

    theirs = reference.permutation_test(
        (a, b), distance, vectorized=True, alternative="greater", n_resamples=4000, rng=rng
    )
    mine = two_sample([(a.tolist(), b.tolist())], permutations=4000)
    assert mine is not None
    assert mine.statistic == pytest.approx(theirs.statistic)
    assert mine.p == pytest.approx(theirs.pvalue, abs=0.03)


def test_equal_arms_are_told_apart_as_seldom_as_alpha() -> None:
    rng = np.random.default_rng(2)
    p_values = []
    for run in range(160):
        arms = rng.integers(0, 6, (2, 4, 30)).tolist()
        p_values.append(_tested(arms[0], arms[1], seed=run).p)
    assert np.mean(np.array(p_values) <= 0.05) <= 0.1
    assert np.mean(np.array(p_values) <= 0.5) >= 0.4, "and are not merely never told apart"


def test_another_law_is_told_apart_and_the_least_visible_one_is_named() -> None:
    rng = np.random.default_rng(3)
    first = rng.choice(4, (1, 400), p=[0.4, 0.3, 0.2, 0.1]).tolist()
    same = rng.choice(4, (1, 400), p=[0.4, 0.3, 0.2, 0.1]).tolist()
    other = rng.choice(4, (1, 400), p=[0.25, 0.3, 0.2, 0.25]).tolist()
    assert _tested(first, other).p < 0.01
    quiet = _tested(first, same)
    assert quiet.p > 0.01
    assert 0.03 < quiet.detectable_tv < 0.25
    few = _tested([first[0][:40]], [same[0][:40]])
    assert few.detectable_tv > 2 * quiet.detectable_tv


def test_texts_that_never_repeat_show_nothing_and_it_says_so() -> None:
    made = two_sample([(list(range(50)), list(range(50, 100)))])
    assert made is not None
    assert made.p == 1.0
    assert made.detectable_tv == 1.0
    assert two_sample([([], [1])]) is None


def _tested(first: list[list[int]], second: list[list[int]], seed: int = 0) -> LawTest:
    made = two_sample(list(zip(first, second, strict=True)), permutations=400, seed=seed)
    assert made is not None
    return made
