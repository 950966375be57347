"""Bytes a decoder will need, against bytes there are, before a single weight is read.

Estimates are on the high side by a few percent: a refusal that names two numbers is better than a
process killed halfway through loading.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from outpace.errors import MemoryShort
from outpace.runtimes.native.formats import EIGHT_BITS, FOUR_BITS, Format
from outpace.runtimes.native.spec.model import ModelSpec
from outpace.runtimes.native.spec.names import Role, expected_shapes

_PER_VALUE: Final = {"fp32": 4.0, "bf16": 2.0, "eight": 1.25, "four": 0.66}
_WORKSPACE_BYTES: Final = 96 << 20
_WORKSPACE_ROWS: Final = 512
_SPARE: Final = 0.02  # of what is free, left to everyone else
_AUTO_TEXTS: Final = 8  # whole contexts a pool of unstated size has room for
_AUTO_SHARE: Final = 0.5  # of the memory left after the weights it may take


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Bytes by purpose. loading: held for a moment while the largest matrix is packed."""

    weights: int
    pool: int
    workspace: int
    loading: int

    @property
    def total(self) -> int:
        """The most that is held at one time."""
        return self.weights + self.pool + self.workspace + self.loading


def kv_bytes_per_token(spec: ModelSpec, weight_format: Format) -> int:
    """Keys and values of one token over all layers: 4 bytes a value beside fp32, else 2."""
    n_bytes = 4 if weight_format == "fp32" else 2
    return 2 * spec.n_layers * spec.n_kv_heads * spec.head_dim * n_bytes


def needs(
    spec: ModelSpec, types: Mapping[Role, str], weight_format: Format, *, n_slots: int
) -> Needs:
    """What a decoder of this model will hold."""
    shapes = {role: math.prod(shape) for role, shape, _ in expected_shapes(spec)}
    weights = sum(
        shapes[role] * _PER_VALUE[_kind(role, kind, weight_format)] for role, kind in types.items()
    )
    largest = max(size for role, size in shapes.items() if role.layer is not None)
    row = spec.hidden + spec.ffn + (spec.n_heads + 2 * spec.n_kv_heads) * spec.head_dim
    return Needs(
        weights=int(weights),
        pool=n_slots * kv_bytes_per_token(spec, weight_format),
        workspace=_WORKSPACE_BYTES + 4 * (_WORKSPACE_ROWS * 4 * row + 32 * spec.vocab_size),
        loading=8 * max(largest, 16384 * spec.hidden),
    )


def _kind(role: Role, stored: str, weight_format: Format) -> str:
    if weight_format in ("fp32", "bf16"):
        return weight_format
    if stored in FOUR_BITS:
        return "four"
    if stored in EIGHT_BITS or weight_format == "q8" or role.layer is None:
        return "four" if weight_format == "q4" and role.layer is not None else "eight"
    return "four"


def check_fits(need: Needs, free_bytes: int, *, weight_format: Format) -> None:
    """Raise MemoryShort unless it all fits at once."""
    usable = int(free_bytes * (1 - _SPARE))
    if need.total > usable:
        raise MemoryShort(
            f"loading needs {need.total / 1e6:.0f} MB (weights as {weight_format} "
            f"{need.weights / 1e6:.0f}, keys and values {need.pool / 1e6:.0f}, workspace "
            f"{need.workspace / 1e6:.0f}, packing {need.loading / 1e6:.0f}), "
            f"{usable / 1e6:.0f} MB are free; take fewer pages, a smaller weight format or a "
            f"smaller model",
            needed_bytes=need.total,
            free_bytes=usable,
        )


def auto_pages(
    spec: ModelSpec, need: Needs, free_bytes: int, *, page_size: int, weight_format: Format
) -> int:
    """Pages of a pool nobody sized: a few whole contexts, within half of what is left."""
    left = free_bytes * (1 - _SPARE) - (need.total - need.pool)
    page = page_size * kv_bytes_per_token(spec, weight_format)
    wanted = -(-_AUTO_TEXTS * spec.context_tokens // page_size)
    return max(1, min(wanted, int(left * _AUTO_SHARE) // page))


def free_memory_bytes(device: str = "cpu") -> int:
    """Bytes a new allocation may take: of the device, the machine, and this container."""
    if device != "cpu":
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    found = [_available(), _container_room()]
    return min(n for n in found if n is not None) if any(found) else 1 << 62


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    values = dict(line.split(":", 1) for line in lines)
    return int(values["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in values else None


def _container_room() -> int | None:
    root = Path("/sys/fs/cgroup")
    try:
        limit = (root / "memory.max").read_text("ascii").strip()
        used = int((root / "memory.current").read_text("ascii"))
        stat = (root / "memory.stat").read_text("ascii").splitlines()
    except (OSError, ValueError):
        return None
    if limit == "max":
        return None
    counts = dict(line.split() for line in stat)
    return int(limit) - used + int(counts.get("inactive_file", 0))
