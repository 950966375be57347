"""Facts the engine reports. Metrics, traces, benchmarks and guards only listen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from outpace.core.repeat import Round
    from outpace.core.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request got memory and begins. n_known: prompt tokens that needed no pass."""

    sequence: "Sequence"
    n_known: int


@dataclass(frozen=True, slots=True)
class RoundsDone:
    """One pass is over: a round for each sequence in it, and its wall time."""

    rounds: tuple["Round", ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Preempted:
    """A sequence lost its memory to others and will be recomputed; its text is unaffected."""

    sequence: "Sequence"
    reason: str


@dataclass(frozen=True, slots=True)
class RequestDone:
    """A request ended; its finish says how."""

    sequence: "Sequence"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSwitched:
    """A sequence's breaker opened (guessing stops) or closed (it goes on).

    key: the sequence. lower, upper: bounds of its tokens per round; breakeven: how many just pay
    for its guesses. owner, severity: who must act on it.
    """

    key: int
    drafter: str
    state: Literal["open", "closed"]
    reason: str
    lower: float
    upper: float
    breakeven: float
    owner: str
    severity: str


Event = Admitted | RoundsDone | Preempted | RequestDone | ControlSwitched
Listener = Callable[[Event], None]
