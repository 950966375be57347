"""Measure what passes cost, in about a second, through the runtime's own five verbs.

Rows for one sequence first, since they decide how far one stream guesses, then several sequences,
then a longer context. What the budget does not allow is left to the passes of real requests. No
sequence stays open. Nothing is kept except the longer context's text, whose pages (of random
tokens) a runtime with a prefix index may hold until it needs the room.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from statistics import median

from outpace.core.score import Rows, Runtime
from outpace.errors import CapacityError

# Row counts the table knows; between them it is linear.
GRID = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
# A row's share of a pass where nothing was measured yet: neither free nor prohibitive.
ASSUMED_ROW_SHARE = 0.03

ROWS = (1, 8, 4, 16, 2, 32, 12, 6, 3, 24)
SEQUENCES = (8, 2, 16)
CONTEXT_TOKENS = 512
REPEATS = 5
# Keys of the sequences a profile opens: far from those of requests, which count up from 0.
_FIRST_KEY = -1_000_000

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a pass is made of: keys are summed over sequences, row_keys over their rows."""

    rows: int
    sequences: int = 1
    keys: int = 0
    row_keys: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Seconds of a pass before any correction; by_rows holds those of GRID's row counts."""

    by_rows: tuple[float, ...]
    per_sequence: float = 0.0
    per_key: float = 0.0
    per_row_key: float = 0.0

    def rows_seconds(self, rows: float) -> float:
        """Seconds of one sequence's rows over no context."""
        i = min(max(bisect_right(GRID, rows) - 1, 0), len(GRID) - 2)
        lo, hi = self.by_rows[i], self.by_rows[i + 1]
        return max(lo + (hi - lo) * (rows - GRID[i]) / (GRID[i + 1] - GRID[i]), 0.0)

    def rest(self, load: Load) -> float:
        """Seconds that do not come from the number of rows."""
        return (
            self.per_sequence * (load.sequences - 1)
            + self.per_key * load.keys
            + self.per_row_key * load.row_keys
        )

    def seconds(self, load: Load) -> float:
        """Seconds of a pass."""
        return self.rows_seconds(load.rows) + self.rest(load)


ASSUMED = Shape(by_rows=tuple(1 + ASSUMED_ROW_SHARE * (rows - 1) for rows in GRID))


def profile(runtime: Runtime, budget_s: float, clock: Clock) -> Shape:
    """What passes cost here; whatever could not be measured is assumed.

    The least of a few passes counts, taken in turns over the row counts so that a disturbance
    hits all of them alike.
    """
    probe, began = _Probe(runtime, clock), clock()
    probe.until = began + 0.6 * budget_s
    with_one = probe.rounds([(rows, 1) for rows in ROWS], REPEATS)
    shape = shape_of({rows: s for (rows, _), s in with_one.items()})
    probe.until = began + 0.8 * budget_s
    with_more = probe.rounds([(n, n) for n in SEQUENCES], 3)
    extra = [(s - shape.rows_seconds(n)) / (n - 1) for (n, _), s in with_more.items()]
    if extra:
        shape = replace(shape, per_sequence=max(median(extra), 0.0))
    probe.until = began + budget_s
    with_context = probe.rounds([(1, 1), (8, 1)], 3, context=CONTEXT_TOKENS)
    return _with_context(shape, with_context)


def shape_of(seconds_by_rows: dict[int, float]) -> Shape:
    """The shape of a model measured at some row counts: monotone, linear between them.

    Beyond the last, rows cost what they cost on average over the last doubling; before the first,
    nothing less than the first. Without any measurement the shape is assumed.
    """
    known = sorted(seconds_by_rows.items())
    if not known:
        return ASSUMED
    if len(known) == 1:
        rows, at = known[0]
        unit = at / ASSUMED.rows_seconds(rows)
        return Shape(by_rows=tuple(unit * s for s in ASSUMED.by_rows))
    # A pass is only ever disturbed upward: more rows that took less time show what it costs.
    levels = [min(seconds for _, seconds in known[i:]) for i in range(len(known))]
    rows_known = [rows for rows, _ in known]
    last = rows_known[-1]
    half = next(i for i in range(len(known)) if rows_known[i] * 2 >= last)
    half = min(half, len(known) - 2)
    slope = (levels[-1] - levels[half]) / (last - rows_known[half])
    by_rows: list[float] = []
    for rows in GRID:
        i = bisect_right(rows_known, rows) - 1
        if i < 0:
            by_rows.append(levels[0])
        elif i == len(known) - 1:
            by_rows.append(levels[-1] + slope * (rows - last))
        else:
            share = (rows - rows_known[i]) / (rows_known[i + 1] - rows_known[i])
            by_rows.append(levels[i] + (levels[i + 1] - levels[i]) * share)
    return Shape(by_rows=tuple(by_rows))


def _with_context(shape: Shape, seconds: dict[tuple[int, int], float]) -> Shape:
    """What a key costs a sequence and each of its rows, from passes of 1 and 8 rows."""
    if len(seconds) < 2:
        return shape
    one, eight = (
        max(seconds[rows, 1] - shape.rows_seconds(rows), 0.0) / CONTEXT_TOKENS for rows in (1, 8)
    )
    per_row_key = max(eight - one, 0.0) / 7
    return replace(shape, per_row_key=per_row_key, per_key=max(one - per_row_key, 0.0))


class _Probe:
    """Passes of given sizes, until it is time to stop."""

    def __init__(self, runtime: Runtime, clock: Clock) -> None:
        self.until = 0.0
        self._runtime, self._clock = runtime, clock
        self._slowest = 0.0

    def rounds(
        self, sizes: Seq[tuple[int, int]], repeats: int, *, context: int = 0
    ) -> dict[tuple[int, int], float]:
        """Least seconds of (rows, sequences), as far as time and memory allow."""
        taken: dict[tuple[int, int], list[float]] = {}
        n_most = max(sequences for _, sequences in sizes)
        keys = range(_FIRST_KEY, _FIRST_KEY + n_most)
        room = self._runtime.traits.context_tokens - max(rows for rows, _ in sizes)
        if context >= room or not self._has_time(context):
            return {}
        try:
            for key in keys:
                self._open(key, context)
            self._pass(keys[:1], 1)  # the first pass of a kind may compile or allocate
            for size in self._in_turns(sizes, repeats):
                rows, sequences = size
                seconds = self._pass(keys[:sequences], rows // sequences)
                taken.setdefault(size, []).append(seconds)
        except CapacityError:
            pass  # a small memory: what was measured counts
        finally:
            for key in keys:
                self._runtime.close(key)
        return {size: min(seconds) for size, seconds in taken.items()}

    def _in_turns(self, sizes: Seq[tuple[int, int]], repeats: int) -> Iterator[tuple[int, int]]:
        for _ in range(repeats):
            for size in sizes:
                if not self._has_time(0):
                    return
                yield size

    def _has_time(self, rows: int) -> bool:
        """Whether a pass like the slowest so far, or one of so many rows, would still fit."""
        expected = self._slowest * (1 + rows / max(ROWS))
        return self._clock() + expected < self.until

    def _open(self, key: int, context: int) -> None:
        runtime = self._runtime
        text = self._text(max(context, 1) + 1)
        read = runtime.open(key, text)
        if read < context:
            runtime.reserve(key, context - read)
            rows = text[read:context]
            runtime.extend([self._rows(key, rows, asked=())])
            runtime.keep(key, range(len(rows)))

    def _pass(self, keys: Seq[int], n_rows: int) -> float:
        runtime = self._runtime
        batch = [self._rows(key, self._text(n_rows), asked=range(n_rows)) for key in keys]
        for key in keys:
            runtime.reserve(key, n_rows)
        began = self._clock()
        runtime.extend(batch)
        seconds = self._clock() - began
        for key in keys:
            runtime.keep(key, ())
        self._slowest = max(self._slowest, seconds)
        return seconds

    def _rows(self, key: int, tokens: Seq[int], asked: Seq[int]) -> Rows:
        return Rows(
            key=key, tokens=tokens, parents=range(-1, len(tokens) - 1), asked=asked, logits=False
        )

    def _text(self, n: int) -> list[int]:
        return [(7919 * i + 11) % self._runtime.traits.vocab_size for i in range(n)]
