"""The law, enumerated: every path of the real round on tables of three tokens.

chance.py    coins that branch instead of falling, and the law of a run over all of them
target.py    what the model alone would write, in plain Python
guesser.py   drafters of every kind
walk.py      the cases, and the largest difference of a probability in them
"""

from outpace.evaluate.exact.law.walk import gap
from outpace.evaluate.judge.verified import LawWalk


def enumerate_law() -> LawWalk:
    """Walk every case."""
    found = gap()
    return LawWalk(worst=found.worst, at=found.at, cases=found.cases, paths=found.paths)
