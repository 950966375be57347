"""A head's files: `config.json`, `head.safetensors` and a card; read, checked, and written.

Matrices lie in GGUF's blocks, so that the kernels hold them as they are. A head belongs to the
*weights* of a model: its digest is that of the model's files, without the backend and format they
run in, which only change the hidden states by rounding.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from outpace.errors import ConfigError, HeadMismatch

CONFIG, WEIGHTS, CARD = "config.json", "head.safetensors", "README.md"
FORMAT = "outpace-head-1"
EPS = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadShape:
    """Sizes. taps: layers after which the target's residual stream is read, ascending.

    hidden: width of target and head. embed: rank of the token embedding. inner, root_inner:
    widths of the two gated parts; all multiples of 32. vocab: the target's tokens; draft: those
    that can be guessed.
    """

    hidden: int
    taps: tuple[int, ...]
    embed: int
    inner: int
    root_inner: int
    vocab: int
    draft: int

    def __post_init__(self) -> None:
        sizes = {k: v for k, v in asdict(self).items() if k not in ("taps", "vocab", "draft")}
        wrong = {name: n for name, n in sizes.items() if n < 32 or n % 32}
        if wrong or not self.taps or not 0 < self.draft <= self.vocab:
            raise ConfigError(
                f"a head of {sizes}, taps {self.taps}, {self.draft} of {self.vocab} tokens; widths "
                "must be multiples of 32, with one tap at least, and no more guessed tokens than "
                "there are"
            )

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """(outputs, inputs) by name."""
        h, e = self.hidden, self.embed
        wide = h * len(self.taps) + e
        return {
            "embed": (self.vocab, e),
            "root": (h, wide),
            "root_gate": (self.root_inner, h),
            "root_up": (self.root_inner, h),
            "root_down": (h, self.root_inner),
            "step": (h, h + e),
            "gate": (self.inner, h),
            "up": (self.inner, h),
            "down": (h, self.inner),
            "out": (self.draft, h),
        }

    @property
    def n_parameters(self) -> int:
        """Of all matrices."""
        return sum(n * k for n, k in self.matrices.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadConfig:
    """What stands in `config.json`.

    target: the model's name, for people; digest: of its weights, which decides. greedy_sharpness:
    what logits are multiplied by where the target always takes the likeliest token, so that the
    head's probabilities are chances of that. blocks: GGUF type of each matrix. training: how it
    was made, in the trainer's words.
    """

    target: str
    digest: str
    shape: HeadShape
    greedy_sharpness: float = 1.0
    blocks: Mapping[str, str] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A head as read: matrices as (GGUF type, outputs, inputs, bytes), and the draft's ids."""

    config: HeadConfig
    matrices: Mapping[str, tuple[str, int, int, NDArray[np.uint8]]]
    ids_D: NDArray[np.int32]

    def values(self, name: str) -> NDArray[np.float32]:
        """One matrix as fp32 [outputs, inputs]."""
        kind, n, k, data = self.matrices[name]
        values = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
        return np.asarray(values, np.float32).reshape(n, k)

    def check_target(self, digest: str) -> None:
        """Refuse another target.

        Raises:
            HeadMismatch: the head was trained for other weights.
        """
        if weights_digest(digest) != self.config.digest:
            raise HeadMismatch(
                f"this head was trained for {self.config.target} ({self.config.digest}), and the "
                f"model here is {weights_digest(digest)}; use a head of its own, made by "
                "`outpace train`, or the drafter lookup+suffix (mix:lookup+suffix)"
            )


def weights_digest(digest: str) -> str:
    """The part of a runtime's digest that is of the weights' files."""
    return digest.partition("-")[0]


def read_config(folder: Path) -> HeadConfig:
    """A head's sizes and target, without its weights.

    Raises:
        ConfigError: no head there, or one of another format.
    """
    try:
        found = json.loads((folder / CONFIG).read_text("utf-8"))
        if found.pop("format", None) != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        shape = found.pop("shape")
        shape["taps"] = tuple(shape["taps"])
        return HeadConfig(shape=HeadShape(**shape), **found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"no head can be read from {folder}: {error}; name a folder that `outpace train` wrote"
        ) from error


def read_head(folder: Path) -> Head:
    """A head.

    Raises:
        ConfigError: none there, or its files do not fit together.
    """
    config = read_config(folder)
    try:
        tensors = load_file(folder / WEIGHTS)
        matrices = {
            name: (config.blocks[name], n, k, tensors[name])
            for name, (n, k) in config.shape.matrices.items()
        }
        ids_D = np.asarray(tensors["ids"], np.int32)
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise ConfigError(f"{folder / WEIGHTS} does not fit its config: {error}") from error
    for name, (kind, n, k, data) in matrices.items():
        row, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
        if data.shape != (n, k // row * size):
            raise ConfigError(f"{folder / WEIGHTS}: {name} is {data.shape}, not {n} x {k} {kind}")
    if len(ids_D) != config.shape.draft or ids_D.min() < 0 or ids_D.max() >= config.shape.vocab:
        raise ConfigError(f"{folder / WEIGHTS}: the ids of the draft vocabulary do not fit")
    return Head(config=config, matrices=matrices, ids_D=ids_D)


def pack(
    values: Mapping[str, NDArray[np.float32]], blocks: Mapping[str, str]
) -> dict[str, NDArray[np.uint8]]:
    """Matrices in GGUF's blocks."""
    return {
        name: np.ascontiguousarray(
            gguf.quants.quantize(np.ascontiguousarray(x), gguf.GGMLQuantizationType[blocks[name]])
        )
        for name, x in values.items()
    }


def write_head(
    folder: Path,
    config: HeadConfig,
    values: Mapping[str, NDArray[np.float32]],
    ids_D: NDArray[np.int32],
    card: str,
) -> int:
    """Write a head; returns the bytes of its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, NDArray[Any]] = {**pack(values, config.blocks), "ids": ids_D}
    save_file(tensors, folder / WEIGHTS)
    document = {"format": FORMAT, **asdict(config)}
    (folder / CONFIG).write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    (folder / CARD).write_text(card, "utf-8")
    return (folder / WEIGHTS).stat().st_size


def shipped(digest: str) -> Path | None:
    """The folder of the head that comes with the package for these weights, if one does."""
    heads = Path(str(files("outpace.drafters.head") / "shipped"))
    for config in sorted(heads.glob(f"*/{CONFIG}")):
        if read_config(config.parent).digest == weights_digest(digest):
            return config.parent
    return None


def folder_of(argument: str, digest: str) -> Path:
    """Which head `head` or `head:PATH` names for a target.

    Raises:
        ConfigError: no head comes with the package for these weights.
    """
    if argument:
        return Path(argument).expanduser()
    found = shipped(digest)
    if found is None:
        raise HeadMismatch(
            f"no head comes with outpace for these weights ({weights_digest(digest)}); train one "
            "with `outpace train` and name its folder: head:PATH"
        )
    return found
