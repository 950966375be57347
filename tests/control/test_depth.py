"""The search: the best numbers of guesses there are, cliffs and 0 included."""

import itertools
import random

import numpy as np
import pytest

from outpace.control.depth import Bid, Market, Prices, search, worth_of


def _worth(bids: list[Bid], prices: Prices, numbers: tuple[int, ...]) -> float:
    """What these numbers bring, less what their seconds are worth; the long way."""
    tokens = sum(bid.share * g for bid, n in zip(bids, numbers, strict=True) for g in bid.gains[:n])
    rows = sum(bid.share * n for bid, n in zip(bids, numbers, strict=True))
    extra = sum(bid.share * bid.extra_s * n for bid, n in zip(bids, numbers, strict=True))
    draft = sum(n > 0 for n in numbers) * prices.ask_s + max(numbers) * prices.depth_s
    seconds = float(prices.pass_s[int(rows + 0.5)] - prices.pass_s[0]) + draft + extra
    return tokens - prices.tokens_per_s * seconds


@pytest.mark.parametrize("seed", range(60))
def test_nothing_brings_more_than_what_is_found(seed: int) -> None:
    rng = random.Random(seed)
    bids = [Bid(gains=sorted((rng.random() for _ in range(4)), reverse=True)) for _ in range(3)]
    steps = [rng.choice((0.0, 0.1, 0.3, 2.0)) for _ in range(12)]
    prices = Prices(
        tokens_per_s=rng.uniform(0.5, 2.0),
        pass_s=np.array([1 + sum(steps[:n]) for n in range(13)]),
        ask_s=0.0,
        depth_s=rng.choice((0.0, 0.2)),
    )
    found = search(bids, prices)
    reached = _worth(bids, prices, tuple(found.n_guesses))
    best = max(_worth(bids, prices, ns) for ns in itertools.product(range(5), repeat=3))
    assert reached == pytest.approx(max(best, 0.0), abs=1e-9)
    assert reached == pytest.approx(found.tokens - prices.tokens_per_s * found.seconds, abs=1e-9)


def test_a_cliff_is_looked_past_if_what_lies_behind_it_pays() -> None:
    sure, unsure = (
        Bid(gains=[0.95**n for n in range(1, 13)]),
        Bid(gains=[0.4**n for n in range(1, 13)]),
    )
    pass_s = np.array([1.0] * 4 + [1.7] * 12)
    prices = Prices(tokens_per_s=1.0, pass_s=pass_s)
    assert search([sure], prices).n_guesses == [12]
    assert search([unsure], prices).n_guesses == [3]


def test_nothing_is_guessed_where_nothing_pays_or_nothing_is_known() -> None:
    dear = Prices(tokens_per_s=1.0, pass_s=np.array([1.0, 2.0, 3.0]))
    assert search([Bid(gains=[0.9, 0.8])], dear).n_guesses == [0]
    assert search([Bid(gains=[])], dear).n_guesses == [0]
    assert search([], dear).n_guesses == []


def test_caps_hold_on_guesses_in_a_pass_and_on_the_drafts_share() -> None:
    many = [Bid(gains=[0.9] * 8) for _ in range(4)]
    cheap = Prices(tokens_per_s=1.0, pass_s=np.ones(11))
    assert sum(search(many, cheap).n_guesses) == 10
    slow_draft = Prices(tokens_per_s=0.1, pass_s=np.ones(40), depth_s=0.5, draft_share=0.4)
    assert search(many, slow_draft).n_guesses == [1, 1, 1, 1]


def test_prices_follow_the_rounds_and_break_even_follows_them() -> None:
    market = Market()
    assert market.breakeven(3.0) == 1.0
    prices = Prices(tokens_per_s=100.0, pass_s=np.array([0.01, 0.011, 0.012]), ask_s=0.0001)
    market.post(prices, n_granted=2, n_asked=1, extra_s=0.0)
    assert market.breakeven(1.0) == pytest.approx(1 + 0.01 + 0.1)
    assert worth_of(prices, 2, 1) == pytest.approx(0.1)
    for _ in range(200):
        market.learn(tokens=3.0, plain_tokens=1.5)
    assert market.speedup == pytest.approx(2.0, rel=0.01)
    for _ in range(200):
        market.learn(tokens=1.0, plain_tokens=2.0)
    assert market.speedup == 1.0, "a second is never worth less than plain decoding makes of it"
