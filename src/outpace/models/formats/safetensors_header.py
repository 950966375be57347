"""Read safetensors headers, of one file or of shards with an index, and check every number in them.

Format: 8 bytes little-endian header length, that many bytes of JSON, then the data without holes.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeGuard

from outpace.errors import ModelCorrupt, ModelUnsupported
from outpace.models.formats.check import TensorSpan, check_spans, file_kind

INDEX_NAME: Final = "model.safetensors.index.json"
_BITS: Final = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "U16": 16, "I16": 16,
    "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64,
    "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
_MAX_JSON_BYTES = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetensorsHeader:
    """One file's header: its tensors, its `__metadata__`, and the JSON as it stands on disk."""

    tensors: tuple[TensorSpan, ...]
    metadata: dict[str, str]
    json_bytes: bytes


def read_safetensors(path: Path) -> SafetensorsHeader:
    """Read and check one file's header; tensor data is not touched.

    Raises ModelCorrupt with the numbers found and expected; ModelUnsupported for an unknown dtype.
    """
    if file_kind(path) != "safetensors":
        raise ModelUnsupported(f"{path} is a GGUF file where a safetensors file is expected")
    size_bytes = path.stat().st_size
    with path.open("rb") as stream:
        (n_header,) = struct.unpack("<Q", stream.read(8))
        if n_header > size_bytes - 8:
            raise ModelCorrupt(
                f"{path} is cut short: its header needs {n_header} bytes, {size_bytes - 8} follow; "
                f"download it again"
            )
        json_bytes = stream.read(n_header)
    entries = _json_object(path, json_bytes)
    notes = entries.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(v, str) for v in notes.values()):
        raise ModelCorrupt(f"{path} is damaged: __metadata__ must map text to text")
    data_start = 8 + n_header
    tensors = tuple(_span(path, name, entry, data_start) for name, entry in entries.items())
    check_spans(path, tensors)
    described = sum(span.n_bytes for span in tensors)
    if described != size_bytes - data_start:
        raise ModelCorrupt(
            f"{path} is damaged: its tensors cover {described} bytes, the file holds "
            f"{size_bytes - data_start} bytes of data; download it again"
        )
    return SafetensorsHeader(tensors=tensors, metadata=notes, json_bytes=json_bytes)


def _span(path: Path, name: str, entry: object, data_start: int) -> TensorSpan:
    if not isinstance(entry, dict):
        raise ModelCorrupt(f"{path} is damaged: tensor {name!r} is described by {entry!r}")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not (_counts(shape) and _counts(offsets) and len(offsets) == 2):
        raise ModelCorrupt(
            f"{path} is damaged: tensor {name!r} has shape {shape!r} and data_offsets {offsets!r}; "
            f"a list of sizes and [begin, end] are expected"
        )
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise ModelUnsupported(
            f"{path}: tensor {name!r} has dtype {dtype!r}; known are {', '.join(sorted(_BITS))}"
        )
    n_bits = _BITS[dtype]
    for size in shape:
        n_bits *= size
    if n_bits % 8 or offsets[1] - offsets[0] != n_bits // 8:
        raise ModelCorrupt(
            f"{path} is damaged: tensor {name!r} ({dtype}, shape {shape}) needs {n_bits / 8:g} "
            f"bytes, its data_offsets {offsets} give {offsets[1] - offsets[0]}"
        )
    return TensorSpan(
        name=name,
        dtype=dtype,
        shape=tuple(shape),
        path=path,
        offset_bytes=data_start + offsets[0],
        n_bytes=n_bits // 8,
    )


def _counts(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _json_object(path: Path, raw: bytes) -> dict[str, object]:
    """Parse one JSON object, refusing a name that appears twice."""

    def unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name appears twice in one object")
        return found

    try:
        parsed = json.loads(raw.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ModelCorrupt(f"{path} is damaged: its JSON cannot be read ({error})") from error
    if not isinstance(parsed, dict):
        raise ModelCorrupt(f"{path} is damaged: a JSON object is expected, found {raw[:20]!r}")
    return parsed


def read_json_object(path: Path) -> dict[str, object]:
    """Read a JSON file that must hold one object, such as config.json. Raises ModelCorrupt."""
    size_bytes = path.stat().st_size
    if size_bytes > _MAX_JSON_BYTES:
        raise ModelCorrupt(f"{path} has {size_bytes} bytes; at most {_MAX_JSON_BYTES} are read")
    return _json_object(path, path.read_bytes())


def read_index(index_path: Path) -> dict[str, str]:
    """tensor name -> shard file name, from an index file; shards must lie beside it.

    Raises ModelCorrupt when it is unreadable, points out of its folder or names a missing shard.
    """
    weight_map = read_json_object(index_path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelCorrupt(f"{index_path} is damaged: it holds no weight_map")
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or not shard or Path(shard).name != shard or "\\" in shard:
            raise ModelCorrupt(
                f"{index_path}: tensor {name!r} points to {shard!r}, outside its folder"
            )
    shards = sorted(set(weight_map.values()))
    missing = [shard for shard in shards if not (index_path.parent / shard).is_file()]
    if missing:
        raise ModelCorrupt(
            f"{index_path.parent} is incomplete: {len(missing)} of {len(shards)} shards are "
            f"missing ({', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''}); download "
            "them again"
        )
    return weight_map


def read_shards(paths: Sequence[Path], index_path: Path | None) -> tuple[TensorSpan, ...]:
    """All tensors of one file or of several shards, checked and complete by the index."""
    owners = read_index(index_path) if index_path is not None else None
    spans: dict[str, TensorSpan] = {}
    for path in paths:
        for span in read_safetensors(path).tensors:
            if owners is not None and owners.get(span.name, path.name) != path.name:
                continue
            if span.name in spans:
                raise ModelCorrupt(
                    f"tensor {span.name!r} is in {spans[span.name].path.name} and in {path.name}; "
                    f"each tensor must be in one shard"
                )
            spans[span.name] = span
    absent = sorted(set(owners or ()) - set(spans))
    if absent:
        raise ModelCorrupt(
            f"{paths[0].parent} is incomplete: the index names {len(owners or ())} tensors, "
            f"{len(absent)} are in no shard (first: {absent[0]!r}); download it again"
        )
    return tuple(spans.values())
