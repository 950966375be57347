"""A trace file -> its lines, one at a time, with an error for whatever is not one.

A file may be large and may have been cut short; nothing but the current line is held.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from outpace.engine.tracing.codec import GENESIS, WrongVersion, unseal
from outpace.engine.tracing.lines import SCHEMA, Header, Line
from outpace.errors import TraceError

# A line of 1024 guesses with long rows is about 2 MB; far beyond that it is no line of a trace.
MAX_LINE_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A line and where it stood. linked: whether its digest continues the line before."""

    number: int
    line: Line
    linked: bool


def read_trace(path: str | os.PathLike[str]) -> Iterator[Placed]:
    """The lines of a trace, header first.

    Raises:
        TraceError: not a trace, another version, or a damaged line; says which and what to do.
    """
    try:
        with Path(path).open("rb") as file:
            yield from _read(file, Path(path))
    except OSError as error:
        raise TraceError(
            f"{path} cannot be read: {error.strerror}; name a file written with --trace"
        ) from None


def _read(file: BinaryIO, path: Path) -> Iterator[Placed]:
    number, previous = 0, GENESIS
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        where = f"{path}, line {number}"
        if len(raw) > MAX_LINE_BYTES:
            raise TraceError(
                f"{where}: more than {MAX_LINE_BYTES} bytes without an end; a trace's lines are "
                f"shorter; name a file written with --trace"
            )
        try:
            line, previous, linked = unseal(_decode(raw, where), previous, where)
        except TraceError as error:
            raise _explained(error, path, number, whole=raw.endswith(b"\n")) from None
        if (number == 1) != isinstance(line, Header):
            raise TraceError(
                f"{where}: a {line.kind} line; a trace has one header, and it comes first; "
                f"use the file as outpace wrote it"
            )
        yield Placed(number=number, line=line, linked=linked)
    if number == 0:
        raise TraceError(
            f"{path} is empty; a trace has at least a header; the process that should have "
            f"written it may never have begun: run it again"
        )


def _decode(raw: bytes, where: str) -> str:
    try:
        return raw.removesuffix(b"\n").decode("ascii")
    except UnicodeDecodeError as error:
        raise TraceError(f"{where}: byte {raw[error.start]:#04x} is not ASCII") from None


def _explained(error: TraceError, path: Path, number: int, *, whole: bool) -> TraceError:
    """The same error, with what is most likely wrong and what to do."""
    if number == 1 and not isinstance(error, WrongVersion):
        return TraceError(
            f"{path} is not a trace ({error}); its first line should be a header with schema "
            f"{SCHEMA!r}; name a file written with --trace"
        )
    if not whole:
        return TraceError(
            f"{path}: the last line, {number}, stops in the middle: the process that wrote it was "
            f"killed. The {number - 1} lines before it are whole; delete the last line "
            f"to replay or explain those"
        )
    return error
