"""Digests that say which model a result came from: weights, headers, tokenizer, config.

Two results may be compared only if these agree. Hashing gigabytes takes seconds, so the digest of
a file is remembered in the cache under its path, size, modification time and inode.
"""

import json
import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from outpace.models.fetch import Progress, digest_file
from outpace.models.files import ModelFiles
from outpace.models.formats.safetensors_header import read_safetensors

_SHORT_CHARS: Final = 16


def file_sha256(path: Path, cache_dir: Path | None = None, progress: Progress | None = None) -> str:
    """sha256 of a file in hexadecimal, remembered in `cache_dir` when one is given.

    A file replaced by one of the same path, size, inode and modification time (to the nanosecond)
    would be missed; nothing short of reading it all would notice.
    """
    if cache_dir is None:
        return digest_file(path, progress)
    stat = path.stat()
    key = [str(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ino]
    note = cache_dir / "digests" / f"{sha256(json.dumps(key).encode()).hexdigest()}.json"
    try:
        known = json.loads(note.read_text("utf-8"))
        if known["key"] == key:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not noted yet, or a damaged note: compute it
    digest = digest_file(path, progress)
    _remember(note, {"key": key, "sha256": digest})
    return digest


def _remember(note: Path, content: dict[str, object]) -> None:
    """Write the note whole or not at all; a cache that cannot be written is no reason to fail."""
    draft = note.with_suffix(f".{os.getpid()}")
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(content), "utf-8")
        draft.replace(note)
    except OSError:
        with suppress(OSError):
            draft.unlink()


def manifest(
    files: ModelFiles, *, cache_dir: Path | None = None, progress: Progress | None = None
) -> dict[str, object]:
    """What identifies a model, ready for JSON: file names, sizes in bytes and sha256 digests.

    Paths are left out on purpose: the same files elsewhere are the same model.
    """
    weights = []
    for path in files.weights:
        found: dict[str, object] = {
            "file": path.name,
            "bytes": path.stat().st_size,
            "sha256": file_sha256(path, cache_dir, progress),
        }
        if files.kind == "safetensors":
            found["header_sha256"] = sha256(read_safetensors(path).json_bytes).hexdigest()
        weights.append(found)
    side = [files.config, files.index, files.root / "generation_config.json"]
    small = [path for path in (*side, *files.tokenizer) if path is not None and path.is_file()]
    content: dict[str, object] = {
        "name": files.name,
        "kind": files.kind,
        "weights": weights,
        "files": {path.name: file_sha256(path) for path in small},
    }
    return {**content, "target_digest": _digest(content)}


def target_digest(
    files: ModelFiles, *, cache_dir: Path | None = None, progress: Progress | None = None
) -> str:
    """One short name for the manifest: 16 hexadecimal characters, wherever the files lie."""
    return str(manifest(files, cache_dir=cache_dir, progress=progress)["target_digest"])


def _digest(content: dict[str, object]) -> str:
    """Over everything but the name, which is what the user happened to type."""
    named = {key: value for key, value in content.items() if key != "name"}
    return sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:_SHORT_CHARS]
