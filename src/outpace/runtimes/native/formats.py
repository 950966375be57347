"""Weight formats: what each does to the tensors of a file, and which one `auto` takes.

    fp32, bf16   every matrix in that type
    q8           the file's own blocks as they are; everything else rounded to blocks of 8 bits
    q4           layer matrices: the file's 4-bit blocks as they are, everything else rounded to
                 4 bits; embedding and head as in q8

A format is part of the target's identity: another format is another model, if only by a little.
How little is measured (`MEASURED_KL`), and `auto` takes nothing above `KL_BOUND`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from outpace.errors import ConfigError
from outpace.models.weights import Weights
from outpace.runtimes.native.spec.model import ModelSpec
from outpace.runtimes.native.spec.names import Names, Role, expected_shapes

Format = Literal["fp32", "bf16", "q8", "q4"]
Backend = Literal["compiled", "torch"]
FORMATS: Final[tuple[Format, ...]] = ("fp32", "bf16", "q8", "q4")
FOUR_BITS: Final = ("Q4_0", "Q4_1", "Q4_K")
EIGHT_BITS: Final = ("Q5_0", "Q5_1", "Q5_K", "Q8_0", "Q6_K")
KL_BOUND: Final = 0.02
"""Nats a token, against fp32 on the same weights; above it a format is never taken by itself."""
MATRIX_PARTS: Final = ("embed", "head", "q", "k", "v", "o", "gate", "up", "down")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A weight format, and why it was taken."""

    format: Format
    reason: str


def matrix_types(weights: Weights, names: Names, spec: ModelSpec) -> Mapping[Role, str]:
    """Storage type of every matrix the file has."""
    present = set(weights.names())
    return {
        role: weights.dtype(names.find(role))
        for role, _, _ in expected_shapes(spec)
        if role.part in MATRIX_PARTS and role.kind == "weight" and names.find(role) in present
    }


def choose_format(
    asked: str, types: Mapping[Role, str], *, backend: Backend, device: str
) -> Choice:
    """The format asked for, or for "auto" the smallest that rounds little or nothing again.

    Raises:
        ConfigError: no such format, or not on this device.
    """
    if asked != "auto":
        if asked not in FORMATS:
            raise ConfigError(f"weights {asked!r}; allowed: auto, {', '.join(FORMATS)}")
        if device != "cpu" and asked in ("q8", "q4"):
            raise ConfigError(f"weights {asked!r} run on a CPU only; on {device} use fp32 or bf16")
        return Choice(format=asked, reason="asked for")
    if device != "cpu":
        return Choice(format="bf16", reason=f"the fast type of {device}")
    blocks = sum(kind in FOUR_BITS or kind in EIGHT_BITS for kind in types.values())
    if not blocks:
        if backend == "torch":
            return Choice(format="bf16", reason="plain weights, and torch is fast in bf16")
        return Choice(format="q8", reason="plain weights, 8 bits a value are nearly free of loss")
    layers = [kind for role, kind in types.items() if role.layer is not None]
    if all(kind in FOUR_BITS for kind in layers):
        return Choice(format="q4", reason=f"the file's own blocks, {blocks} of {len(types)} kept")
    return Choice(format="q8", reason=f"the file's own blocks, {blocks} of {len(types)} kept")
