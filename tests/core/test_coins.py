"""The coins: the same for ever, uniform, apart from each other, and exact at their edges."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, kstest

from laws.coin_checks import check_apart, check_edges
from outpace.core.coins import (
    Purpose,
    SeededCoins,
    coupled_choice,
    gumbel,
    inverse_cdf,
    noise_bits,
    toss,
)


@pytest.mark.parametrize(
    ("key", "u"),
    [
        ((0, Purpose.DRAFT, 0, 0, 0), 0.9752873302169826),
        ((1, Purpose.ACCEPT, 2, 3, 4), 0.05077540836553218),
        ((2**64 - 1, Purpose.RESAMPLE, 10**6, 10**6 + 7, 0), 0.48819112726256597),
    ],
)
def test_a_seed_means_the_same_coins_in_every_release(
    key: tuple[int, Purpose, int, int, int], u: float
) -> None:
    assert toss(*key) == u


def test_a_seed_means_the_same_noise_in_every_release() -> None:
    assert noise_bits(7, 5, np.arange(3, dtype=np.uint64)).tolist() == [
        81342082816670284,
        1435555814357284830,
        6629308371529367658,
    ]
    scores_V = torch.zeros(1000)
    assert [coupled_choice(scores_V, 7, position) for position in range(6)] == [
        467,
        518,
        210,
        462,
        572,
        928,
    ]


def test_coins_are_uniform() -> None:
    us = [toss(seed, Purpose.ACCEPT, 3, 4, 1) for seed in range(20_000)]
    assert min(us) >= 0
    assert max(us) < 1
    assert kstest(us, "uniform").pvalue > 1e-3


def test_coins_that_differ_in_any_part_of_their_key_are_independent() -> None:
    check_apart()


def test_the_extreme_coins_respect_probability_0_and_1() -> None:
    check_edges()


def test_a_coin_falls_as_often_as_its_probability_says() -> None:
    n = 20_000
    fell = sum(SeededCoins(seed, 5).bernoulli(0.3, Purpose.ACCEPT, 6) for seed in range(n))
    assert abs(fell / n - 0.3) < 4 * math.sqrt(0.3 * 0.7 / n)


def test_noise_is_finite_for_every_hash() -> None:
    bits_K = np.array([0, 1, 2**63, 2**64 - 2**12, 2**64 - 1], dtype=np.uint64)
    noise_K = gumbel(bits_K)
    assert np.isfinite(noise_K).all()
    assert (np.diff(noise_K) >= 0).all()


def _by_definition(scores_V: torch.Tensor, seed: int, position: int) -> int:
    x_V = scores_V.to(torch.float64).numpy()
    bits_V = noise_bits(seed, position, np.arange(len(x_V), dtype=np.uint64))
    return int((x_V + gumbel(bits_V)).argmax())


SCORES = st.lists(
    st.one_of(
        st.floats(-20, 20), st.floats(-1e6, 1e6), st.just(-math.inf), st.just(0.0),
        st.floats(-1e-6, 1e-6),
    ),
    min_size=1, max_size=400,
).filter(lambda xs: max(xs) > -math.inf)  # fmt: skip


@settings(max_examples=300)
@given(scores=SCORES, seed=st.integers(0, 2**64 - 1), position=st.integers(0, 10**6))
def test_the_coupled_choice_is_the_argmax_of_score_plus_noise(
    scores: list[float], seed: int, position: int
) -> None:
    scores_V = torch.tensor(scores, dtype=torch.float64)
    found = coupled_choice(scores_V, seed, position)
    assert found == _by_definition(scores_V, seed, position)
    assert scores_V[found] > -math.inf


@pytest.mark.parametrize("sharpness", [0.0, 0.01, 1.0, 8.0, 100.0])
def test_the_shortcut_holds_for_a_whole_vocabulary(sharpness: float) -> None:
    generator = torch.Generator().manual_seed(3)
    for position in range(40):
        scores_V = sharpness * torch.randn(20_000, generator=generator)
        assert coupled_choice(scores_V, 1, position) == _by_definition(scores_V, 1, position)


def test_the_coupled_choice_draws_from_the_softmax() -> None:
    p_V = torch.tensor([0.5, 0.25, 0.15, 0.1, 0.0], dtype=torch.float64)
    n = 20_000
    drawn = [coupled_choice(p_V.log(), 9, position) for position in range(n)]
    counts = np.bincount(drawn, minlength=5)
    assert counts[4] == 0
    expected = n * p_V[:4].numpy()
    assert chi2.sf((((counts[:4] - expected) ** 2) / expected).sum(), 3) > 1e-3


@settings(max_examples=200)
@given(
    weights=st.lists(
        st.one_of(st.just(0.0), st.floats(1e-30, 1e6)), min_size=1, max_size=50
    ).filter(any),
    u=st.one_of(st.floats(0, 1, exclude_max=True), st.just(0.0), st.just(1 - 2.0**-53)),
)
def test_the_inverse_cdf_never_returns_a_weight_of_0(weights: list[float], u: float) -> None:
    weights_V = torch.tensor(weights, dtype=torch.float64)
    assert weights_V[inverse_cdf(weights_V, u)] > 0


def test_the_inverse_cdf_cuts_where_the_shares_say() -> None:
    weights_V = torch.tensor([2.0, 0.0, 1.0, 1.0])
    cuts = [(0.0, 0), (0.49, 0), (0.5, 2), (0.74, 2), (0.75, 3), (0.999, 3)]
    assert [inverse_cdf(weights_V, u) for u, _ in cuts] == [token for _, token in cuts]
