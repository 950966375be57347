"""How far to guess: the numbers of guesses that bring the most tokens for their seconds.

A second has a price: the tokens it would bring elsewhere, lambda. The best policy over the whole
run then maximises, round by round,

    sum of chances of the guesses taken - lambda * (seconds they add)

and its own rate is the right lambda (Dinkelbach's method for ratios; renewal-reward). Guesses of
all sequences compete for one pass, likeliest first; since a chance never rises along a sequence,
that order takes every prefix of it that can be best. The seconds come from a measured table which
may have cliffs, so every total up to the cap is looked at, 0 included, not the first that does not
pay.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

_SPEEDUP_ROUNDS, _PRICE_GAIN = 32.0, 0.15
# Deepest depths that are tried apart, and the tokens below which depth costs nothing.
_CAPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_FREE_DEPTH = 0.005
# What a sequence is taken to guess when nobody does.
_USUAL_GUESSES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """What one sequence could use.

    gains: chance of its 1st, 2nd, .. guess to be kept, never rising. share: how often it has
    guesses at all when asked. extra_s: seconds per guess besides its row (accept, resample).
    """

    gains: Seq[float]
    share: float = 1.0
    extra_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What guessing costs.

    tokens_per_s: lambda. pass_s: seconds of the pass with 0, 1, .. guesses more.
    ask_s: draft seconds per sequence asked; depth_s: per depth of the deepest.
    draft_share: the draft may take at most this share of a round.
    """

    tokens_per_s: float
    pass_s: Seq[float]
    ask_s: float = 0.0
    depth_s: float = 0.0
    draft_share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The best: guesses by bid, what they bring (tokens) and add (seconds), all in expectation."""

    n_guesses: list[int]
    tokens: float
    seconds: float


def search(bids: Seq[Bid], prices: Prices) -> Found:
    """The numbers of guesses with the greatest tokens - lambda * seconds.

    Where depth itself costs (a model drafts once per depth, for all sequences together) every
    deepest depth is tried apart: else one sequence's late guesses could go before the first ones
    of others and make all of them look dear.
    """
    order = sorted(
        (prices.tokens_per_s * bid.extra_s - gain, i, step)
        for i, bid in enumerate(bids)
        for step, gain in enumerate(bid.gains)
    )
    deepest = max((len(bid.gains) for bid in bids), default=0)
    best, best_n, best_cap = (0.0, 0.0, 0.0), 0, 0
    if prices.depth_s * prices.tokens_per_s < _FREE_DEPTH:
        caps = [deepest]
    else:
        caps = [cap for cap in _CAPS if cap < deepest] + [deepest]
    for cap in caps:
        found, n = _scan(bids, prices, order, cap)
        if found[0] > best[0]:
            best, best_n, best_cap = found, n, cap
    n_guesses = [0] * len(bids)
    for _, i, step in order:
        if best_n and step < best_cap:
            n_guesses[i] += 1
            best_n -= 1
    return Found(n_guesses=n_guesses, tokens=best[1], seconds=best[2])


def _scan(
    bids: Seq[Bid], prices: Prices, order: Seq[tuple[float, int, int]], cap: int
) -> tuple[tuple[float, float, float], int]:
    """The best number of guesses at most `cap` deep: (worth, tokens, seconds) and how many."""
    rate, pass_s, most_share = prices.tokens_per_s, prices.pass_s, prices.draft_share
    best, best_n = (0.0, 0.0, 0.0), 0
    draft_s = cap * prices.depth_s
    tokens = rows = extra_s = 0.0
    n, n_most, plain_s = 0, len(pass_s) - 1, pass_s[0]
    for key, i, step in order:
        if step >= cap:
            continue
        n += 1
        bid = bids[i]
        share = bid.share
        rows += share
        if rows > n_most:
            break
        if not step:
            draft_s += prices.ask_s
        extra_s += share * bid.extra_s
        tokens += share * (rate * bid.extra_s - key)
        pass_now = pass_s[int(rows + 0.5)]
        seconds = pass_now - plain_s + draft_s + extra_s
        worth = tokens - rate * seconds
        if worth > best[0] and draft_s <= most_share * (pass_now + draft_s):
            best, best_n = (worth, tokens, seconds), n
    return best, best_n


class Market:
    """Prices in tokens, smoothed over rounds, and the speed over plain that they lead to.

    guess, ask: tokens that the seconds of one guess, or of asking, would bring elsewhere.
    row_share: seconds of one more row, in passes; None before the first round.
    """

    __slots__ = ("_plain_tokens", "_tokens", "ask", "guess", "row_share")

    def __init__(self) -> None:
        self.guess = self.ask = 0.0
        self.row_share: float | None = None
        # A few rounds at plain speed: until more is known a second is worth what it brings then.
        self._tokens = self._plain_tokens = 4.0

    @property
    def speedup(self) -> float:
        """Tokens of late, over those plain decoding would have brought in the same seconds."""
        return max(self._tokens / self._plain_tokens, 1.0)

    def breakeven(self, size: float) -> float:
        """Tokens a round must bring to pay for a draft of so many guesses."""
        return 1 + self.ask + self.guess * size

    def post(self, prices: Prices, n_granted: int, n_asked: int, extra_s: float) -> None:
        """Smooth in a round's prices; extra_s: seconds a guess takes after the pass."""
        n = min(n_granted or _USUAL_GUESSES * n_asked, len(prices.pass_s) - 1)
        row_s = (prices.pass_s[n] - prices.pass_s[0]) / n
        # Alone, a sequence's seconds would bring plain decoding; among others, their speed too.
        mine = 1 / n_asked
        rate = prices.tokens_per_s * (mine / self.speedup + 1 - mine)
        gain = 1.0 if self.row_share is None else _PRICE_GAIN
        self.guess += gain * (rate * (row_s + extra_s + prices.depth_s / n_asked) - self.guess)
        self.ask += gain * (rate * prices.ask_s - self.ask)
        self.row_share = row_s / prices.pass_s[0]

    def learn(self, tokens: float, plain_tokens: float) -> None:
        """What a round brought, and what plain decoding would have."""
        fade = 1 - 1 / _SPEEDUP_ROUNDS
        self._tokens = fade * self._tokens + tokens
        self._plain_tokens = fade * self._plain_tokens + plain_tokens


def worth_of(prices: Prices, n_granted: int, n_guessing: int) -> float:
    """The chance at which a guess just pays for its row and its share of the draft."""
    n = min(max(n_granted, 1), len(prices.pass_s) - 1)
    row_s = (prices.pass_s[n] - prices.pass_s[0]) / n
    return prices.tokens_per_s * (row_s + prices.depth_s / max(n_guessing, 1))
