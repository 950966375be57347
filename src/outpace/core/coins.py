"""Chance as a function: every coin is a hash of (seed, purpose, round, position, branch).

There is no generator object and no state, so a rejected round, a neighbour in the batch or a
retry cannot shift anybody's coins, and a trace can be replayed from its seed alone.

Two families:

* *fresh* coins (draft, accept, resample) also hash the position where their round began. Rounds
  never begin twice at one position, so no coin is ever used for two decisions. Keyed by position
  alone they would be: a guess rejected in one round is drawn again in the next, and block
  verification lets later guesses decide about earlier ones, so the reuse would bias the text.
* the *coupled* noise of seeded requests hashes the position and the token only. The drafter and
  the target read the same noise, and the text depends on the seed and the model alone
  (2408.07978). It is never mixed with a residual.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

U64 = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
# Gumbel noise above this is rare (1 in 400); see `coupled_choice`.
_RARE_NOISE = 6.0


class Purpose(IntEnum):
    """What a coin decides; part of its key, so that no two decisions share one."""

    DRAFT = 1
    ACCEPT = 2
    RESAMPLE = 3
    COUPLED = 4


class Coins(Protocol):
    """The three questions the law asks of chance. Tests answer them by enumerating."""

    def bernoulli(self, a: float, purpose: Purpose, position: int, branch: int = 0) -> bool:
        """True with probability `a`: a = 0 never, a = 1 always."""

    def categorical(
        self, weights_V: Tensor, purpose: Purpose, position: int, branch: int = 0
    ) -> int:
        """An index drawn in proportion to `weights_V` (not negative, not all zero)."""

    def coupled(self, scores_V: Tensor, position: int) -> int:
        """argmax of scores (log-weights, -inf = impossible) plus the position's shared noise."""


def _mix(x: int) -> int:
    """One round of splitmix64's finaliser (Steele et al. 2014)."""
    x = (x + _GOLDEN) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _key(*parts: int) -> int:
    key = 0
    for part in parts:
        key = _mix(key ^ (part & _MASK))
    return key


def toss(seed: int, purpose: Purpose, since: int, position: int, branch: int = 0) -> float:
    """A uniform in [0, 1) with 53 bits, the same on every machine.

    `since` is the length of the text when the round began, `position` the absolute position the
    decision is about, `branch` tells siblings apart.
    """
    return (_key(seed, purpose, since, position, branch) >> 11) * 2.0**-53


def noise_bits(seed: int, position: int, tokens_K: U64) -> U64:
    """64 hash bits for each token id at `position`: the coupled noise before its shape."""
    return _noise_bits(seed, position, _steps(tokens_K))


def _noise_bits(seed: int, position: int, steps_K: U64) -> U64:
    x: U64 = steps_K + np.uint64(_key(seed, Purpose.COUPLED, position))
    shifted = np.empty_like(x)
    x ^= np.right_shift(x, np.uint64(30), out=shifted)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= np.right_shift(x, np.uint64(27), out=shifted)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= np.right_shift(x, np.uint64(31), out=shifted)
    return x


def _steps(tokens_K: U64) -> U64:
    """What tells tokens apart before the hash."""
    steps_K: U64 = (tokens_K + np.uint64(1)) * np.uint64(_GOLDEN)
    return steps_K


@lru_cache(maxsize=8)
def _all_steps(n_tokens: int) -> U64:
    return _steps(np.arange(n_tokens, dtype=np.uint64))


def gumbel(bits_K: U64) -> NDArray[np.float64]:
    """Standard Gumbel noise, -log(-log(u)), with u strictly inside (0, 1)."""
    # 52 bits: with 53 the half would round, and the last u up to 1, where the noise is infinite.
    u_K = ((bits_K >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return np.asarray(-np.log(-np.log(u_K)))


def coupled_choice(scores_V: Tensor, seed: int, position: int) -> int:
    """argmax over v of scores[v] + Gumbel(hash(seed, position, v)); the lowest id wins a tie.

    That is one draw from softmax(scores). Whatever wins beats the best-scored token's own sum B,
    so it has scores[v] > B - c or noise > c: only those few tokens need their logarithms.
    """
    x_V = scores_V.detach().to("cpu", torch.float64).numpy()
    bits_V = _noise_bits(seed, position, _all_steps(len(x_V)))
    best = int(x_V.argmax())
    bar = float(x_V[best] + gumbel(bits_V[best : best + 1])[0])
    rare = np.uint64(int(np.exp(-np.exp(-_RARE_NOISE)) * 2.0**52) << 12)
    candidates = np.flatnonzero((x_V >= bar - _RARE_NOISE) | ((bits_V >= rare) & (x_V > -np.inf)))
    sums = x_V[candidates] + gumbel(bits_V[candidates])  # `best` is always among them
    return int(candidates[int(sums.argmax())])


def inverse_cdf(weights_V: Tensor, u: float) -> int:
    """The index whose share of the total covers `u`; zero weights are never returned."""
    cdf_V = weights_V.detach().to(torch.float64).cumsum(0)
    target = u * cdf_V[-1]
    index = int(torch.searchsorted(cdf_V, target, right=True))
    if index >= len(cdf_V) or weights_V[index] <= 0:  # u * total rounded up to the total
        return int(weights_V.nonzero()[-1])
    return index


@dataclass(frozen=True, slots=True)
class SeededCoins:
    """The coins of one round of one request."""

    seed: int
    since: int

    def bernoulli(self, a: float, purpose: Purpose, position: int, branch: int = 0) -> bool:
        return toss(self.seed, purpose, self.since, position, branch) < a

    def categorical(
        self, weights_V: Tensor, purpose: Purpose, position: int, branch: int = 0
    ) -> int:
        return inverse_cdf(weights_V, toss(self.seed, purpose, self.since, position, branch))

    def coupled(self, scores_V: Tensor, position: int) -> int:
        return coupled_choice(scores_V, self.seed, position)


def shared_noise(coins: Coins, tokens_K: U64, position: int) -> NDArray[np.float64] | None:
    """What `coins.coupled` adds to the scores of some tokens; None where that cannot be seen."""
    if isinstance(coins, SeededCoins):
        return gumbel(noise_bits(coins.seed, position, tokens_K))
    return None
