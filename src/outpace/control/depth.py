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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_SPEEDUP_ROUNDS, _PRICE_GAIN = 32.0, 0.15
# Deepest depths that are tried apart, and the tokens below which depth costs nothing.
_CAPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_FREE_DEPTH = 0.05
# What a sequence is taken to guess when nobody does.
_USUAL_GUESSES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """What one sequence could use.

    gains: chance of its 1st, 2nd, .. guess to be kept, never rising. share: how often it has
    guesses at all when asked. extra_s: seconds per guess besides its row (accept, resample).
    """

    gains: Seq[float] | Floats
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
    pass_s: Floats
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
    nothing = Found(n_guesses=[0] * len(bids), tokens=0.0, seconds=0.0)
    if len(prices.pass_s) < 2 or not any(len(bid.gains) for bid in bids):
        return nothing
    # No number of rows costs less a row than the cheapest: often that alone decides.
    row_s = ((prices.pass_s[1:] - prices.pass_s[0]) / np.arange(1, len(prices.pass_s))).min()
    sure = max(float(bid.gains[0]) for bid in bids if len(bid.gains))
    if sure <= prices.tokens_per_s * row_s:
        return nothing
    length_M = np.array([len(bid.gains) for bid in bids], np.intp)
    deepest = int(length_M.max())
    who_N = np.repeat(np.arange(len(bids)), length_M)
    step_N = np.arange(len(who_N)) - (length_M.cumsum() - length_M)[who_N]
    gain_N = np.concatenate([bid.gains for bid in bids])
    extra_N = np.array([bid.extra_s for bid in bids])[who_N]
    order_N = np.argsort(prices.tokens_per_s * extra_N - gain_N, kind="stable")
    share_N = np.array([bid.share for bid in bids])[who_N]
    guesses = _Guesses(who_N, step_N, gain_N, share_N, extra_N).at(order_N)
    if prices.depth_s * prices.tokens_per_s < _FREE_DEPTH:
        caps = [deepest]
    else:
        caps = [cap for cap in _CAPS if cap < deepest] + [deepest]
    best = max((_scan(guesses, prices, cap) for cap in caps), key=lambda found: found.worth)
    taken_N = guesses.who_N[guesses.step_N < best.cap][: best.n]
    return Found(
        n_guesses=np.bincount(taken_N, minlength=len(bids)).tolist(),
        tokens=best.tokens,
        seconds=best.seconds,
    )


class _Guesses(NamedTuple):
    """All guesses that were bid, likeliest first: whose, at which step, their gain, the bid's
    share and seconds."""

    who_N: Ints
    step_N: Ints
    gain_N: Floats
    share_N: Floats
    extra_N: Floats

    def at(self, index_N: Ints | NDArray[np.bool_]) -> "_Guesses":
        """Some of them."""
        return _Guesses(
            self.who_N[index_N],
            self.step_N[index_N],
            self.gain_N[index_N],
            self.share_N[index_N],
            self.extra_N[index_N],
        )


class _Scan(NamedTuple):
    """The first n guesses less deep than the cap, and what they bring."""

    worth: float = 0.0
    tokens: float = 0.0
    seconds: float = 0.0
    n: int = 0
    cap: int = 0


def _scan(guesses: _Guesses, prices: Prices, cap: int) -> _Scan:
    """The best number of guesses at most `cap` deep."""
    rate, plain_s = prices.tokens_per_s, prices.pass_s[0]
    if cap <= guesses.step_N.max():
        guesses = guesses.at(guesses.step_N < cap)
    _, step_N, gain_N, share_N, extra_N = guesses
    rows_N = share_N.cumsum()
    n = int(np.searchsorted(rows_N, len(prices.pass_s) - 1, side="right"))  # as many as fit
    if not n:
        return _Scan()
    pass_N = prices.pass_s[(rows_N[:n] + 0.5).astype(np.intp)]
    draft_N = cap * prices.depth_s + prices.ask_s * (step_N[:n] == 0).cumsum()
    tokens_N = (share_N[:n] * gain_N[:n]).cumsum()
    seconds_N = pass_N - plain_s + draft_N + (share_N[:n] * extra_N[:n]).cumsum()
    worth_N = tokens_N - rate * seconds_N
    worth_N[draft_N > prices.draft_share * (pass_N + draft_N)] = -np.inf
    at = int(worth_N.argmax())
    if not worth_N[at] > 0:
        return _Scan()
    return _Scan(float(worth_N[at]), float(tokens_N[at]), float(seconds_N[at]), at + 1, cap)


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
        row_s = float(prices.pass_s[n] - prices.pass_s[0]) / n
        # Alone, a sequence's seconds would bring plain decoding; among others, their speed too.
        mine = 1 / n_asked
        rate = prices.tokens_per_s * (mine / self.speedup + 1 - mine)
        gain = 1.0 if self.row_share is None else _PRICE_GAIN
        self.guess += gain * (rate * (row_s + extra_s + prices.depth_s / n_asked) - self.guess)
        self.ask += gain * (rate * prices.ask_s - self.ask)
        self.row_share = row_s / float(prices.pass_s[0])

    def learn(self, tokens: float, plain_tokens: float) -> None:
        """What a round brought, and what plain decoding would have."""
        fade = 1 - 1 / _SPEEDUP_ROUNDS
        self._tokens = fade * self._tokens + tokens
        self._plain_tokens = fade * self._plain_tokens + plain_tokens


def worth_of(prices: Prices, n_granted: int, n_guessing: int) -> float:
    """The chance at which a guess just pays for its row and its share of the draft."""
    n = min(max(n_granted, 1), len(prices.pass_s) - 1)
    row_s = float(prices.pass_s[n] - prices.pass_s[0]) / n
    return prices.tokens_per_s * (row_s + prices.depth_s / max(n_guessing, 1))
