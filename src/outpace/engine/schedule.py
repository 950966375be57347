"""Who gets rows in the next pass: a pure decision, with its reasons.

There is no prefill phase and no decode phase. A sequence has tokens it is *behind*; a pass lets it
catch up with some of them. Sequences one token behind go first, so that a long prompt never stalls
the others; what is left of the budget goes to the furthest waiting.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from outpace.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one pass may hold.

    rows: rows of all sequences together, guesses apart. sequences: most in flight at once.
    waiting: most requests queued; more are refused with CapacityError.
    """

    rows: int = 512
    sequences: int = 64
    waiting: int = 1024

    def __post_init__(self) -> None:
        for name in ("rows", "sequences", "waiting"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A sequence as the schedule sees it. last_pass: the pass that last gave it rows."""

    key: int
    behind: int
    last_pass: int


def plan(running: Seq[Standing], budget: Budget) -> list[tuple[int, int]]:
    """(key, rows) for the next pass, at most `budget.rows` in all.

    Those who waited longest go first within each kind, so nobody starves: with more sequences than
    rows they take turns. Prompts share what decoding leaves, but at least one row in four when
    any is waiting, so that arrivals do not starve either.
    """
    by_wait = sorted(running, key=lambda s: (s.last_pass, s.key))
    decoding = [s for s in by_wait if s.behind == 1]
    reading = [s for s in by_wait if s.behind > 1]
    kept_back = min(budget.rows // 4, sum(s.behind for s in reading))
    chosen = [(s.key, 1) for s in decoding[: max(1, budget.rows - kept_back)]]
    left = budget.rows - len(chosen)
    for s in reading:
        if left <= 0:
            break
        rows = min(s.behind, left)
        chosen.append((s.key, rows))
        left -= rows
    return chosen
