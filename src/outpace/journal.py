"""Lines that survive: a JSON Lines file that is only appended to, and never holds half a line.

A process may be killed at any byte. So a line is written whole, in one go, after a repair of
whatever a killed predecessor left behind, and one process at a time may write.
"""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from outpace.errors import CapacityError, ConfigError

try:
    import fcntl
except ImportError:  # no such locks on this platform: two writers are then the user's to avoid
    fcntl = None  # type: ignore[assignment]

_BLOCK_BYTES = 1 << 16


class Journal:
    """Appends documents to a file, from any thread; the file is made, or continued.

    sync: wait until the disk has each line (a machine may lose power, not only a process die).

    Raises:
        ConfigError: the file cannot be written.
        CapacityError: another process is writing it.
    """

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self.path = path
        self._sync = sync
        self._lock = threading.Lock()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.n_cut_bytes = self._cut_half_line()
            """Bytes of a half line that were removed at the start."""
        except BlockingIOError:
            os.close(self._file)
            raise CapacityError(
                f"{path} is being written by another process; wait for its end, or name another"
            ) from None

    def append(self, document: Mapping[str, object]) -> None:
        """Write one line; it is all there when this returns, or nothing of it is.

        Raises:
            ConfigError: the disk is full, or the file cannot be written any more.
        """
        rest = encoded(document)
        with self._lock:
            if self._file < 0:
                raise ValueError(f"{self.path} is closed")
            begin = os.lseek(self._file, 0, os.SEEK_END)
            try:
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                if self._sync:
                    os.fsync(self._file)
            except OSError as error:
                os.ftruncate(self._file, begin)
                raise self._unwritable(error) from None

    def close(self) -> None:
        """Let go of the file; twice is fine."""
        with self._lock:
            file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    def _cut_half_line(self) -> int:
        size = end = os.lseek(self._file, 0, os.SEEK_END)
        while end:
            begin = max(0, end - _BLOCK_BYTES)
            newline = os.pread(self._file, end - begin, begin).rfind(b"\n")
            if newline >= 0:
                end = begin + newline + 1
                break
            end = begin
        if end < size:
            os.ftruncate(self._file, end)
        return size - end

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"{self.path} cannot be written: {error.strerror}; "
            f"name a file in an existing folder with room that you may write to"
        )


def encoded(document: Mapping[str, object]) -> bytes:
    """A document as its line, the end of the line included."""
    line = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return line.encode("utf-8", "surrogatepass") + b"\n"


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The documents of a journal with their line numbers; a half line at its end is left out.

    Raises:
        ConfigError: the file cannot be read, or a line of it is no JSON object.
    """
    try:
        with path.open("rb") as file:
            for at, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                yield at, _document(line, path, at)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None


def _document(line: bytes, path: Path, at: int) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{path}:{at} is no JSON: {error}; remove the line") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}:{at} is no JSON object; remove the line")
    return document
