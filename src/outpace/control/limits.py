"""What a control decides, what it may be told, and the simplest one: always the same."""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Protocol

from outpace.control.breaker import BreakerConfig
from outpace.core.draft import Style
from outpace.core.repeat import Round
from outpace.errors import ConfigError, RequestError
from outpace.events import ControlSwitched

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

    def report_to(self, tell: Callable[[ControlSwitched], None]) -> None:
        """From now on, tell of every switch."""


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

    def report_to(self, tell: Callable[[ControlSwitched], None]) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoConfig:
    """Caps: most guesses a sequence and its deepest path; most guesses in one pass (they need
    memory like any row); the draft's largest share of a round."""

    max_nodes: int = 16
    max_depth: int = 16
    max_guesses: int = 256
    draft_share: float = 0.6
    breaker: BreakerConfig = field(default_factory=BreakerConfig)

    def __post_init__(self) -> None:
        for name in ("max_nodes", "max_depth", "max_guesses"):
            if not 1 <= getattr(self, name) <= MAX_GUESSES:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: 1 to {MAX_GUESSES}")
        if not 0 < self.draft_share <= 1:
            raise ConfigError(f"draft_share is {self.draft_share}; allowed: more than 0, up to 1")


def parse_speculation(text: str) -> Limits | None:
    """What a request's `speculation` asks for; None leaves it to the control.

    off, auto, or fixed:N for chains and trees of at most N guesses.

    Raises:
        RequestError: anything else.
    """
    kind, _, number = text.partition(":")
    if text == "off":
        return OFF
    if text == "auto":
        return None
    if kind == "fixed" and number.isascii() and number.isdigit():
        n = int(number) if len(number) < 9 else MAX_GUESSES + 1
        if 1 <= n <= MAX_GUESSES:
            return Limits(max_nodes=n, max_depth=n, reason=f"the request asked for {text}")
    raise RequestError(
        f"speculation is {text!r}; allowed: off, auto, or fixed:N with N from 1 to {MAX_GUESSES}"
    )
