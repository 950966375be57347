"""What a pass costs: seconds by its rows, its sequences and the keys they read.

A pass is modelled as

    seconds = (by_rows(rows) + per_sequence * (sequences - 1)
               + per_key * keys + per_row_key * row_keys) * exp(level + bend(sequences, rows))

The first factor, the `Shape`, is measured at start (`profile.py`) or assumed. What passes really
take corrects it: *level* follows the machine as a whole (another process, a hotter core), *bends*
the single places of the table. A place is first judged by the median of its first few passes and
then moves slowly, and the level by medians of recent passes, so that one outlier moves nothing.
A place never visited bends as its neighbours do, and less the farther they are.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import median

import numpy as np
from numpy.typing import NDArray

from outpace.control.limits import View
from outpace.control.profile import ASSUMED, GRID, Load, Shape
from outpace.core.draft import Style
from outpace.core.repeat import Round

Floats = NDArray[np.float64]

_FIRST = 5  # passes whose median is a place's first bend
_LEVEL_GAIN, _BEND_GAIN = 0.15, 0.02
_MOST = log(8.0)
_REFRESH_PASSES = 16
_SETTLED = 64
_OWN_GAIN, _MOST_OWN_S = 0.05, 1e-3


def _place(rows: int) -> int:
    """The grid point nearest to a row count."""
    i = bisect_right(GRID, rows) - 1
    if i + 1 < len(GRID) and 2 * rows > GRID[i] + GRID[i + 1]:
        i += 1
    return max(i, 0)


@dataclass(slots=True)
class _Bend:
    """What one place of the table has shown, in logarithms."""

    first: list[float]
    value: float = 0.0
    n: int = _FIRST


class CostTable:
    """Seconds of a pass: measured, and corrected by every pass since.

    n_passes: passes learned from; with none and without a profile it only knows proportions.
    """

    def __init__(self, shape: Shape = ASSUMED) -> None:
        self.shape = shape
        self.n_passes = 0
        self._level = 0.0
        self._variance = 0.1**2  # of a pass, as far as is known
        self._recent: deque[float] = deque(maxlen=5)
        self._bends: dict[tuple[int, int], _Bend] = {}
        # By sequences' bucket: factors by row count, valid until the next refresh.
        self._factors: dict[int, Floats] = {}
        self._base_R: Floats = np.zeros(0)

    def seconds(self, load: Load) -> float:
        """Seconds of such a pass."""
        return float(self.curve(load, 0, 0.0)[0])

    def curve(self, load: Load, n: int, keys: float) -> Floats:
        """Seconds with 0 .. n more rows that read so many keys each; never falling."""
        rows, end = load.rows, load.rows + n + 1
        base_R, factors_R = self._tables(load.sequences.bit_length(), end)
        more_N = np.arange(n + 1) * (self.shape.per_row_key * keys)
        seconds_N = base_R[rows:end] + (self.shape.rest(load) + more_N)
        seconds_N *= factors_R[rows:end] * exp(self._level)
        return np.maximum.accumulate(seconds_N)

    def learn(self, load: Load, seconds: float) -> None:
        """One pass and what it took."""
        shaped = self.shape.seconds(load)
        if not (seconds > 0 and shaped > 0):
            return
        off = log(seconds / shaped)
        self.n_passes += 1
        if self.n_passes == 1:
            self._level = off
        place = (load.sequences.bit_length(), _place(load.rows))
        bend = self._bends.get(place)
        if bend is None:
            bend = self._bends[place] = _Bend([])
        if len(bend.first) < _FIRST:
            self._first(bend, off)
        else:
            error = min(max(off - self._level - bend.value, -_MOST), _MOST)
            self._recent.append(error)
            self._variance += 0.05 * (min(error * error, 0.25) - self._variance)
            self._level += _LEVEL_GAIN * median(self._recent)
            bend.n += 1
            bend.value += max(1 / bend.n, _BEND_GAIN) * min(max(error, -0.2), 0.2)
            if self.n_passes % _REFRESH_PASSES == 0:
                self._factors.clear()

    def _first(self, bend: _Bend, off: float) -> None:
        """The level stays: that a place differs says nothing of the machine as a whole."""
        bend.first.append(off - self._level)
        if len(self._bends) == 1:  # nothing else is known, so it is the level that is learned
            self._level += median(bend.first)
            bend.first = [x - median(bend.first) for x in bend.first]
        else:
            # What passes differ by among themselves can make a few of them look bent.
            here, doubt = median(bend.first), self._variance / len(bend.first)
            bend.value = here * here * here / (here * here + doubt)
        self._factors.clear()

    def _tables(self, sequences: int, end: int) -> tuple[Floats, Floats]:
        if len(self._base_R) < end:
            n = end + 64
            self._base_R = np.array([self.shape.rows_seconds(rows) for rows in range(n)])
        factors_R = self._factors.get(sequences)
        if factors_R is None or len(factors_R) < end:
            factors_R = self._factors[sequences] = self._bent(sequences, end + 64)
        return self._base_R, factors_R

    def _bent(self, sequences: int, n: int) -> Floats:
        """exp(bend) for 0 .. n rows: between known places a line, beyond them it falls to nothing
        within a doubling."""
        buckets = {s for s, _ in self._bends}
        if not buckets:
            return np.ones(n + 1)
        nearest = min(buckets, key=lambda s: (abs(s - sequences), s))
        known = sorted((GRID[j], b.value) for (s, j), b in self._bends.items() if s == nearest)
        rows = [known[0][0] / 2, *(at for at, _ in known), 2 * known[-1][0]]
        bends_R = np.interp(np.arange(n + 1), rows, [0.0, *(bend for _, bend in known), 0.0])
        return np.exp(bends_R)


class LinearCost:
    """seconds = a * x + b * y, fitted to what was seen lately; neither is ever negative.

    For the draft, x counts the sequences asked and y the deepest draft (a model makes one pass
    per depth); for accept and resample, x counts sequences and y guesses. Outliers are cut to a
    few times what was expected. What is the lesser part of y is taken for chance: drafts that
    cost by the sequence are often deep when many are asked.
    """

    __slots__ = ("_xs", "_xx", "_xy", "_ys", "_yy", "a", "b", "n")

    def __init__(self) -> None:
        self.n = 0
        self.a = self.b = 0.0
        self._xx = self._xy = self._yy = self._xs = self._ys = 0.0

    def seconds(self, x: float, y: float) -> float:
        """What is expected; 0 where nothing was seen."""
        return self.a * x + self.b * y

    def learn(self, x: float, y: float, seconds: float) -> None:
        """One measurement."""
        if x <= 0:
            return
        if self.n >= _SETTLED and self.n % 4:
            self.n += 1  # every fourth is enough, and this runs in every round
            return
        if self.n >= 8:
            seconds = min(seconds, 3 * self.seconds(x, y) + 1e-6)
        self.n += 1
        keep = 0.98
        self._xx = keep * self._xx + x * x
        self._xy = keep * self._xy + x * y
        self._yy = keep * self._yy + y * y
        self._xs = keep * self._xs + x * seconds
        self._ys = keep * self._ys + y * seconds
        ridge = 1e-3 * (self._xx + self._yy)
        xx, yy = self._xx + ridge, self._yy + ridge
        det = xx * yy - self._xy * self._xy
        a = (self._xs * yy - self._ys * self._xy) / det
        b = (self._ys * xx - self._xs * self._xy) / det
        if a < 0:
            a, b = 0.0, self._ys / yy
        elif b * sqrt(yy) < a * sqrt(xx):  # what seems to come with y comes from what y comes with
            a, b = self._xs / xx, 0.0
        self.a, self.b = a, b


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """A finished round of all sequences: what it brought, and what the table says it takes.

    tokens: committed, over the emitting sequences. pass_s, plain_s: seconds of the pass with and
    without its guesses. other_s: the draft's, and what guesses add to accept and resample.
    reading: whether prompts were read in the same pass.
    """

    tokens: int
    emitting: int
    guesses: int
    pass_s: float
    plain_s: float
    other_s: float
    reading: bool


def load_of(views: Seq[View]) -> Load:
    """The pass of these sequences without guesses."""
    return Load(
        rows=sum(v.catch_up for v in views),
        sequences=len(views),
        keys=sum(v.context_tokens for v in views),
        row_keys=sum(v.catch_up * v.context_tokens for v in views),
    )


def plain_load(views: Seq[View]) -> Load:
    """A pass in which each of them reads one row, as plain decoding does."""
    n, keys = len(views), sum(v.context_tokens for v in views)
    return Load(rows=n, sequences=n, keys=keys, row_keys=keys)


class RoundCosts:
    """The costs of a round's stages: the pass, the draft, and what comes after by style.

    The control's own seconds for a sequence that was asked count as its draft's.
    """

    def __init__(self, table: CostTable) -> None:
        self.table = table
        self.draft = LinearCost()
        self._own_s = 0.0
        self.after: dict[Style, LinearCost] = {}

    def per_guess(self, style: Style) -> float:
        """Seconds that accept and resample take per guess."""
        after = self.after.get(style)
        return after.b if after else 0.0

    def learn_own(self, n_asked: int, seconds: float) -> None:
        """What the control itself took to learn from so many asked sequences."""
        if n_asked:
            self._own_s += _OWN_GAIN * (min(seconds / n_asked, _MOST_OWN_S) - self._own_s)

    def learn(self, rounds: Seq[Round]) -> Bill:
        """One shared pass."""
        rows = keys = row_keys = guesses = guess_keys = asked = deepest = tokens = emitting = 0
        groups: dict[Style, list[float]] = {}
        for done in rounds:
            n, start, drafted = done.n_rows, done.start, len(done.draft)
            rows += n
            keys += start
            row_keys += n * start
            if done.verdict is None:
                continue
            emitting += 1
            tokens += len(done.emitted)
            asked += done.turn.max_nodes > 0
            if drafted:
                guesses += drafted
                guess_keys += drafted * start
                deepest = max(deepest, done.draft.depth)
            group = groups.setdefault(done.turn.sequence.style, [0.0, 0.0, 0.0])
            seconds = done.seconds
            group[0] += 1
            group[1] += drafted
            group[2] += seconds.accept + seconds.resample + seconds.repeat
        if asked:
            self.draft.learn(asked, deepest, rounds[0].seconds.draft + asked * self._own_s)
        other_s = self.draft.seconds(asked, deepest) if asked else 0.0
        for style, (n_sequences, n_guesses, spent) in groups.items():
            after = self.after.get(style)
            if after is None:
                after = self.after[style] = LinearCost()
            after.learn(n_sequences, n_guesses, spent)
            other_s += after.b * n_guesses
        load = Load(rows=rows, sequences=len(rounds), keys=keys, row_keys=row_keys)
        self.table.learn(load, rounds[0].seconds.score)
        plain = Load(
            rows=rows - guesses,
            sequences=len(rounds),
            keys=keys,
            row_keys=row_keys - guess_keys,
        )
        pass_s = self.table.curve(plain, guesses, keys / len(rounds))
        return Bill(
            tokens=tokens,
            emitting=emitting,
            guesses=guesses,
            pass_s=float(pass_s[-1]),
            plain_s=float(pass_s[0]),
            other_s=other_s,
            reading=rows - guesses > 2 * len(rounds),
        )
