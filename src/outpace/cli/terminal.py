"""What people see on stderr: lines, progress, and answers to questions."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from outpace.errors import RequestError
from outpace.models.catalog import Terms
from outpace.models.fetch import PullStep

# A prompt larger than any model's context is a mistake, most likely the wrong file.
_MAX_STDIN_BYTES = 64 << 20


def console() -> Console:
    """A console on today's stderr (tests replace it)."""
    return Console(stderr=True, soft_wrap=True, highlight=False)


def say(markup: str, plain: str = "") -> None:
    """A line on stderr: `markup` is rich's own, `plain` is shown as it is."""
    console().print(markup + escape(plain))


def print_json(document: object) -> None:
    """The one document of --json, on stdout."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def read_stdin() -> str:
    """All of stdin as UTF-8.

    Raises:
        RequestError: not UTF-8 (says where), or absurdly large.
    """
    data = sys.stdin.buffer.read(_MAX_STDIN_BYTES + 1)
    if len(data) > _MAX_STDIN_BYTES:
        raise RequestError(
            f"stdin holds more than {_MAX_STDIN_BYTES >> 20} MiB; no model reads that"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(
            f"stdin is not UTF-8: byte {data[error.start]:#04x} at offset {error.start}; "
            "convert the text first (for example with iconv)"
        ) from None


@contextmanager
def pull_progress() -> Iterator[Callable[[PullStep], None]]:
    """A progress bar for downloads that appears with the first byte."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console(),
        transient=True,
    )
    tasks: dict[str, object] = {}

    def show(step: PullStep) -> None:
        if step.phase not in tasks:
            bar.start()
            tasks[step.phase] = bar.add_task(step.phase, total=step.total_bytes)
        bar.update(
            tasks[step.phase],  # type: ignore[arg-type]  # rich's TaskID is an int newtype
            completed=step.done_bytes,
            total=step.total_bytes,
        )

    try:
        yield show
    finally:
        bar.stop()


def accept_terms(*, yes: bool) -> Callable[[Terms], bool]:
    """Shows a licence and asks; `yes` answers for the user, no terminal means no."""

    def ask(terms: Terms) -> bool:
        say("[bold]Terms of this model:[/] ", f"{terms.title}, {terms.url}")
        if yes:
            return True
        if not sys.stdin.isatty():
            return False
        console().print("Accept? [y/N] ", end="")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    return ask


def free_path(path: Path) -> Path:
    """A file that can be written: its folder exists and it is not a folder.

    Raises:
        RequestError: says what is wrong with it.
    """
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise RequestError(f"cannot write {path}: it must be a file in a folder that exists")
    return path
