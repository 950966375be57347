"""The test that may be looked at after every request."""

import math

import numpy as np
import pytest
from scipy import integrate
from scipy import stats as reference

from outpace.stats import log_e_value, stops


def by_integration(hits: int, n: int, limit: float) -> float:
    """e by its definition: bets on every share above the limit, weighted by the cut-off law."""
    weight, _ = integrate.quad(lambda p: reference.beta.pdf(p, 0.5, 0.5), limit, 1)
    value, _ = integrate.quad(
        lambda p: (
            reference.beta.pdf(p, 0.5, 0.5)
            * (p / limit) ** hits
            * ((1 - p) / (1 - limit)) ** (n - hits)
        ),
        limit, 1,
    )  # fmt: skip
    return float(value / weight)


@pytest.mark.parametrize(("hits", "n"), [(0, 0), (0, 10), (3, 10), (10, 10), (7, 40)])
@pytest.mark.parametrize("limit", [0.05, 0.3])
def test_the_value_is_the_mixture(hits: int, n: int, limit: float) -> None:
    assert math.exp(log_e_value(hits, n, limit=limit)) == pytest.approx(
        by_integration(hits, n, limit), rel=1e-5
    )


@pytest.mark.parametrize("limit", [0.01, 0.1, 0.5])
def test_false_stops_stay_below_alpha_however_often_one_looks(limit: float) -> None:
    rng = np.random.default_rng(7)
    hits_RN = np.cumsum(rng.random((2000, 400)) < limit, axis=1, dtype=np.int64)
    n_RN = np.broadcast_to(np.arange(1, 401), hits_RN.shape)
    stopped = np.any(log_e_value(hits_RN, n_RN, limit=limit) >= math.log(20), axis=1)
    assert stopped.mean() <= 0.05


def test_peeking_at_a_fixed_test_has_no_such_promise() -> None:
    """The control of the simulation above: it would notice."""
    rng = np.random.default_rng(7)
    hits_RN = np.cumsum(rng.random((2000, 400)) < 0.1, axis=1, dtype=np.int64)
    looks = np.arange(50, 401, 50)
    p_RL = reference.binom.sf(hits_RN[:, looks - 1] - 1, looks, 0.1)
    assert np.any(p_RL < 0.05, axis=1).mean() > 0.1


def test_it_stops_what_is_worse_and_soon() -> None:
    rng = np.random.default_rng(9)
    hits_RN = np.cumsum(rng.random((500, 400)) < 0.3, axis=1, dtype=np.int64)
    n_RN = np.broadcast_to(np.arange(1, 401), hits_RN.shape)
    over = log_e_value(hits_RN, n_RN, limit=0.1) >= math.log(20)
    assert over.any(axis=1).mean() == 1.0
    assert np.median(over.argmax(axis=1)) < 60


def test_the_start_and_bad_counts() -> None:
    assert log_e_value(0, 0, limit=0.1) == pytest.approx(0)
    assert not stops(0, 1000, limit=0.1, alpha=0.05)
    assert stops(50, 60, limit=0.1, alpha=0.05)
    with pytest.raises(ValueError, match="limit"):
        log_e_value(0, 1, limit=1.0)
    with pytest.raises(ValueError, match="0 to n"):
        log_e_value(3, 2, limit=0.5)
