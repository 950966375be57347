"""Where a pass goes: matrices, attention, the rest, beside the floor that memory sets.

A pass of few rows can take no less than reading its weights, and the keys and values of its
context, once (the roofline of Williams et al. 2009, at its left end). How far above that floor a
pass lies, and in which part, tells what is left to gain, and how much a guess's row costs.
"""

import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch

from outpace.errors import ConfigError
from outpace.runtimes.native.load import Loaded
from outpace.runtimes.native.passes import Decoder, Pass

PARTS = ("matrices", "attention", "rest")
_MATRICES = frozenset({"qkv", "o", "gate", "down", "head"})
_ATTENTION = frozenset({"place", "attend"})
_CHUNK_TOKENS = 512
_PROBE_BYTES = 1 << 28
_TIMED, _DISSECTED = 30, 10
# Torch's own names for products of a row with a matrix; batched products are attention's.
_TORCH_MATRICES = ("linear", "addmm", "::mm", "packed", "_pack", "mv")
_TORCH_ATTENTION = ("bmm", "index_copy", "index_select", "exp", "amax")


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """One kind of pass. Seconds are medians; parts add up to `pass_s`.

    floor_s: to read the bytes once at `bytes_per_s`, as measured here and now.
    """

    rows: int
    context_tokens: int
    pass_s: float
    parts_s: dict[str, float]
    weight_bytes: int
    kv_bytes: int
    bytes_per_s: float

    @property
    def floor_s(self) -> float:
        """Seconds to read weights, keys and values once."""
        return (self.weight_bytes + self.kv_bytes) / self.bytes_per_s

    @property
    def times_floor(self) -> float:
        """How many times the floor the pass takes."""
        return self.pass_s / self.floor_s


def dissect(loaded: Loaded, *, rows: Seq[int], context_tokens: int) -> list[Anatomy]:
    """Measure passes of so many rows after a context of random tokens.

    Raises:
        ConfigError: the context does not fit the model, or its pool of pages.
    """
    decoder, most = loaded.decoder, max(rows)
    room = min(loaded.spec.context_tokens, decoder.n_pages * decoder.page_size)
    if min(rows) < 1 or context_tokens < 0 or context_tokens + most > room:
        raise ConfigError(
            f"{most} rows after {context_tokens} tokens; the model and its memory take "
            f"{room} together, and at least 1 row"
        )
    tokens = np.random.default_rng(0).integers(loaded.spec.vocab_size, size=context_tokens + most)
    for start in range(0, context_tokens, _CHUNK_TOKENS):
        end = min(start + _CHUNK_TOKENS, context_tokens)
        decoder.forward(_chain(decoder, tokens[start:end], start, ()))
    bandwidth = _bytes_per_s(loaded)
    return [_measured(loaded, tokens, n, context_tokens, bandwidth) for n in rows]


def _measured(
    loaded: Loaded, tokens: np.ndarray, n: int, context: int, bytes_per_s: float
) -> Anatomy:
    decoder = loaded.decoder
    one = _chain(decoder, tokens[context : context + n], context, range(n))
    pass_s = median(_seconds(lambda: decoder.forward(one)) for _ in range(_TIMED))
    parts = [_parts(decoder, one) for _ in range(_DISSECTED)]
    found = {part: median(p[part] for p in parts) for part in PARTS}
    scale = pass_s / max(sum(found.values()), 1e-12)  # looking costs a little, alike everywhere
    return Anatomy(
        rows=n,
        context_tokens=context,
        pass_s=pass_s,
        parts_s={part: seconds * scale for part, seconds in found.items()},
        weight_bytes=loaded.weight_bytes,
        kv_bytes=loaded.kv_bytes_per_token * context,
        bytes_per_s=bytes_per_s,
    )


def _chain(decoder: Decoder, tokens: np.ndarray, start: int, asked: Seq[int]) -> Pass:
    """Rows of one sequence that follow each other, on pages in order."""
    n = len(tokens)
    pages = np.arange(-(-(start + n) // decoder.page_size), dtype=np.int32)
    return Pass(
        tokens_R=tokens.astype(np.int32),
        positions_R=np.arange(start, start + n, dtype=np.int32),
        parents_R=np.arange(-1, n - 1, dtype=np.int32),
        starts_S1=np.array([0, n], np.int32),
        n_cached_S=np.array([start], np.int32),
        tables_SP=pages[None],
        asked_A=np.array(asked, np.int32),
        logits=False,
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _parts(decoder: Decoder, rows: Pass) -> dict[str, float]:
    profile: Callable[[Pass], dict[str, float]] | None = getattr(decoder, "profile", None)
    if profile is None:
        return _torch_parts(decoder, rows)
    found = dict.fromkeys(PARTS, 0.0)
    for phase, seconds in profile(rows).items():
        in_matrices, in_attention = phase in _MATRICES, phase in _ATTENTION
        found["matrices" if in_matrices else "attention" if in_attention else "rest"] += seconds
    return found


def _torch_parts(decoder: Decoder, rows: Pass) -> dict[str, float]:
    """By the names of torch's operators; what lies between them is the rest."""
    activity = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity]) as prof:
        total = _seconds(lambda: decoder.forward(rows))
    found = dict.fromkeys(PARTS, 0.0)
    for event in prof.key_averages():
        seconds = event.self_cpu_time_total / 1e6
        if any(name in event.key for name in _TORCH_ATTENTION):
            found["attention"] += seconds
        elif any(name in event.key for name in _TORCH_MATRICES):
            found["matrices"] += seconds
    found["rest"] = max(total - sum(found.values()), 0.0)
    return found


def _bytes_per_s(loaded: Loaded) -> float:
    """What memory gives now: of the weights themselves where the decoder can read them alone."""
    read: Callable[[], float] | None = getattr(loaded.decoder, "read_weights_s", None)
    if read is not None:
        return loaded.weight_bytes / median(read() for _ in range(_TIMED))
    probe = torch.ones(_PROBE_BYTES // 8, dtype=torch.int64)
    return _PROBE_BYTES / median(_seconds(probe.sum) for _ in range(_DISSECTED))
