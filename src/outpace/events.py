"""Facts the engine reports. Metrics, traces, benchmarks and guards only listen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


Event = Admitted | RoundsDone | Preempted | RequestDone
Listener = Callable[[Event], None]
