"""What was done, in order: a line per statement, each with the hash of the one before it.

A line is a statement with its number, the hash of the line before it, and its own hash over all of
that. An edited, moved, inserted or removed line breaks the chain at a line that can be named. A
*cut* chain is whole in itself, so a second file, `ledger.head`, holds the number and hash of the
last line. It is written after the line: a killed process may leave it one behind, never ahead.
This finds mistakes and hurried edits; who rewrites both files deceives only those who were not
told the head before.

`outpace.evaluate.phases` reads from the statements what may happen next.
"""

import hashlib
import os
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError, with_config

from outpace.errors import ConfigError
from outpace.evaluate.plan.document import canonical
from outpace.journal import Journal, encoded

SCHEMA: Literal[1] = 1
LEDGER, HEAD = "ledger.jsonl", "ledger.head"
NOTHING = "0" * 64
Kind = Literal["lock", "verify", "tune", "test", "confirm", "load", "verdict", "deviation"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Event = Literal["opened", "done"]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A fact about an evaluation.

    event: `opened` before a phase reads data that it may read only once, `done` when its result
    is complete; other statements are done at once. at: wall clock, ISO 8601 with an offset. plan:
    the plan's identity. lineage: what it rests on, field -> digest or value. Fields may be per
    arm, as `flags/candidate`; those before the slash decide what a change invalidates
    (`phases.DEPENDS`). body: the rest, by kind, such as the digest of records and outcomes.
    """

    kind: Kind
    at: str
    plan: str
    event: Event = "done"
    lineage: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, JsonValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r}; allowed: {', '.join(KINDS)}")
        if self.event not in get_args(Event):
            raise ValueError(f"event {self.event!r}; allowed: opened, done")
        if datetime.fromisoformat(self.at).tzinfo is None:
            raise ValueError(f"at is {self.at!r}; allowed: ISO 8601 with an offset from UTC")


@with_config(ConfigDict(extra="forbid", strict=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A statement in its place in the chain. n: from 1, the line. sha256: names the entry."""

    schema: Literal[1]
    n: Annotated[int, Field(ge=1)]
    previous: Digest
    statement: Statement
    sha256: Digest


class LedgerBroken(ConfigError):
    """A ledger that is not as it was written; `line` is the first that does not fit."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(
            f"{path}:{line}: {problem}; nothing after line {line - 1} can be relied on. "
            "Restore the file from a copy, or begin again in another folder"
        )
        self.line = line


class Ledger:
    """A folder's ledger, open for appending by this process alone.

    Raises:
        LedgerBroken: what is there does not hold.
        CapacityError: another process has it open.
    """

    def __init__(self, folder: Path) -> None:
        self._head = folder / HEAD
        read_ledger(folder)  # before the journal mends what a killed process may have left
        self._journal = Journal(folder / LEDGER, sync=True)
        try:
            self._entries = list(read_ledger(folder))
        except BaseException:
            self._journal.close()
            raise

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All so far."""
        return tuple(self._entries)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All so far, without the chain."""
        return tuple(entry.statement for entry in self._entries)

    def append(self, statement: Statement) -> Entry:
        """Add a statement; it is on the disk when this returns.

        Raises:
            ConfigError: the disk does not take it.
        """
        previous = self._entries[-1].sha256 if self._entries else NOTHING
        entry = chained(statement, n=len(self._entries) + 1, previous=previous)
        self._journal.append(_line(entry))
        self._entries.append(entry)
        _write_head(self._head, entry)
        return entry

    def close(self) -> None:
        """Let go of the file; twice is fine."""
        self._journal.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()


def read_ledger(folder: Path) -> tuple[Entry, ...]:
    """The entries of a folder's ledger, verified; none where there is none.

    A half line at the end, which a killed process leaves, is none.

    Raises:
        LedgerBroken: a line was edited, moved, inserted, removed or cut off.
        ConfigError: the file cannot be read.
    """
    path = folder / LEDGER
    head = _read_head(folder / HEAD)  # first: a process that writes may add lines meanwhile
    try:
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    entries: list[Entry] = []
    for at, line in enumerate(lines, start=1):
        entries.append(_entry(line, path, at, entries))
    _check_head(head, path, entries)
    return tuple(entries)


def chained(statement: Statement, *, n: int, previous: str) -> Entry:
    """A statement as the n-th entry, after the one whose hash is `previous`."""
    entry = Entry(schema=SCHEMA, n=n, previous=previous, statement=statement, sha256=NOTHING)
    content = {key: value for key, value in _line(entry).items() if key != "sha256"}
    return replace(entry, sha256=_hash(content))


def _entry(line: bytes, path: Path, at: int, before: Seq[Entry]) -> Entry:
    try:
        entry = adapter().validate_json(line, strict=True, extra="forbid")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        problem = f"{where}: {first['msg']}" if where else first["msg"]
        raise LedgerBroken(path, at, f"no statement ({problem})") from None
    if entry.n != at:
        raise LedgerBroken(
            path, at, f"statement {entry.n} stands here; lines were moved or removed"
        )
    if entry.previous != (before[-1].sha256 if before else NOTHING):
        raise LedgerBroken(path, at, "it does not follow from the line before it")
    if chained(entry.statement, n=entry.n, previous=entry.previous).sha256 != entry.sha256:
        raise LedgerBroken(path, at, "its hash is not that of its content; it was edited")
    if encoded(_line(entry)) != line + b"\n":
        raise LedgerBroken(path, at, "it is not spelled as it was written; it was edited")
    return entry


def _read_head(head: Path) -> tuple[int, str] | None:
    """Number and hash of the last statement; number -1 if the file cannot be read."""
    try:
        n, digest = head.read_text("ascii").split()
        return int(n), digest
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return -1, ""


def _check_head(head: tuple[int, str] | None, path: Path, entries: Seq[Entry]) -> None:
    if head is None:
        # Killed between the first line and its head; later ones had one to begin with.
        if len(entries) > 1:
            raise LedgerBroken(path, len(entries) + 1, f"{HEAD} is gone")
        return
    n, digest = head
    if n < 1:
        raise LedgerBroken(path, len(entries) + 1, f"{HEAD} cannot be read")
    if n > len(entries):
        raise LedgerBroken(
            path, len(entries) + 1, f"cut off: {n} statements were made, {len(entries)} are there"
        )
    if n < len(entries) - 1 or entries[n - 1].sha256 != digest:
        raise LedgerBroken(path, n, f"{HEAD} names another statement as the last one")


def _write_head(head: Path, entry: Entry) -> None:
    draft = head.with_suffix(".head.new")
    try:
        with draft.open("w", encoding="ascii") as file:
            file.write(f"{entry.n} {entry.sha256}\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(head)
    except OSError as error:
        raise ConfigError(f"{head} cannot be written: {error.strerror}") from None


@cache
def adapter() -> TypeAdapter[Entry]:
    """Entries to and from JSON, and their JSON Schema."""
    return TypeAdapter(Entry)


def _line(entry: Entry) -> dict[str, object]:
    document: dict[str, object] = adapter().dump_python(entry, mode="json")
    return document


def _hash(document: object) -> str:
    return hashlib.sha256(canonical(document).encode("utf-8", "surrogatepass")).hexdigest()
