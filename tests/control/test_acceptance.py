"""Acceptance is learned from verified positions only, and bounds hold what they promise."""

import math
import random

import pytest

from outpace.control.acceptance import (
    Evidence,
    Ladder,
    Prior,
    Trust,
    chain_gains,
    claims,
    outcome,
    rank_gains,
)
from outpace.core.draft import Draft, chain

TREE = Draft(
    tokens=(1, 2, 3, 4), parents=(-1, -1, 0, 2), chances=(0.5, 0.3, 0.4, 0.2), sources=("a",) * 4
)


def test_what_follows_a_rejected_guess_is_not_counted() -> None:
    assert outcome(chain([1, 2, 3, 4]), path=(0, 1)) == [True, True, False]
    assert outcome(chain([1, 2, 3, 4]), path=()) == [False]
    assert outcome(chain([1, 2]), path=(0, 1)) == [True, True]


def test_a_trees_guesses_count_by_rank_and_claims_given_their_parents() -> None:
    assert outcome(TREE, path=(0, 2)) == [True, False, True, False]
    steps, claimed = claims(TREE, path=(0,))
    assert steps == 2
    assert claimed == pytest.approx(0.5 + 0.3 + 0.4 / 0.5)
    assert claims(TREE, path=())[1] == pytest.approx(0.8)


def test_trust_is_the_share_of_claims_that_came_true_and_has_a_way_back() -> None:
    liar, modest, new = Trust(), Trust(), Trust()
    assert new.value() == 1.0
    for _ in range(200):
        liar.learn(0, 0.9, 1)
        modest.learn(1, 0.5, 1)
    assert liar.value() < 0.08
    assert modest.value() > 1.5
    for _ in range(200):
        liar.learn(0.9, 0.9, 1)
    assert liar.value() == pytest.approx(1.0, abs=0.1)


def test_a_modest_drafters_deep_paths_are_not_cut() -> None:
    """It claims .9 a step and is right .99 of the time; its tenth guess deserves .9, not .35."""
    modest, honest = Trust(), Trust()
    for _ in range(300):
        modest.learn(4.95, 4.5, 5)
        honest.learn(4.5, 4.5, 5)
    assert modest.in_claims(0.9) < 0.5
    assert honest.in_claims(0.4) == pytest.approx(0.4, abs=0.03)
    assert [honest.in_claims(w) for w in (0.0, 1.0, 7.0)] == [0.0, 1.0, 1.0]


def test_a_liars_claims_are_seen_through() -> None:
    """It claims .9 and is right .1 of the time: it guesses only where a row costs less."""
    liar = Trust()
    for _ in range(300):
        liar.learn(0.1, 0.9 * 1.1, 1.1)
    assert liar.in_claims(0.05) < 0.9 < liar.in_claims(0.2)


def test_without_data_gains_are_the_assumed_ones_and_fall_with_depth() -> None:
    for gains in (chain_gains(Ladder(), Ladder(), 8), rank_gains(Ladder(), Ladder(), 8)):
        assert gains[0] == 0.5
        assert gains == sorted(gains, reverse=True)
        assert all(0 < g < 1 for g in gains)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
def test_gains_come_to_what_is_true(alpha: float) -> None:
    rng, own, prior = random.Random(1), Ladder(), Ladder()
    for n in range(3000):
        kept = 0
        while kept < 4 and rng.random() < alpha:
            kept += 1
        own.learn(outcome(chain([1] * 4), tuple(range(kept))))
        if n % 4 == 0:
            own.fade(1 - 4 / 400)
    gains = chain_gains(own, prior, 4) + [0.0] * 4
    for depth in range(1, 5):
        assert gains[depth - 1] == pytest.approx(alpha**depth, abs=0.06)


def test_a_depth_never_tried_takes_after_the_others_and_not_after_old_bad_luck() -> None:
    own = Ladder()
    own.learn([True, True, True, False])
    for _ in range(100):
        own.learn([True, True, True])
        own.fade(0.98)
    gains = chain_gains(own, Ladder(), 8)
    assert gains[7] > 0.6


def test_bounds_hold_nineteen_times_in_twenty() -> None:
    outside = 0
    for seed in range(300):
        rng, evidence = random.Random(seed), Evidence()
        for _ in range(40):
            evidence.learn(sum(rng.random() < 0.4 for _ in range(2)), 2, 2)
        outside += not evidence.lower() <= 1.8 <= evidence.upper()
    assert outside < 300 * 0.12  # two sides of 5 %, and fading sums are a little narrower


def test_one_failure_or_success_proves_nothing() -> None:
    evidence = Evidence()
    assert evidence.upper() == math.inf
    assert evidence.lower() == 1.0
    assert evidence.mean is None
    evidence.learn(0, 1, 1)
    assert evidence.upper() > 1.7
    lucky = Evidence()
    lucky.learn(1, 1, 1)
    assert lucky.lower() < 1.3


def test_a_change_of_kind_is_noticed_soon_and_stationary_noise_is_not() -> None:
    evidence, rng = Evidence(), random.Random(3)
    noticed = 0
    for _ in range(1000):
        kept = 0
        while kept < 4 and rng.random() < 0.6:
            kept += 1
        noticed += evidence.learn(kept, 4, 4)
    assert noticed <= 5
    assert any(evidence.learn(0, 4, 4) for _ in range(20))


def test_the_prior_fades_too() -> None:
    prior = Prior()
    for _ in range(2000):
        prior.learn([True], 1, chain([1]), 1)
    for _ in range(2000):
        prior.learn([False], 0, chain([1]), 1)
    assert prior.chain.mixed(0, 0.5, 1.0) < 0.1
