"""Whether offers that cost time pay for it: a record of what they bring, against what they take.

A drafter asked for an offer takes seconds, and the same seconds would bring tokens elsewhere: as
many as the rounds have brought of late. What an offer brings is the chance of each of its guesses
to be kept, less what that guess's row costs (`Ask.worth`). With one sequence a row is cheap and
even doubtful guesses pay; with many it costs nearly a token, and only asking may cost more than
what is left. So there is a record for each band of worth, which starts in favour of asking.
"""

import time
from collections.abc import Callable

BANDS = 10
# A band starts with so many asks that brought so many tokens; later ones weigh at least a share.
PRIOR_ASKS, PRIOR_GAIN, LEAST_STEP = 8.0, 1.0, 1 / 64
COST_STEP, RATE_STEP = 0.1, 0.1
# Where asking does not pay, it is tried again once in so many rounds.
TRY_AGAIN = 64

Clock = Callable[[], float]


class Rate:
    """Tokens a second of all sequences together, over the rounds in which guesses were asked for.

    clock: seconds.
    """

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self.clock = clock
        self.tokens_per_s = 0.0  # 0 = not known
        self._began: float | None = None

    def begin(self) -> None:
        """A round begins."""
        self._began = self.clock()

    def end(self, tokens: int) -> None:
        """It brought so many tokens."""
        if self._began is None or not tokens:
            return
        seconds, self._began = self.clock() - self._began, None
        if seconds > 0:
            step = RATE_STEP if self.tokens_per_s else 1.0
            self.tokens_per_s += step * (tokens / seconds - self.tokens_per_s)


class DearRecord:
    """Of one source: tokens that an ask brought beyond its rows, and seconds that it took."""

    __slots__ = ("_asks", "_gains", "_seconds", "_skipped")

    def __init__(self) -> None:
        self._asks = [PRIOR_ASKS] * BANDS
        self._gains = [PRIOR_GAIN] * BANDS
        self._seconds = [0.0] * BANDS
        self._skipped = 0

    def pays(self, worth: float, tokens_per_s: float) -> bool:
        """Whether to ask now, where a row costs `worth` tokens; 0 = nobody counts, always ask."""
        band = _band(worth)
        if worth <= 0 or self._gains[band] >= tokens_per_s * self._seconds[band]:
            return True
        self._skipped += 1
        if self._skipped < TRY_AGAIN:
            return False
        self._skipped = 0
        return True

    def took(self, worth: float, n_asks: int, seconds: float) -> None:
        """So many asks took so long, together."""
        band = _band(worth)
        self._seconds[band] += COST_STEP * (seconds / n_asks - self._seconds[band])

    def brought(self, worth: float, gain: float) -> None:
        """One ask: chances of the guesses that were taken, less their rows, in tokens."""
        band = _band(worth)
        self._asks[band] += 1
        step = max(1 / self._asks[band], LEAST_STEP)
        self._gains[band] += step * (gain - self._gains[band])


def _band(worth: float) -> int:
    return min(int(worth * BANDS), BANDS - 1)
