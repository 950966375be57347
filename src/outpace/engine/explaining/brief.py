"""One pass over a trace that keeps a few numbers per round, so that large traces can be asked.

A question then reads again only the lines it is about.
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from outpace.engine.tracing import lines
from outpace.engine.tracing.reading import read_trace
from outpace.errors import TraceError

STAGES = ("draft", "score", "accept", "resample", "repeat")


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """A round in a few numbers.

    waited_s: since the request's last round, outside its own. rarest: which of its emitted tokens
    the target gave the smallest p, and that p.
    """

    line: int
    request: int
    round: int
    start: int
    seconds: tuple[float, ...]
    waited_s: float
    catch_up: int
    reread: int
    n_rows: int
    sequences: int
    batch_rows: int
    drafted: int
    kept: int
    emitted: int
    asked: bool
    judged: bool
    max_nodes: int
    max_depth: int
    reason: str
    rarest: tuple[int, float] | None

    @property
    def total_s(self) -> float:
        """All five stages."""
        return sum(self.seconds)


@dataclass(slots=True)
class Outline:
    """A trace in outline: its header, its requests and their rounds. changed: broken digests."""

    path: str
    header: lines.Header
    requests: dict[int, lines.Request] = field(default_factory=dict)
    ends: dict[int, lines.End] = field(default_factory=dict)
    rounds: list[Brief] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)

    def of(self, request: int) -> list[Brief]:
        """The rounds of one request, in order.

        Raises:
            TraceError: the trace has no such request.
        """
        if request not in self.requests:
            known = sorted(self.requests)
            shown = ", ".join(map(str, known[:20])) + (" …" if len(known) > 20 else "")
            raise TraceError(
                f"{self.path}: no request {request}; the trace has {shown or 'none'}; name one"
            )
        return [brief for brief in self.rounds if brief.request == request]


def outline(path: str | os.PathLike[str]) -> Outline:
    """Read a trace once, keeping a `Brief` per round.

    Raises:
        TraceError: not a trace, or damaged.
    """
    found: Outline | None = None
    last_at: dict[int, float] = {}
    for placed in read_trace(path):
        line = placed.line
        if isinstance(line, lines.Header):
            found = Outline(str(path), line)
        if found is None:  # read_trace sees to it
            continue
        if not placed.linked:
            found.changed.append(placed.number)
        match line:
            case lines.Request():
                found.requests[line.request] = line
            case lines.End():
                found.ends[line.request] = line
            case lines.Round():
                found.rounds.append(_brief(placed.number, line, last_at))
            case _:
                pass
    if found is None:
        raise TraceError(f"{path}: no header; name a file written with --trace")
    return found


def full_rounds(path: str, numbers: Collection[int]) -> Iterator[tuple[int, lines.Round]]:
    """The rounds at these line numbers, in full."""
    for placed in read_trace(path):
        if placed.number in numbers and isinstance(placed.line, lines.Round):
            yield placed.number, placed.line


def _brief(number: int, line: lines.Round, last_at: dict[int, float]) -> Brief:
    stages = [getattr(line, name) for name in STAGES]
    seconds = tuple(stage.seconds if stage is not None else 0.0 for stage in stages)
    waited = 0.0
    if line.at_s is not None:
        waited = max(0.0, line.at_s - last_at.get(line.request, line.at_s) - sum(seconds))
        last_at[line.request] = line.at_s
    return Brief(
        line=number,
        request=line.request,
        round=line.round,
        start=line.start,
        seconds=seconds,
        waited_s=waited,
        catch_up=line.score.input.catch_up,
        reread=line.score.input.reread,
        n_rows=line.score.input.n_rows,
        sequences=line.batch.sequences,
        batch_rows=line.batch.rows,
        drafted=len(line.draft.output.tokens),
        kept=len(line.accept.output.path) if line.accept else 0,
        emitted=len(line.repeat.output.emitted),
        asked=line.draft.input.asked,
        judged=line.accept is not None,
        max_nodes=line.control.max_nodes,
        max_depth=line.control.max_depth,
        reason=line.control.reason,
        rarest=_rarest(line),
    )


def _rarest(line: lines.Round) -> tuple[int, float] | None:
    path = line.accept.output.path if line.accept else ()
    rows = {row.row: row for row in line.score.output.rows}
    found: list[tuple[float, int]] = []
    for i, token in enumerate(line.repeat.output.emitted):
        row = rows.get(path[i - 1] + 1 if i else 0)
        if row is not None and token in row.tokens:
            found.append((row.p[row.tokens.index(token)], i))
    return (min(found)[1], min(found)[0]) if found else None
