"""Read a GGUF header with every length checked before it is believed.

The `gguf` package's reader trusts the file and fails with raw numpy errors on a damaged one, and
it makes an array object per string, which takes seconds on a vocabulary of 262,144. This reader
checks as it goes and leaves to the package what it is good at: block sizes and dequantization.
Format: the GGUF specification, versions 2 and 3, little-endian.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from outpace.errors import ModelCorrupt, ModelUnsupported
from outpace.models.formats.check import TensorSpan, check_spans, file_kind

GgufValue = str | int | float | bool | list["GgufValue"]

# GGUF value type -> (struct letter, bytes); 8 is a string, 9 an array.
_SCALARS: Final = {
    0: ("B", 1), 1: ("b", 1), 2: ("H", 2), 3: ("h", 2), 4: ("I", 4), 5: ("i", 4),
    6: ("f", 4), 7: ("?", 1), 10: ("Q", 8), 11: ("q", 8), 12: ("d", 8),
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_U64: Final = struct.Struct("<Q")
_MAX_ARRAY_DEPTH = 4
_MAX_DIMS = 4  # ggml's GGML_MAX_DIMS
_MAX_ALIGNMENT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """Everything before the tensor data: fields as plain Python values, tensors as spans."""

    version: int
    metadata: dict[str, GgufValue]
    tensors: tuple[TensorSpan, ...]
    data_start_bytes: int


class _Cursor:
    """A position in the mapped file that never reads past its end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.at, self.size = path, data, 0, len(data)

    def take(self, n_bytes: int, what: str) -> int:
        """Step over n_bytes and return where they began."""
        start = self.at
        if n_bytes > self.size - start:
            raise ModelCorrupt(
                f"{self.path} is cut short or damaged: {what} at byte {start} needs {n_bytes} "
                f"bytes, {self.size - start} are left of {self.size}; download it again"
            )
        self.at = start + n_bytes
        return start

    def u32(self, what: str) -> int:
        return int.from_bytes(self.data[self.take(4, what) : self.at], "little")

    def u64(self, what: str) -> int:
        return int(_U64.unpack_from(self.data, self.take(8, what))[0])

    def text(self, what: str) -> str:
        start = self.take(self.u64(what), what)
        try:
            return self.data[start : self.at].decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelCorrupt(
                f"{self.path} is damaged: {what} at byte {start} is not UTF-8 ({error.reason})"
            ) from error

    def value(self, kind: int, what: str, depth: int = 0) -> GgufValue:
        if kind == _STRING:
            return self.text(what)
        if kind == _ARRAY:
            return self.array(what, depth)
        if kind not in _SCALARS:
            raise ModelCorrupt(
                f"{self.path} is damaged: {what} has value type {kind}; types 0 to 12 are defined"
            )
        letter, n_bytes = _SCALARS[kind]
        found: GgufValue = struct.unpack_from("<" + letter, self.data, self.take(n_bytes, what))[0]
        return found

    def array(self, what: str, depth: int) -> GgufValue:
        kind, count = self.u32(what), self.u64(what)
        if depth >= _MAX_ARRAY_DEPTH:
            raise ModelCorrupt(f"{self.path}: {what} nests arrays deeper than {_MAX_ARRAY_DEPTH}")
        if kind in _SCALARS:
            letter, n_bytes = _SCALARS[kind]
            start = self.take(n_bytes * count, what)
            return list(struct.unpack_from(f"<{count}{letter}", self.data, start))
        if count > (self.size - self.at) // 8:  # a string or array takes 8 bytes at the very least
            self.take(8 * count, what)
        return [self.value(kind, what, depth + 1) for _ in range(count)]


def read_gguf(path: Path) -> GgufHeader:
    """Read and check one GGUF file's header; tensor data is not touched.

    Raises ModelCorrupt (with the numbers found and expected), ModelUnsupported (another version,
    byte order, quantization, or one part of a split file), UnsafeFile, ModelNotFound.
    """
    if file_kind(path) != "gguf":
        raise ModelUnsupported(f"{path} is a safetensors file where a GGUF file is expected")
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        cursor = _Cursor(path, data)
        cursor.take(4, "the magic number")
        version = _version(path, cursor.u32("the version"))
        n_tensors, n_fields = cursor.u64("the tensor count"), cursor.u64("the field count")
        metadata = _fields(cursor, n_fields)
        _refuse_split(path, metadata)
        infos = _tensor_infos(cursor, n_tensors)
        alignment = _alignment(path, metadata)
        start = -(-cursor.at // alignment) * alignment
    tensors = tuple(_span(path, info, start=start, alignment=alignment) for info in infos)
    check_spans(path, tensors)
    return GgufHeader(version=version, metadata=metadata, tensors=tensors, data_start_bytes=start)


def _version(path: Path, version: int) -> int:
    if version in (2, 3):
        return version
    if int.from_bytes(version.to_bytes(4, "little"), "big") in (2, 3):
        raise ModelUnsupported(f"{path} is a big-endian GGUF file; convert it to little-endian")
    raise ModelUnsupported(
        f"{path} is GGUF version {version}; versions 2 and 3 are read: convert it again"
    )


def _fields(cursor: _Cursor, count: int) -> dict[str, GgufValue]:
    metadata: dict[str, GgufValue] = {}
    for index in range(count):
        key = cursor.text(f"the name of field {index} of {count}")
        if key in metadata:
            raise ModelCorrupt(f"{cursor.path} is damaged: field {key!r} appears twice")
        metadata[key] = cursor.value(cursor.u32(f"field {key!r}"), f"field {key!r}")
    return metadata


def _refuse_split(path: Path, metadata: dict[str, GgufValue]) -> None:
    parts = metadata.get("split.count", 0)
    if isinstance(parts, int) and parts > 1:
        raise ModelUnsupported(
            f"{path} is one of {parts} parts of a split GGUF; merge them first "
            f"(llama.cpp: `llama-gguf-split --merge FIRST_PART OUT.gguf`)"
        )


def _alignment(path: Path, metadata: dict[str, GgufValue]) -> int:
    found = metadata.get("general.alignment", 32)
    if isinstance(found, int) and 0 < found <= _MAX_ALIGNMENT and found & (found - 1) == 0:
        return found
    raise ModelCorrupt(
        f"{path} is damaged: general.alignment is {found!r}; a power of two up to "
        f"{_MAX_ALIGNMENT} is allowed"
    )


def _tensor_infos(cursor: _Cursor, count: int) -> list[tuple[str, tuple[int, ...], int, int]]:
    """(name, shape outermost first, type number, offset from the data's start) of every tensor."""
    if count == 0:
        raise ModelUnsupported(f"{cursor.path} holds no tensors (a vocabulary-only file?)")
    infos = []
    for index in range(count):
        what = f"tensor {index} of {count}"
        name, n_dims = cursor.text(what), cursor.u32(what)
        if n_dims > _MAX_DIMS:
            raise ModelCorrupt(
                f"{cursor.path} is damaged: tensor {name!r} has {n_dims} dimensions, "
                f"at most {_MAX_DIMS} are allowed"
            )
        sizes = tuple(cursor.u64(what) for _ in range(n_dims))  # innermost first
        infos.append((name, sizes[::-1], cursor.u32(what), cursor.u64(what)))
    return infos


def _span(
    path: Path, info: tuple[str, tuple[int, ...], int, int], *, start: int, alignment: int
) -> TensorSpan:
    name, shape, type_number, offset = info
    try:
        kind = GGMLQuantizationType(type_number)
    except ValueError:
        raise ModelUnsupported(
            f"{path}: tensor {name!r} has type number {type_number}, unknown to the installed gguf "
            f"package; the file is damaged, or upgrade the package"
        ) from None
    block_values, block_bytes = GGML_QUANT_SIZES[kind]
    row_values = shape[-1] if shape else 1
    if offset % alignment or row_values % block_values:
        raise ModelCorrupt(
            f"{path} is damaged: tensor {name!r} ({kind.name}, shape {list(shape)}) has offset "
            f"{offset} and rows of {row_values} values; the offset must be a multiple of "
            f"{alignment}, a row of {block_values}"
        )
    n_values = 1
    for size in shape:
        n_values *= size
    return TensorSpan(
        name=name,
        dtype=kind.name,
        shape=shape,
        path=path,
        offset_bytes=start + offset,
        n_bytes=n_values // block_values * block_bytes,
    )
