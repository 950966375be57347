"""What the real coins must do at their edges and on average; also run against planted bugs."""

import numpy as np
import torch

from laws.oracle import LawError
from outpace.core.coins import Coins, Purpose, SeededCoins, _key, toss

_MASK = 2**64 - 1
SEED, SINCE, POSITION = 12345, 7, 9


def _undo_xorshift(y: int, shift: int) -> int:
    x = y
    for _ in range(64 // shift + 1):
        x = y ^ (x >> shift)
    return x


def branch_with_bits(bits: int) -> int:
    """The branch whose coin has these 64 hash bits: the hash, run backwards."""
    x = _undo_xorshift(bits, 31)
    x = _undo_xorshift(x * pow(0x94D049BB133111EB, -1, 2**64) & _MASK, 27)
    x = _undo_xorshift(x * pow(0xBF58476D1CE4E5B9, -1, 2**64) & _MASK, 30)
    x = (x - 0x9E3779B97F4A7C15) & _MASK
    return x ^ _key(SEED, Purpose.ACCEPT, SINCE, POSITION)


LOWEST, HIGHEST = branch_with_bits(0), branch_with_bits(_MASK)


def check_edges() -> None:
    """a = 0 never, a = 1 always, and no token without weight, even for the extreme coins."""
    coins: Coins = SeededCoins(SEED, SINCE)

    def ask(a: float, branch: int) -> bool:
        return coins.bernoulli(a, Purpose.ACCEPT, POSITION, branch)

    def draw(weights: list[float], branch: int) -> int:
        weights_V = torch.tensor(weights)
        return coins.categorical(weights_V, Purpose.ACCEPT, POSITION, branch)

    for ok, what in (
        (not ask(0.0, LOWEST), "a coin of probability 0 fell"),
        (not ask(0.0, HIGHEST), "a coin of probability 0 fell"),
        (ask(1.0, HIGHEST), "a coin of probability 1 did not fall"),
        (ask(1.0, LOWEST), "a coin of probability 1 did not fall"),
        (draw([0.0, 0.3, 0.7, 0.0], LOWEST) == 1, "the lowest coin drew a weight of 0"),
        (draw([0.0, 0.3, 0.7, 0.0], HIGHEST) == 2, "the highest coin drew a weight of 0"),
    ):
        if not ok:
            raise LawError(what)


def check_apart() -> None:
    """Coins that differ in any part of their key are uniform together: 8 x 8 cells, chi-square."""
    n, a = 4096, Purpose.ACCEPT
    for name, pairs in {
        "seed": [(toss(i, a, 5, 6), toss(i + 1, a, 5, 6)) for i in range(n)],
        "purpose": [(toss(i, Purpose.DRAFT, 5, 6), toss(i, a, 5, 6)) for i in range(n)],
        "since": [(toss(i, a, 5, 6), toss(i, a, 6, 6)) for i in range(n)],
        "position": [(toss(3, a, 5, i), toss(3, a, 5, i + 1)) for i in range(n)],
        "branch": [(toss(3, a, 5, i, 0), toss(3, a, 5, i, 1)) for i in range(n)],
    }.items():
        cells = np.bincount([int(8 * a) * 8 + int(8 * b) for a, b in pairs], minlength=64)
        chi = float(((cells - n / 64) ** 2 / (n / 64)).sum())
        if not 20 < chi < 130:  # 63 degrees of freedom: outside with probability 1e-6
            raise LawError(f"coins that differ in {name} are not independent: chi-square {chi:.0f}")
