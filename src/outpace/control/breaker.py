"""Stop guessing where guesses fail, look again now and then, and come back when they hold.

One breaker per sequence and drafter. *Closed*, guesses flow. It opens when even the upper bound of
the tokens per round is less than break-even times `open_below`; then only every n-th round asks,
n growing from `first_probe` to `last_probe` while probes fail and shrinking to 1 after one that
paid. It closes when the lower bound is more than break-even times `close_above`. Between the two
lies the hysteresis, and switches per minute are bounded: at the bound it stays open, the safe
side.
"""

from collections import deque
from dataclasses import dataclass
from typing import Literal

from outpace.errors import ConfigError

State = Literal["closed", "open"]
Turn = Literal["guess", "probe", "rest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerConfig:
    """When to switch. switches: most in any `window_s` seconds; closing again needs room for the
    opening after it. owner, severity: who must act on it, for metrics and traces."""

    open_below: float = 1.05
    close_above: float = 1.15
    first_probe: int = 8
    last_probe: int = 32
    switches: int = 4
    window_s: float = 60.0
    owner: str = "control"
    severity: str = "performance"

    def __post_init__(self) -> None:
        if not 0 < self.open_below <= self.close_above:
            raise ConfigError(
                f"a breaker that opens below {self.open_below} and closes above "
                f"{self.close_above} of break-even; allowed: 0 < opens <= closes"
            )
        if not 1 <= self.first_probe <= self.last_probe:
            raise ConfigError(
                f"probes after {self.first_probe} to {self.last_probe} rounds; allowed: at "
                "least 1, the first no later than the last"
            )
        if self.switches < 2 or not self.window_s > 0:
            raise ConfigError(
                f"{self.switches} switches in {self.window_s} s; allowed: at least 2, in more "
                "than 0 s"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Tokens per round, bounded from both sides, and how many would just pay."""

    lower: float
    upper: float
    breakeven: float


def verdict(state: State, reading: Reading, config: BreakerConfig) -> tuple[State, str]:
    """The state these numbers ask for, and why."""
    r = reading
    if state == "closed":
        limit = r.breakeven * config.open_below
        if r.upper < limit:
            return "open", f"at most {r.upper:.2f} tokens a round; {limit:.2f} are needed to gain"
        return "closed", "guesses may pay"
    limit = r.breakeven * config.close_above
    if r.lower > limit:
        return "closed", f"at least {r.lower:.2f} tokens a round; {limit:.2f} are enough"
    return "open", f"not yet more than {limit:.2f} tokens a round"


class Breaker:
    """The state of one, changed by `judge` alone. first_wait: rounds until its first look."""

    __slots__ = (
        "_config", "_interval", "_luck", "_switched", "_wait", "n_switches", "reason", "state",
    )  # fmt: skip

    def __init__(
        self,
        config: BreakerConfig,
        *,
        state: State = "closed",
        reason: str = "",
        first_wait: int = 0,
    ) -> None:
        self.state: State = state
        self.reason = reason
        self.n_switches = 0
        self._config = config
        self._interval = config.first_probe
        self._luck = 0
        self._wait = first_wait
        self._switched: deque[float] = deque(maxlen=config.switches)

    def turn(self, *, together: bool) -> Turn:
        """What this round is for."""
        if self.state == "closed":
            return "guess"
        return "probe" if self.due(together=together) else "rest"

    def due(self, *, together: bool) -> bool:
        """Whether to look again this round, in one more of not guessing; together: whether it is
        a round in which looks go together. Follow-ups of one that paid do not wait for it."""
        self._wait -= 1
        return self._wait <= 0 and (together or self._luck > 0)

    def probed(self, *, paid: bool, least_wait: int = 1) -> None:
        """A probe's outcome: while most pay look again at once, else wait longer and longer."""
        self._luck = min(self._luck + 1, 4) if paid else max(self._luck - 2, 0)
        if paid or self._luck:
            self._wait = 1
            return
        self._wait = max(self._interval, least_wait)
        self._interval = min(2 * self._interval, self._config.last_probe)

    def judge(self, reading: Reading, now_s: float) -> bool:
        """Switch if the numbers ask for it and the bound allows it; whether it switched."""
        state, reason = verdict(self.state, reading, self._config)
        if state == self.state:
            return False
        if state == "closed" and self._n_recent(now_s) > self._config.switches - 2:
            self.reason = f"{reason}, but it switched often lately and stays open for now"
            return False
        self.state, self.reason = state, reason
        self.n_switches += 1
        self._switched.append(now_s)
        if state == "open":
            self._interval = self._config.first_probe
            self._wait, self._luck = self._interval, 0
        return True

    def _n_recent(self, now_s: float) -> int:
        return sum(now_s - at < self._config.window_s for at in self._switched)
