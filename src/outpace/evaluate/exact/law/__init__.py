"""The law, enumerated: every path of the real round on tables of three tokens.

chance.py    coins that branch instead of falling, and the law of a run over all of them
target.py    what the model alone would write, in plain Python
guesser.py   drafters of every kind
walk.py      the cases, and the largest difference of a probability in them
"""

from dataclasses import asdict

from pydantic import JsonValue

from outpace.evaluate.exact.law.walk import gap


def enumerate_law(tol: float) -> dict[str, JsonValue]:
    """Walk every case; the body of `verify`'s `exact_law`."""
    return {"tol": tol, **asdict(gap())}
