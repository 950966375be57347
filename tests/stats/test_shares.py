"""Shares: exact where they can be, and covering as often as they say."""

import numpy as np
import pytest
from scipy import stats as reference

from outpace.stats import clopper_pearson, least_n, level_of, most_over, paired_difference


def test_a_tail_needs_as_many_requests_as_the_binomial_law_says() -> None:
    assert least_n(quantile=0.99, alpha=0.01) == 459
    assert least_n(quantile=0.99, alpha=0.01, over=1) == 662
    assert least_n(quantile=0.99, alpha=0.05) == 299
    assert most_over(458, quantile=0.99, alpha=0.01) is None
    assert most_over(459, quantile=0.99, alpha=0.01) == 0
    assert most_over(661, quantile=0.99, alpha=0.01) == 0
    assert most_over(662, quantile=0.99, alpha=0.01) == 1


def test_the_rule_for_tails_is_the_exact_upper_bound() -> None:
    for n in (300, 500, 1000, 3000):
        k = most_over(n, quantile=0.99, alpha=0.05)
        assert k is not None
        for over, shown in ((k, True), (k + 1, False)):
            bound = clopper_pearson(over, n, level=level_of(0.05))
            assert bound is not None
            assert bound.high is not None
            assert (bound.high <= 0.01) == shown, (n, over)


def test_the_rule_for_tails_errs_as_seldom_as_it_says() -> None:
    for n in (299, 700, 2000):
        k = most_over(n, quantile=0.99, alpha=0.05)
        assert k is not None
        assert reference.binom.cdf(k, n, 0.01) <= 0.05
        assert reference.binom.cdf(k + 1, n, 0.01) > 0.05


def test_the_exact_interval_covers_at_every_share() -> None:
    """By enumeration, not by sampling."""
    n = 40
    made = [clopper_pearson(k, n) for k in range(n + 1)]
    for share in np.linspace(0.01, 0.99, 60):
        covered = sum(
            reference.binom.pmf(k, n, share)
            for k, e in enumerate(made)
            if e is not None and e.low is not None and e.high is not None
            if e.low <= share <= e.high
        )
        assert covered >= 0.95


@pytest.mark.parametrize(
    ("gain", "loss", "n"), [(0.10, 0.10, 80), (0.05, 0.12, 120), (0.02, 0.02, 60), (0.3, 0.1, 50)]
)
def test_the_paired_difference_covers_as_often_as_it_says(gain: float, loss: float, n: int) -> None:
    """By enumeration of both kinds of change."""
    counts = np.arange(n + 1)
    chance = reference.multinomial(n, [gain, loss, 1 - gain - loss])
    covered = 0.0
    for b in counts:
        for c in counts[: n - b + 1]:
            weight = float(chance.pmf([b, c, n - b - c]))
            if weight < 1e-7:
                continue
            made = paired_difference(float(b), float(c), n)
            assert made is not None
            assert made.low is not None
            assert made.high is not None
            covered += weight * (made.low <= gain - loss <= made.high)
    assert 0.93 <= covered <= 0.985


def test_no_change_at_all_leaves_doubt_that_shrinks_with_n() -> None:
    widths = []
    for n in (20, 200, 2000):
        made = paired_difference(0, 0, n)
        assert made is not None
        assert made.low is not None
        assert made.high is not None
        assert made.value == 0
        assert made.low == pytest.approx(-made.high)
        # Tango: the root of d^2 n = z^2 (1 - d) d ... at no discordant pair
        z = reference.norm.ppf(0.975)
        assert made.high == pytest.approx(z**2 / (n + z**2), rel=1e-6)
        widths.append(made.high)
    assert widths == sorted(widths, reverse=True)


def test_the_score_is_mcnemars_at_no_difference() -> None:
    gained, lost, n = 21, 9, 200
    z = (gained - lost) / np.sqrt(gained + lost)
    at = paired_difference(gained, lost, n, level=float(2 * reference.norm.cdf(z) - 1))
    assert at is not None
    assert at.low == pytest.approx(0, abs=1e-6)


def test_all_or_nothing() -> None:
    made = paired_difference(10, 0, 10)
    assert made is not None
    assert made.value == 1
    assert made.high == 1
    assert made.low is not None
    assert 0.4 < made.low < 1
    assert paired_difference(0, 0, 0) is None
    with pytest.raises(ValueError, match="0 to n together"):
        paired_difference(8, 8, 10)
    with pytest.raises(ValueError, match="alpha"):
        level_of(0.5)
