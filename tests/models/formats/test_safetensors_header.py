"""A damaged safetensors file or set of shards is found from its headers, with numbers."""

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from models.tiny import safetensors_bytes, tensor, write_shards
from outpace.errors import ModelCorrupt, ModelUnsupported, OutpaceError
from outpace.models.formats.safetensors_header import read_index, read_safetensors, read_shards


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        (b"\xff" * 7, ModelCorrupt, "7 bytes"),
        (struct.pack("<Q", 1 << 40) + b"{", ModelCorrupt, "safetensors header is expected"),
        (struct.pack("<Q", 500) + b"{}", ModelCorrupt, "needs 500 bytes, 2 follow"),
        (safetensors_bytes(b'{"a": '), ModelCorrupt, "JSON"),
        (safetensors_bytes(b'{"a": "\xff"}'), ModelCorrupt, "JSON"),
        (safetensors_bytes(b'{"a":' * 9999 + b"}" * 9999), ModelCorrupt, "JSON"),
        (safetensors_bytes({"a": 3}), ModelCorrupt, "described by 3"),
        (safetensors_bytes({"__metadata__": {"a": 1}}), ModelCorrupt, "__metadata__"),
        (safetensors_bytes({"a": tensor(0, 8, [3])}, bytes(8)), ModelCorrupt, "12 bytes.*give 8"),
        (safetensors_bytes({"a": tensor(0, 8, [-1, -2])}, bytes(8)), ModelCorrupt, r"\[-1, -2\]"),
        (safetensors_bytes({"a": tensor(-8, 0, [2])}), ModelCorrupt, r"data_offsets \[-8, 0\]"),
        (safetensors_bytes({"a": tensor(0, 8, [True, 2])}, bytes(8)), ModelCorrupt, "True"),
        (safetensors_bytes({"a": tensor(8, 0, [2])}, bytes(8)), ModelCorrupt, "give -8"),
        (safetensors_bytes({"a": tensor(0, 8, [2], "Z9")}, bytes(8)), ModelUnsupported, "'Z9'"),
        (safetensors_bytes({"a": tensor(0, 8, [2])}, bytes(7)), ModelCorrupt, "1 missing"),
        (safetensors_bytes({"a": tensor(0, 8, [2])}, bytes(9)), ModelCorrupt, "cover 8 bytes"),
        (
            safetensors_bytes({"a": tensor(0, 8, [2]), "b": tensor(4, 12, [2])}, bytes(16)),
            ModelCorrupt,
            "inside 'a'",
        ),
        (
            safetensors_bytes({"a": tensor(0, 8, [2]), "b": tensor(12, 20, [2])}, bytes(20)),
            ModelCorrupt,
            "cover 16 bytes, the file holds 20",
        ),
        (
            safetensors_bytes(b'{"a":{"dtype":"F32","dtype":"F16"}}'),
            ModelCorrupt,
            "appears twice",
        ),
    ],
)
def test_a_damaged_safetensors_is_named(
    tmp_path: Path, content: bytes, error: type[OutpaceError], said: str
) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(error, match=said):
        read_safetensors(path)


def test_an_index_must_be_complete_both_ways(tmp_path: Path) -> None:
    index = write_shards(tmp_path)
    paths = [tmp_path / shard for shard in sorted(set(read_index(index).values()))]
    assert [span.name for span in read_shards(paths, index)] == ["a", "b"]
    save_file({"x": np.zeros(2, np.float32)}, paths[1])
    with pytest.raises(ModelCorrupt, match=r"2 tensors, 1 are in no shard \(first: 'b'\)"):
        read_shards(paths, index)
    paths[1].unlink()
    with pytest.raises(ModelCorrupt, match="1 of 2 shards are missing"):
        read_index(index)


def test_one_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    write_shards(tmp_path)
    paths = sorted(tmp_path.glob("*.safetensors"))
    shutil.copy(paths[0], paths[1])
    with pytest.raises(ModelCorrupt, match="must be in one shard"):
        read_shards(paths, None)


@pytest.mark.parametrize("shard", ["../x.safetensors", "/etc/passwd", "a\\b", 3, ""])
def test_an_index_cannot_point_out_of_its_folder(tmp_path: Path, shard: object) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": shard}}))
    with pytest.raises(ModelCorrupt, match="outside its folder"):
        read_index(index)
