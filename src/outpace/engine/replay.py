"""Verify a trace: re-derive every decision from the recorded numbers, and say what holds.

No model is loaded. From a seed come the coins; from scores come p and the target's own choice;
from p, q and coins come the guesses kept; from weights and a coin comes the next token; from
these come the text, its end, and the totals. What a trace cannot prove is taken as given: that
its scores are the model's, the words and times in it, limits that nothing came up against, which
token it was that lost by a recorded score, and the statistics of laws it does not contain in full
(entropies, overlap, the drafter's second choice). The chain of digests ties those too, against
accidents.
"""

import os
from collections import Counter
from dataclasses import asdict, dataclass

from outpace.engine.replaying.audit import Audit, Finding
from outpace.engine.replaying.check import STAGES, check_round, says
from outpace.engine.replaying.frame import Passes, check_end, check_request
from outpace.engine.tracing import lines
from outpace.engine.tracing.course import Course
from outpace.engine.tracing.reading import Placed, read_trace

# What is compared: the five stages, and what frames them.
PARTS = ("chain", "request", *STAGES, "recorded checks", "pass", "end")
_MAX_FAILURES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A number that does not follow from the others, and where it stands."""

    line: int
    request: int | None
    round: int | None
    finding: Finding

    def __str__(self) -> str:
        place = f"line {self.line}"
        if self.request is not None:
            place += f", request {self.request}"
        if self.round is not None:
            place += f", round {self.round}"
        return f"{place}: {self.finding}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReport:
    """How often one part was compared, and how often it did not hold."""

    name: str
    compared: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What replay found. unfinished: requests without a last line (killed, or still running)."""

    path: str
    model: str
    drafter: str
    n_lines: int
    n_requests: int
    n_rounds: int
    n_tokens: int
    parts: tuple[PartReport, ...]
    failures: tuple[Failure, ...]
    unfinished: tuple[int, ...]

    @property
    def holds(self) -> bool:
        """Whether every decision follows from the recorded numbers."""
        return all(part.failed == 0 for part in self.parts)

    def as_dict(self) -> dict[str, object]:
        """The report for --json."""
        return {"holds": self.holds, **asdict(self)}

    def text(self) -> str:
        """The report in plain lines."""
        told = [
            f"{self.path}: {self.n_requests} requests, {self.n_rounds} rounds, "
            f"{self.n_tokens} tokens of {self.model} with drafter {self.drafter}"
        ]
        for part in self.parts:
            verdict = "holds" if part.failed == 0 else f"FAILS {part.failed} times"
            told.append(f"  {part.name}: {verdict} ({part.compared} compared)")
        if self.unfinished:
            told.append(f"  without a last line (killed, or still running): {self.unfinished}")
        told.extend(f"  {failure}" for failure in self.failures[:20])
        if len(self.failures) > 20:
            told.append(f"  and {len(self.failures) - 20} more")
        if not self.n_rounds:
            told.append("nothing to check: the trace has no rounds")
        else:
            told.append("every decision follows" if self.holds else "this trace does not hold")
        return "\n".join(told)


def replay(path: str | os.PathLike[str]) -> Report:
    """Re-derive every decision of a trace.

    Raises:
        TraceError: the file is not a trace, or a line of it cannot be read. A trace that can be
            read and does not hold is no error: its report says so.
    """
    replayer = _Replay(str(path))
    for placed in read_trace(path):
        replayer.take(placed)
    return replayer.report()


class _Replay:
    """Takes line after line; keeps one course per open request."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._header: lines.Header | None = None
        self._open: dict[int, Course] = {}
        self._counts: Counter[type] = Counter()
        self._n_tokens = 0
        self._compared: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._failures: list[Failure] = []
        self._passes = Passes()

    def take(self, placed: Placed) -> None:
        """Judge one line against those before it."""
        line, audit = placed.line, Audit()
        self._counts[type(line)] += 1
        audit.enter("chain")
        audit.true("sha256", placed.linked, "another line's digest", "this line's")
        match line:
            case lines.Header():
                self._header = line
            case lines.Request():
                self._begin(line, audit)
            case lines.Round():
                self._round(line, audit)
            case lines.End():
                self._end(line, audit)
        self._note(audit, placed)

    def report(self) -> Report:
        """What was found, once all lines were taken."""
        parts = (
            PartReport(name=name, compared=self._compared[name], failed=self._failed[name])
            for name in PARTS
        )
        return Report(
            path=self._path,
            model=self._header.model if self._header else "",
            drafter=self._header.drafter if self._header else "",
            n_lines=self._counts.total(),
            n_requests=self._counts[lines.Request],
            n_rounds=self._counts[lines.Round],
            n_tokens=self._n_tokens,
            parts=tuple(parts),
            failures=tuple(self._failures),
            unfinished=tuple(sorted(self._open)),
        )

    def _begin(self, line: lines.Request, audit: Audit) -> None:
        audit.enter("request")
        audit.true("number", line.request not in self._open, line.request, "a new request")
        if self._header is not None:  # read_trace sees to it
            check_request(line, self._header, audit)
            self._open[line.request] = Course(self._header, line)

    def _round(self, line: lines.Round, audit: Audit) -> None:
        course = self._open.get(line.request)
        self._passes.take(line, audit)
        audit.enter("request")
        audit.true("number", course is not None, line.request, "a request that is open")
        if course is None:
            return
        audit.same("round", line.round, course.n_rounds)
        audit.true("round", course.finish is None, "a round after the end", "none")
        found = check_round(line, course)
        audit.add(found)
        audit.enter("recorded checks")
        for name in STAGES:
            stage = getattr(line, name)
            if stage is not None:
                audit.same(f"{name}, says", stage.check.says, says(name, line))
                audit.same(f"{name}, holds", stage.check.holds, found.holds(name))
                audit.true(f"{name}, seconds", stage.seconds >= 0, stage.seconds, "0 or more")
        course.advance(line)
        self._n_tokens += len(line.repeat.output.emitted)

    def _end(self, line: lines.End, audit: Audit) -> None:
        course = self._open.pop(line.request, None)
        self._passes.end(audit)
        audit.enter("end")
        audit.true("number", course is not None, line.request, "a request that is open")
        if course is not None:
            check_end(line, course, audit)

    def _note(self, audit: Audit, placed: Placed) -> None:
        self._compared.update(audit.n_compared)
        line = placed.line
        for finding in audit.findings:
            self._failed[finding.stage] += 1
            if len(self._failures) < _MAX_FAILURES:
                failure = Failure(
                    line=placed.number,
                    request=getattr(line, "request", None),
                    round=getattr(line, "round", None),
                    finding=finding,
                )
                self._failures.append(failure)
