"""Random models small enough to run in microseconds, and what they should answer, in float64."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outpace.runtimes.native.kernels import GGML, Fine, Format, LayerWeights, Matrix, ModelSpec
from outpace.runtimes.native.passes import Pass

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiny:
    """What a random model is made of. `target`: the format its fp32 weights are rounded to."""

    hidden: int = 64
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 16
    ffn: int = 96
    vocab: int = 80
    rope_dim: int = 16
    interleaved: bool = False
    biases: bool = False
    qk_norms: bool = False
    post_norms: bool = False
    gelu: bool = False
    windows: tuple[int, ...] = (0,)  # of layer i: windows[i % len]
    ropes: tuple[int, ...] = (0,)  # likewise; there are two tables
    embedding_scale: float = 1.0
    softcap: float = 0.0
    max_positions: int = 700
    target: Format = Format.F32
    fine_rows: Fine = Fine.NONE
    seed: int = 0


LLAMA = Tiny(interleaved=True)
QWEN2 = Tiny(biases=True, n_heads=6, n_kv_heads=2)
QWEN3 = Tiny(qk_norms=True, head_dim=32, rope_dim=32)
SMOLLM3 = Tiny(ropes=(0, 0, -1), n_layers=3)
GEMMA3 = Tiny(
    qk_norms=True,
    post_norms=True,
    gelu=True,
    windows=(20, 0),
    ropes=(1, 0),
    embedding_scale=8.0,
    softcap=9.0,
    n_kv_heads=1,
)
ODD = Tiny(hidden=40, head_dim=12, rope_dim=8, n_heads=3, n_kv_heads=3, ffn=50, vocab=77)
WIDE = Tiny(n_heads=20, n_kv_heads=1, head_dim=80, rope_dim=80)
ALL = {
    "llama": LLAMA,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "smollm3": SMOLLM3,
    "gemma3": GEMMA3,
    "odd sizes": ODD,
    "many heads": WIDE,
}


class _Draw:
    """Random weights of a model, in a fixed order."""

    def __init__(self, tiny: Tiny) -> None:
        self.tiny = tiny
        self.rng = np.random.default_rng(tiny.seed)

    def vector(self, n: int, around: float = 1.0) -> Array:
        drawn: Array = (around + 0.3 * self.rng.standard_normal(n)).astype(np.float32)
        return drawn

    def maybe(self, wanted: bool, n: int, around: float = 1.0) -> Array | None:
        drawn = self.vector(n, around)
        return drawn if wanted else None

    def matrix(self, n: int, k: int) -> Matrix:
        w = (self.rng.standard_normal((n, k)) * 1.5 / np.sqrt(k)).astype(np.float32)
        return Matrix.pack(w, GGML.F32, n=n, k=k, target=self.tiny.target)

    def layer(self, i: int) -> LayerWeights:
        tiny, H = self.tiny, self.tiny.hidden
        q, kv = tiny.n_heads * tiny.head_dim, tiny.n_kv_heads * tiny.head_dim
        return LayerWeights(
            q=self.matrix(q, H),
            k=self.matrix(kv, H),
            v=self.matrix(kv, H),
            o=self.matrix(H, q),
            gate=self.matrix(tiny.ffn, H),
            up=self.matrix(tiny.ffn, H),
            down=self.matrix(H, tiny.ffn),
            norm_attention=self.vector(H),
            norm_ffn=self.vector(H),
            norm_after_attention=self.maybe(tiny.post_norms, H),
            norm_after_ffn=self.maybe(tiny.post_norms, H),
            norm_q=self.maybe(tiny.qk_norms, tiny.head_dim),
            norm_k=self.maybe(tiny.qk_norms, tiny.head_dim),
            bias_q=self.maybe(tiny.biases, q, 0.0),
            bias_k=self.maybe(tiny.biases, kv, 0.0),
            bias_v=self.maybe(tiny.biases, kv, 0.0),
            window=tiny.windows[i % len(tiny.windows)],
            rope=tiny.ropes[i % len(tiny.ropes)],
        )


def build(tiny: Tiny) -> ModelSpec:
    """The model itself. Its matrices live as long as the process; they are tiny."""
    draw = _Draw(tiny)
    return ModelSpec(
        hidden=tiny.hidden,
        n_heads=tiny.n_heads,
        n_kv_heads=tiny.n_kv_heads,
        head_dim=tiny.head_dim,
        ffn=tiny.ffn,
        vocab=tiny.vocab,
        layers=tuple(draw.layer(i) for i in range(tiny.n_layers)),
        embedding=draw.matrix(tiny.vocab, tiny.hidden),
        head=draw.matrix(tiny.vocab, tiny.hidden),
        norm_final=draw.vector(tiny.hidden),
        ropes=(_rope(tiny, 10_000.0), _rope(tiny, 500.0)),
        rope_dim=tiny.rope_dim,
        max_positions=tiny.max_positions,
        eps=1e-5,
        attention_scale=tiny.head_dim**-0.5,
        rope_interleaved=tiny.interleaved,
        gelu=tiny.gelu,
        embedding_scale=tiny.embedding_scale,
        logit_softcap=tiny.softcap,
        fine_rows=tiny.fine_rows,
    )


def _rope(tiny: Tiny, base: float) -> tuple[Array, Array]:
    turns = np.arange(0, tiny.rope_dim, 2) / max(1, tiny.rope_dim)
    angles = np.arange(tiny.max_positions)[:, None] * base**-turns
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def chain(tokens: Array, *, cached: int = 0, page_size: int = 16, first_page: int = 0) -> Pass:
    """Rows that follow each other in one sequence; all are asked for."""
    n = len(tokens)
    return tree(tokens, np.arange(-1, n - 1), cached=cached, page_size=page_size, page=first_page)


def tree(tokens: Array, parents: Array, *, cached: int, page_size: int, page: int = 0) -> Pass:
    """Rows of one sequence with these parents, on pages in order; all are asked for."""
    n, positions = len(tokens), np.zeros(len(tokens), np.int32)
    for row, parent in enumerate(parents):
        positions[row] = cached if parent < 0 else positions[parent] + 1
    n_pages = -(-(cached + n) // page_size)
    return Pass(
        tokens_R=np.asarray(tokens, np.int32),
        positions_R=positions,
        parents_R=np.asarray(parents, np.int32),
        starts_S1=np.array([0, n], np.int32),
        n_cached_S=np.array([cached], np.int32),
        tables_SP=(page + np.arange(n_pages, dtype=np.int32))[None],
        asked_A=np.arange(n, dtype=np.int32),
        logits=True,
    )


def asking(rows: Pass, *asked: int) -> Pass:
    """The same pass, with the results of fewer rows."""
    return replace(rows, asked_A=np.array(asked, np.int32))
