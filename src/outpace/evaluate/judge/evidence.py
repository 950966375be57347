"""The records that count, each with its line, and the pairs they form."""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import NamedTuple

from outpace.bench.record import BlockId
from outpace.evaluate.ledger import Statement
from outpace.evaluate.measurement import Measurement, Measurements, Phase, Window
from outpace.evaluate.phases import State, what_follows
from outpace.evaluate.plan.document import Plan


class Row(NamedTuple):
    """A request and its line in records.jsonl."""

    line: int
    m: Measurement


class Span(NamedTuple):
    """A window and its line."""

    line: int
    w: Window


class Pair(NamedTuple):
    """The same place asked of two arms."""

    base: Row
    other: Row

    @property
    def ok(self) -> bool:
        """Whether both were answered."""
        return self.base.m.request.ok and self.other.m.request.ok

    @property
    def item(self) -> str:
        """The unit it belongs to."""
        return self.base.m.request.item


Key = tuple[str, int, str, int, float]
Wanted = Callable[[Measurement], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which records: a phase, a variant of it, one load or all."""

    phase: Phase
    variant: str = ""
    load: str | None = None

    def has(self, record: Measurement | Window) -> bool:
        """Whether a record is one of them."""
        block = record.request.block if isinstance(record, Measurement) else record.block.block
        return (record.phase, record.variant) == (self.phase, self.variant) and (
            self.load in (None, block.load)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that was written for a plan, and the state of its ledger."""

    plan: Plan
    rows: tuple[Row, ...]
    spans: tuple[Span, ...]
    statements: tuple[Statement, ...]
    state: State

    def done(self, kind: str) -> tuple[int, Statement] | None:
        """The statement of a phase that counts, and its line."""
        found = next((s for k, s in self.state.done.items() if k == kind), None)
        if found is None:
            return None
        return next(n for n, s in enumerate(self.statements, start=1) if s is found), found

    def windows(self, where: Where, arm: str | None = None) -> tuple[Span, ...]:
        """The last window of every block."""
        last: dict[BlockId, Span] = {}
        for span in self.spans:
            block = span.w.block
            if where.has(span.w) and arm in (None, block.block.arm):
                before = last.get(block.block)
                if before is None or before.w.block.attempt <= block.attempt:
                    last[block.block] = span
        return tuple(last.values())

    def requests(self, where: Where, arm: str) -> tuple[Row, ...]:
        """One row per place of an arm: of the attempt that is paired, else the last."""
        found = self._attempts(where, arm)
        arms = {row.m.arm for row in self.rows if where.has(row.m)} - {arm}
        others = [self._attempts(where, name) for name in sorted(arms)]
        return tuple(_chosen(key, mine, others) for key, mine in found.items())

    def pairs(self, where: Where, *, arm: str, against: str) -> tuple[Pair, ...]:
        """Places that both arms were asked at, in the order they came."""
        base, other = self._attempts(where, against), self._attempts(where, arm)
        made = []
        for key, theirs in other.items():
            mine = base.get(key)
            if mine is not None:
                # Under load arms answer one after the other, so attempts may differ.
                together = self.plan.design.paired and where.phase != "load"
                made.append(_paired(mine, theirs, together=together))
        return tuple(pair for pair in made if pair is not None)

    def _attempts(self, where: Where, arm: str) -> dict[Key, dict[int, Row]]:
        """Place -> attempt -> row. Under load only the attempt of the last window counts."""
        counts = {s.w.block.block: s.w.block.attempt for s in self.windows(where, arm)}
        found: dict[Key, dict[int, Row]] = {}
        for row in self.rows:
            r = row.m.request
            if not where.has(row.m) or row.m.arm != arm:
                continue
            if where.phase == "load" and counts.get(r.block, r.attempt) != r.attempt:
                continue
            key = (r.block.load, r.block.repeat, r.item, r.turn, row.m.temperature)
            found.setdefault(key, {})[r.attempt] = row
        return found


def gather(plan: Plan, measurements: Measurements, statements: Seq[Statement]) -> Evidence:
    """The evidence of a plan; records of other plans are left out."""
    lines = measurements.request_lines or range(1, len(measurements.requests) + 1)
    after = range(len(measurements.requests) + 1, 1 << 62)
    window_lines = measurements.window_lines or after[: len(measurements.windows)]
    mine = plan.identity
    return Evidence(
        plan=plan,
        rows=tuple(
            Row(line, m)
            for line, m in zip(lines, measurements.requests, strict=True)
            if m.plan == mine
        ),
        spans=tuple(
            Span(line, w)
            for line, w in zip(window_lines, measurements.windows, strict=True)
            if w.plan == mine
        ),
        statements=tuple(statements),
        state=what_follows(statements),
    )


def lines_of(pairs: Iterable[Pair]) -> tuple[int, ...]:
    """Lines of both halves, in order."""
    return tuple(sorted({row.line for pair in pairs for row in pair}))


def by_item(pairs: Iterable[Pair]) -> Mapping[str, list[Pair]]:
    """Pairs of the same item, which are one unit."""
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.item, []).append(pair)
    return found


def _paired(base: dict[int, Row], other: dict[int, Row], *, together: bool) -> Pair | None:
    """The first attempt at which both answered; else the last at which both were asked."""
    if not together:
        return Pair(_best(base), _best(other))
    shared = sorted(base.keys() & other.keys())
    whole = [n for n in shared if Pair(base[n], other[n]).ok]
    if not shared:
        return None
    n = whole[0] if whole else shared[-1]
    return Pair(base[n], other[n])


def _best(attempts: dict[int, Row]) -> Row:
    answered = [n for n in sorted(attempts) if attempts[n].m.request.ok]
    return attempts[answered[0] if answered else max(attempts)]


def _chosen(key: Key, mine: dict[int, Row], others: list[dict[Key, dict[int, Row]]]) -> Row:
    whole = [
        n
        for n in sorted(mine)
        if mine[n].m.request.ok
        and all(n in o[key] and o[key][n].m.request.ok for o in others if key in o)
    ]
    return mine[whole[0]] if whole else _best(mine)
