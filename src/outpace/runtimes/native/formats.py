"""Weight formats: what each does to the tensors of a file, and which one `auto` takes.

    fp32, bf16   every matrix in that type
    q8           the file's own blocks as they are; everything else rounded to blocks of 8 bits
    q4           layer matrices: the file's 4-bit blocks as they are, everything else rounded to
                 4 bits; embedding and head as in q8
    q8-fine, q4-fine
                 the same weights; a pass rounds its own rows to 15 bits instead of 8 before it
                 multiplies: close to bf16's truth, and many rows cost more (compiled kernels)

A format is part of the target's identity: another format is another model, if only by a little.
How little is measured (`MEASURED_KL`), and `auto` takes nothing above `KL_BOUND`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from outpace.errors import ConfigError
from outpace.models.weights import Weights
from outpace.runtimes.native.spec.model import ModelSpec
from outpace.runtimes.native.spec.names import Names, Role, expected_shapes

Format = Literal["fp32", "bf16", "q8", "q4"]
Backend = Literal["compiled", "torch"]
FORMATS: Final[tuple[Format, ...]] = ("fp32", "bf16", "q8", "q4")
FINE: Final[Mapping[str, Format]] = {"q8-fine": "q8", "q4-fine": "q4"}
FOUR_BITS: Final = ("Q4_0", "Q4_1", "Q4_K")
EIGHT_BITS: Final = ("Q5_0", "Q5_1", "Q5_K", "Q8_0", "Q6_K")
KL_BOUND: Final = 0.02
"""Nats a token, against fp32 on the same weights; above it a format is never taken by itself."""
MEASURED_KL: Final[Mapping[tuple[Backend, Format], float]] = {
    ("torch", "fp32"): 0.0,
    ("torch", "bf16"): 0.0007,
    ("torch", "q8"): 0.0020,
    ("torch", "q4"): 0.0008,
    ("compiled", "fp32"): 0.0,
    ("compiled", "bf16"): 0.0001,
    ("compiled", "q8"): 0.0044,
    ("compiled", "q4"): 0.0032,
}
"""By `benchmarks/precision.py` on SmolLM2-135M and English prose: q4 on the blocks of its file, q8
on the same weights as plain values. `auto` never rounds plain weights to 4 bits."""
MATRIX_PARTS: Final = ("embed", "head", "q", "k", "v", "o", "gate", "up", "down")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A weight format, and why it was taken. fine: rows are rounded to 15 bits, not 8."""

    format: Format
    reason: str
    fine: bool = False

    @property
    def name(self) -> str:
        """As it is asked for."""
        return (
            next(name for name in FINE if FINE[name] == self.format) if self.fine else self.format
        )


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
        plain = FINE.get(asked, asked)
        if plain not in FORMATS:
            raise ConfigError(f"weights {asked!r}; allowed: auto, {', '.join((*FORMATS, *FINE))}")
        if device != "cpu" and plain in ("q8", "q4"):
            raise ConfigError(f"weights {asked!r} run on a CPU only; on {device} use fp32 or bf16")
        if asked in FINE and backend != "compiled":
            raise ConfigError(
                f"weights {asked!r} need the compiled kernels, and this model runs on {backend}, "
                f"which rounds no rows; use {plain}, or see `outpace doctor`"
            )
        return Choice(format=plain, reason="asked for", fine=asked in FINE)
    if device != "cpu":
        return Choice(format="bf16", reason=f"the fast type of {device}")
    return next(
        choice
        for choice in _preferred(list(types.items()), backend)
        if MEASURED_KL[backend, choice.format] <= KL_BOUND
    )


def _preferred(types: list[tuple[Role, str]], backend: Backend) -> Iterator[Choice]:
    """What a CPU would like best first; fp32, which loses nothing, last."""
    if all(kind in FOUR_BITS for role, kind in types if role.layer is not None):
        yield Choice(format="q4", reason="the file's own 4-bit blocks")
    if any(kind in FOUR_BITS or kind in EIGHT_BITS for _, kind in types):
        yield Choice(format="q8", reason="the file's own blocks")
    elif backend == "compiled":
        yield Choice(format="q8", reason="plain weights, which 8 bits hold almost as well")
    yield Choice(format="bf16", reason="plain weights, and torch is fast in bf16")
    yield Choice(format="fp32", reason="nothing smaller is close enough")
