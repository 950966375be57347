"""Nominal 95 % covers 93 to 97 %, in 2,000 simulated studies of each estimator."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from outpace.stats import (
    Estimate,
    geometric_mean_ratio,
    level_of,
    mean_t,
    p_ratio_above,
    ratio_of_medians,
    ratio_of_totals,
)

STUDIES = 2000
Study = Callable[[np.random.Generator, int], Estimate | None]


def geometric_t(rng: np.random.Generator, run: int) -> Estimate | None:
    """Times of prompts of very different length; the effect differs from prompt to prompt."""
    plain = rng.lognormal(0, 1, 24)
    return geometric_mean_ratio((plain * np.exp(rng.normal(0.2, 0.3, 24))).tolist(), plain.tolist())


def geometric_bca(rng: np.random.Generator, run: int) -> Estimate | None:
    """Effects with a skew: most prompts gain little, some much."""
    effect = rng.exponential(0.4, 60)
    ones = np.ones(60)
    return geometric_mean_ratio(np.exp(effect).tolist(), ones.tolist(), interval="bca", seed=run)


def totals(rng: np.random.Generator, run: int) -> Estimate | None:
    """Three repeats of each prompt resemble each other; the unit is the prompt."""
    chance = np.repeat(rng.beta(8, 4, 80), 3)
    rounds = rng.integers(5, 40, 240)
    kept = rng.binomial(rounds, chance)
    prompts = np.repeat(np.arange(80), 3).tolist()
    return ratio_of_totals(kept.tolist(), rounds.tolist(), clusters=prompts, seed=run)


def medians(rng: np.random.Generator, run: int) -> Estimate | None:
    plain = rng.lognormal(0, 0.5, 25)
    other = plain / 1.25 * rng.lognormal(0, 0.2, 25)
    return ratio_of_medians(plain.tolist(), other.tolist(), seed=run)


@pytest.mark.parametrize(
    ("study", "truth"),
    [
        (geometric_t, math.exp(0.2)),
        (geometric_bca, math.exp(0.4)),
        (totals, 8 / 12),
        (medians, 1.25),
    ],
)
def test_intervals_cover_as_often_as_they_say(study: Study, truth: float) -> None:
    rng = np.random.default_rng(11)
    hits = 0
    for run in range(STUDIES):
        made = study(rng, run)
        assert made is not None
        assert made.low is not None
        assert made.high is not None
        hits += made.low <= truth <= made.high
    assert 0.93 <= hits / STUDIES <= 0.97


def test_repeats_that_are_taken_for_units_promise_too_much() -> None:
    """What clusters are for: the same data, their interval without them covers far less."""
    rng = np.random.default_rng(3)
    hits = 0
    for run in range(200):
        chance = np.repeat(rng.beta(8, 4, 80), 6)
        rounds = rng.integers(20, 40, 480)
        kept = rng.binomial(rounds, chance)
        made = ratio_of_totals(kept.tolist(), rounds.tolist(), seed=run)
        assert made is not None
        assert made.low is not None
        assert made.high is not None
        hits += made.low <= 8 / 12 <= made.high
    assert hits / 200 < 0.85


def test_a_one_sided_bound_errs_on_its_side_as_often_as_alpha() -> None:
    rng = np.random.default_rng(8)
    over = 0
    for _ in range(STUDIES):
        made = mean_t(rng.normal(0, 1, 12).tolist(), level=level_of(0.05))
        assert made is not None
        assert made.low is not None
        over += made.low > 0
    assert 0.04 <= over / STUDIES <= 0.06


def test_the_p_value_of_a_ratio_agrees_with_its_bound() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        a, b = rng.lognormal(0.1, 0.3, 15).tolist(), np.ones(15).tolist()
        made = geometric_mean_ratio(a, b, level=level_of(0.05))
        p = p_ratio_above(a, b, 1.0)
        assert made is not None
        assert made.low is not None
        assert p is not None
        assert (made.low > 1.0) == (p < 0.05)
    assert p_ratio_above([2.0], [1.0], 1.0) is None
    assert p_ratio_above([2.0, 2.0], [1.0, 1.0], 1.5) == 0.0
    assert p_ratio_above([2.0, 2.0], [1.0, 1.0], 3.0) == 1.0
