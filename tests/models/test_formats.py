"""Any damage to a weight file is found from its header, with numbers, before it is mapped."""

import json
import pickle
import shutil
import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from tests.models.conftest import write_folder, write_gguf

from outpace.errors import ModelCorrupt, ModelUnsupported, OutpaceError, UnsafeFile
from outpace.models.formats.check import file_kind
from outpace.models.formats.gguf_header import read_gguf
from outpace.models.formats.safetensors_header import read_index, read_safetensors, read_shards


def safetensors_bytes(header: object, data: bytes = b"") -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def tensor(begin: int, end: int, shape: list[int], dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def patch(path: Path, find: bytes, new: bytes) -> None:
    """Overwrite the first occurrence of `find`, keeping the length."""
    data = path.read_bytes()
    assert find in data
    assert len(find) == len(new)
    path.write_bytes(data.replace(find, new, 1))


def test_a_gguf_header_reads_as_the_gguf_package_reads_it(gguf_file: Path) -> None:
    header, theirs = read_gguf(gguf_file), gguf.GGUFReader(gguf_file)
    for tensor_ in theirs.tensors:
        ours = next(t for t in header.tensors if t.name == tensor_.name)
        assert ours.shape == tuple(int(n) for n in tensor_.shape[::-1])
        assert (ours.dtype, ours.offset_bytes) == (tensor_.tensor_type.name, tensor_.data_offset)
        assert ours.n_bytes == tensor_.n_bytes
    fields = {k: f.contents() for k, f in theirs.fields.items() if not k.startswith("GGUF.")}
    assert header.metadata == fields
    assert header.metadata["tokenizer.ggml.tokens"] == ["a", "b", "é", "<|end|>"]


def test_every_truncation_of_a_gguf_is_found(gguf_file: Path, tmp_path: Path) -> None:
    data = gguf_file.read_bytes()
    last = max(t.offset_bytes + t.n_bytes for t in read_gguf(gguf_file).tensors)
    cut = tmp_path / "cut.gguf"
    for size in [*range(0, 900, 7), last // 2, last - 1]:
        cut.write_bytes(data[:size])
        with pytest.raises(ModelCorrupt, match=r"cut short|damaged|empty"):
            read_gguf(cut)


def test_a_cut_gguf_is_told_how_many_bytes_are_missing(gguf_file: Path) -> None:
    last = max(t.offset_bytes + t.n_bytes for t in read_gguf(gguf_file).tensors)
    gguf_file.write_bytes(gguf_file.read_bytes()[: last - 5])
    with pytest.raises(
        ModelCorrupt, match=rf"ends at byte {last}, .*{last - 5} bytes \(5 missing\)"
    ):
        read_gguf(gguf_file)


@pytest.mark.parametrize(
    ("at", "new", "error", "said"),
    [
        (0, b"GGML", ModelCorrupt, "begins with b'GGML"),
        (4, struct.pack("<I", 1), ModelUnsupported, "version 1"),
        (4, struct.pack("<I", 99), ModelUnsupported, "version 99"),
        (4, struct.pack(">I", 3), ModelUnsupported, "big-endian"),
        (8, struct.pack("<Q", 0), ModelUnsupported, "no tensors"),
        (8, struct.pack("<Q", 1 << 60), ModelCorrupt, "of 1152921504606846976"),
        (16, struct.pack("<Q", 1 << 60), ModelCorrupt, "cut short or damaged"),
        (24, struct.pack("<Q", 1 << 63), ModelCorrupt, "needs 9223372036854775808 bytes"),
    ],
)
def test_a_wrong_number_in_a_gguf_head_is_named(
    gguf_file: Path, at: int, new: bytes, error: type[OutpaceError], said: str
) -> None:
    data = bytearray(gguf_file.read_bytes())
    data[at : at + len(new)] = new
    gguf_file.write_bytes(data)
    with pytest.raises(error, match=said):
        read_gguf(gguf_file)


def info(name: str, *, dims: list[int], kind: int, offset: int) -> bytes:
    """A tensor's entry in a GGUF header."""
    return (
        struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(dims))
        + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)
    )  # fmt: skip


def field(key: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


def gguf_bytes(*infos: bytes, fields: tuple[bytes, ...] = (), data: bytes = bytes(4096)) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(fields)) + b"".join((*fields, *infos))
    return head + bytes(-len(head) % 32) + data


F32, Q8_0 = 0, 8
GOOD = info("a", dims=[32, 4], kind=F32, offset=0)


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        (gguf_bytes(GOOD, info("b", dims=[32], kind=F32, offset=480)), ModelCorrupt, "inside 'a'"),
        (gguf_bytes(GOOD, info("a", dims=[32], kind=F32, offset=512)), ModelCorrupt, "twice"),
        (gguf_bytes(info("a", dims=[32], kind=F32, offset=20)), ModelCorrupt, "multiple of 32"),
        (gguf_bytes(info("a", dims=[33, 2], kind=Q8_0, offset=0)), ModelCorrupt, "rows of 33"),
        (gguf_bytes(info("a", dims=[32], kind=77, offset=0)), ModelUnsupported, "type number 77"),
        (gguf_bytes(info("a", dims=[1] * 5, kind=F32, offset=0)), ModelCorrupt, "5 dimensions"),
        (gguf_bytes(info("a", dims=[1 << 62] * 4, kind=0, offset=0)), ModelCorrupt, "cut short"),
        (gguf_bytes(GOOD, fields=(field("k", 99, b""),)), ModelCorrupt, "value type 99"),
        (gguf_bytes(GOOD, fields=(field("k", 0, b"x"),) * 2), ModelCorrupt, "appears twice"),
        (
            gguf_bytes(GOOD, fields=(field("k", 8, struct.pack("<Q", 2) + b"\xff\xfe"),)),
            ModelCorrupt,
            "not UTF-8",
        ),
        (
            gguf_bytes(GOOD, fields=(field("k", 9, struct.pack("<IQ", 8, 1 << 61)),)),
            ModelCorrupt,
            "needs 18446744073709551616 bytes",
        ),
        (
            gguf_bytes(GOOD, fields=(field("k", 9, struct.pack("<IQ", 9, 1) * 6),)),
            ModelCorrupt,
            "nests arrays",
        ),
        (
            gguf_bytes(GOOD, fields=(field("general.alignment", 4, struct.pack("<I", 24)),)),
            ModelCorrupt,
            "general.alignment is 24",
        ),
        (
            gguf_bytes(GOOD, fields=(field("split.count", 2, struct.pack("<H", 3)),)),
            ModelUnsupported,
            "one of 3 parts",
        ),
    ],
)
def test_an_inconsistent_gguf_is_named(
    tmp_path: Path, content: bytes, error: type[OutpaceError], said: str
) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(error, match=said):
        read_gguf(path)


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
        (safetensors_bytes({"a": tensor(0, 8, [-2])}, bytes(8)), ModelCorrupt, r"shape \[-2\]"),
        (safetensors_bytes({"a": tensor(0, 8, [True])}, bytes(8)), ModelCorrupt, "shape"),
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


def test_a_header_that_begins_like_a_pickle_is_still_safetensors(tmp_path: Path) -> None:
    """A header of 0x0280 bytes makes the file begin with the two bytes of a protocol-2 pickle."""
    path = tmp_path / "x.safetensors"
    raw = json.dumps({"a": tensor(0, 4, [1])}).encode().ljust(0x280)
    path.write_bytes(safetensors_bytes(raw, bytes(4)))
    assert path.read_bytes()[:2] == b"\x80\x02"
    assert read_safetensors(path).tensors[0].shape == (1,)


@pytest.mark.parametrize("name", ["x.bin", "x.pt", "x.safetensors", "x.gguf", "x"])
@pytest.mark.parametrize("how", ["protocol2", "protocol4", "zip"])
def test_a_pickle_is_refused_whatever_its_name(tmp_path: Path, name: str, how: str) -> None:
    path = tmp_path / name
    if how == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model/data.pkl", pickle.dumps({}))
    else:
        path.write_bytes(pickle.dumps({"a": 1.5}, protocol=int(how[-1])))
    with pytest.raises(UnsafeFile, match=r"safetensors and GGUF.*save_pretrained"):
        file_kind(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"", "empty"),
    ],
)
def test_what_often_lies_in_place_of_weights_is_recognised(
    tmp_path: Path, content: bytes, said: str
) -> None:
    for name in ("x.gguf", "x.safetensors"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelCorrupt, match=said):
            file_kind(tmp_path / name)


def write_shards(root: Path) -> Path:
    """Two shards of one tensor each, with their index; returns the index path."""
    save_file({"a": np.zeros(2, np.float32)}, root / "model-00001-of-00002.safetensors")
    save_file({"b": np.zeros(2, np.float32)}, root / "model-00002-of-00002.safetensors")
    index = root / "model.safetensors.index.json"
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    index.write_text(json.dumps({"weight_map": names}))
    return index


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


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), which=st.sampled_from(["gguf", "safetensors"]))
def test_random_damage_is_read_or_refused_by_name(
    data: st.DataObject, which: str, tmp_path: Path
) -> None:
    path = tmp_path / f"fuzz.{which}"
    if which == "gguf":
        good = write_gguf(path).read_bytes()
        path.unlink()
    else:
        good = (write_folder(tmp_path / "f") / "model.safetensors").read_bytes()
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, min(len(good), 900) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(good))) if data.draw(st.booleans()) else len(good)
    path.write_bytes(damaged[:cut])
    with suppress(OutpaceError):
        read_gguf(path) if which == "gguf" else read_safetensors(path)
