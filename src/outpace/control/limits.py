"""What a control decides, and the simplest one: always the same."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol

from outpace.core.draft import Style
from outpace.core.repeat import Round
from outpace.errors import ConfigError

MAX_GUESSES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Most guesses per round: nodes in the tree, and tokens on its longest path. 0 = none.

    worth: the least probability of being kept for which a guess pays for its row. reason: why, in
    the words the trace will show.
    """

    max_nodes: int
    max_depth: int
    worth: float = 0.0
    reason: str = "fixed limits"

    def __post_init__(self) -> None:
        for name in ("max_nodes", "max_depth"):
            value = getattr(self, name)
            if not 0 <= value <= MAX_GUESSES:
                raise ConfigError(f"{name} is {value}; allowed: 0 (no guesses) to {MAX_GUESSES}")


OFF = Limits(max_nodes=0, max_depth=0, reason="speculation is off for this request")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a control may know of a sequence when it decides: nothing of the guesses to come.

    catch_up: rows the sequence needs anyway. context_tokens: keys its rows will read.
    """

    key: int
    style: Style
    catch_up: int
    context_tokens: int


class Control(Protocol):
    """Decides before each round, learns after it."""

    def decide(self, views: Seq[View]) -> list[Limits]:
        """How far each of these sequences may guess in the round they will share."""

    def learn(self, rounds: Seq[Round]) -> None:
        """What one shared round brought and cost."""

    def forget(self, key: int) -> None:
        """A sequence ended."""


@dataclass(frozen=True, slots=True)
class FixedControl:
    """The same limits always."""

    limits: Limits

    def decide(self, views: Seq[View]) -> list[Limits]:
        return [self.limits] * len(views)

    def learn(self, rounds: Seq[Round]) -> None:
        pass

    def forget(self, key: int) -> None:
        pass
