"""A digest names the bytes: the same files elsewhere agree, any other byte differs."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from outpace.models.fetch import PullStep
from outpace.models.lineage import file_sha256, manifest, target_digest
from outpace.models.resolve import resolve


def test_the_manifest_holds_every_file_and_is_json(folder: Path) -> None:
    found = json.loads(json.dumps(manifest(resolve(str(folder)))))
    path = folder / "model.safetensors"
    n_header = int.from_bytes(path.read_bytes()[:8], "little")
    assert found["weights"] == [
        {
            "file": "model.safetensors",
            "bytes": path.stat().st_size,
            "sha256": sha256(path.read_bytes()).hexdigest(),
            "header_sha256": sha256(path.read_bytes()[8 : 8 + n_header]).hexdigest(),
        }
    ]
    assert set(found["files"]) == {"config.json", "tokenizer.json"}
    assert str(folder) not in json.dumps(found)


def test_the_digest_follows_the_bytes_and_not_the_place(folder: Path, tmp_path: Path) -> None:
    first = target_digest(resolve(str(folder)))
    assert len(first) == 16
    moved = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    assert target_digest(resolve(str(moved))) == first
    (moved / "tokenizer.json").write_text('{"a": 1}')
    assert target_digest(resolve(str(moved))) != first
    save_file({"a": np.ones(2, np.float32)}, folder / "model.safetensors")
    assert target_digest(resolve(str(folder))) != first


def test_a_digest_is_remembered_until_the_file_changes(gguf_file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    steps: list[PullStep] = []
    first = file_sha256(gguf_file, cache, steps.append)
    assert first == sha256(gguf_file.read_bytes()).hexdigest()
    assert steps[-1].done_bytes == steps[-1].total_bytes == gguf_file.stat().st_size
    steps.clear()
    assert file_sha256(gguf_file, cache, steps.append) == first
    assert steps == []
    gguf_file.write_bytes(gguf_file.read_bytes()[:-1] + b"!")
    assert file_sha256(gguf_file, cache, steps.append) != first


def test_a_damaged_note_and_a_closed_cache_do_no_harm(gguf_file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = file_sha256(gguf_file, cache)
    for note in (cache / "digests").iterdir():
        note.write_text('{"key": [')
    assert file_sha256(gguf_file, cache) == first
    (tmp_path / "file").write_text("x")
    assert file_sha256(gguf_file, tmp_path / "file") == first
