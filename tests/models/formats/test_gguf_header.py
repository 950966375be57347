"""A damaged GGUF file is found from its header, with the numbers, before it is mapped."""

import struct
from pathlib import Path

import gguf
import pytest

from outpace.errors import ModelCorrupt, ModelUnsupported, OutpaceError
from outpace.models.formats.gguf_header import read_gguf


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
