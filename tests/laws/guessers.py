"""The guesser is shipped, since `outpace evaluate verify` walks with it; tests grow more trees."""

from outpace.evaluate.exact.law.guesser import ELBOW, FORK, LATE, Guesser, GuessLaw, Pick

CHAIN1, CHAIN2, CHAIN3 = (-1,), (-1, 0), (-1, 0, 1)
BOUGHS = (-1, -1, 0, 1)  # both go on
TRIPLE = (-1, -1, -1)

__all__ = [
    "BOUGHS",
    "CHAIN1",
    "CHAIN2",
    "CHAIN3",
    "ELBOW",
    "FORK",
    "LATE",
    "TRIPLE",
    "GuessLaw",
    "Guesser",
    "Pick",
]
