"""A model described for the kernels, and the same description as C structs."""

from ctypes import c_void_p
from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag

import numpy as np
from numpy.typing import NDArray

from outpace.errors import ModelUnsupported
from outpace.runtimes.native.kernels.matrix import Matrix
from outpace.runtimes.native.kernels.structs import LayerStruct, ModelStruct

Float32 = NDArray[np.float32]


class Fine(IntFlag):
    """Which integer products take rows rounded to 15 bits instead of 8; costs twice the products.

    One row is bound by memory and hardly notices; many rows do. Same text is same text either
    way: the choice is part of the model, not of the pass.
    """

    NONE = 0
    QKV = 1
    O = 2  # noqa: E741 - the matrix has this name everywhere
    GATE = 4
    DOWN = 8
    HEAD = 16
    ALL = 31


class KVType(IntEnum):
    """What keys and values are rounded to in the pools."""

    F32 = 0
    F16 = 1
    BF16 = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One layer. Matrices are [outputs, inputs]; vectors are fp32.

    q [heads·head_dim, hidden], k and v [kv_heads·head_dim, hidden], o [hidden, heads·head_dim],
    gate and up [ffn, hidden], down [hidden, ffn]. Gemma's norms come with their 1 already added.
    window: how many keys a row sees, itself included; 0 is all of them.
    rope: index into `ModelSpec.ropes`; -1 turns nothing.
    """

    q: Matrix
    k: Matrix
    v: Matrix
    o: Matrix
    gate: Matrix
    up: Matrix
    down: Matrix
    norm_attention: Float32
    norm_ffn: Float32
    norm_after_attention: Float32 | None = None
    norm_after_ffn: Float32 | None = None
    norm_q: Float32 | None = None
    norm_k: Float32 | None = None
    bias_q: Float32 | None = None
    bias_k: Float32 | None = None
    bias_v: Float32 | None = None
    bias_o: Float32 | None = None
    window: int = 0
    rope: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A decoder-only model of the Llama family, as the kernels see it.

    ropes: (cos, sin) tables, each fp32 [max_positions, rope_dim / 2], one per layer kind.
    rope_interleaved: pairs are (2i, 2i+1), as in GGUF's llama files; else (i, i + rope_dim/2).
    gelu: GELU (tanh form) instead of SiLU. logit_softcap: 0 for none.
    embedding_scale multiplies embeddings, attention_scale queries, logit_scale logits.
    """

    hidden: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    layers: tuple[LayerWeights, ...]
    embedding: Matrix
    head: Matrix
    norm_final: Float32
    ropes: tuple[tuple[Float32, Float32], ...]
    max_positions: int
    rope_dim: int
    eps: float
    attention_scale: float
    rope_interleaved: bool = False
    gelu: bool = False
    embedding_scale: float = 1.0
    logit_scale: float = 1.0
    logit_softcap: float = 0.0
    fine_rows: Fine = Fine.NONE


class Kept:
    """The C description of a model, and the arrays it points into while it is being read."""

    def __init__(self, spec: ModelSpec, *, page_size: int, kv_type: KVType) -> None:
        self._alive: list[object] = []
        layers = (LayerStruct * len(spec.layers))()
        for struct, layer in zip(layers, spec.layers, strict=True):
            self._fill(struct, layer, spec)
        tables = [
            (c_void_p * max(1, len(spec.ropes)))(
                *[
                    self._vector(pair[i], spec.max_positions * (spec.rope_dim // 2), "rope table")
                    for pair in spec.ropes
                ]
            )
            for i in range(2)
        ]
        self._alive += [layers, tables]
        same = ("hidden", "n_heads", "n_kv_heads", "head_dim", "ffn", "vocab", "rope_dim", "eps")
        scales = ("embedding_scale", "attention_scale", "logit_scale", "logit_softcap")
        self.model = ModelStruct(
            **{name: getattr(spec, name) for name in (*same, *scales, "max_positions")},
            n_layers=len(spec.layers),
            activation=int(spec.gelu),
            fine_rows=int(spec.fine_rows),
            rope_interleaved=int(spec.rope_interleaved),
            n_ropes=len(spec.ropes),
            page_size=page_size,
            kv_type=int(kv_type),
            embedding=spec.embedding.handle,
            head=spec.head.handle,
            norm_final=self._vector(spec.norm_final, spec.hidden, "final norm"),
            rope_cos=tables[0],
            rope_sin=tables[1],
            layers=layers,
        )

    def _fill(self, struct: LayerStruct, layer: LayerWeights, spec: ModelSpec) -> None:
        sizes = {
            "norm_q": spec.head_dim,
            "norm_k": spec.head_dim,
            "bias_q": spec.n_heads * spec.head_dim,
            "bias_k": spec.n_kv_heads * spec.head_dim,
            "bias_v": spec.n_kv_heads * spec.head_dim,
        }
        for field in fields(layer):
            value = getattr(layer, field.name)
            if isinstance(value, Matrix):
                value = value.handle
            elif isinstance(value, np.ndarray):
                value = self._vector(value, sizes.get(field.name, spec.hidden), field.name)
            setattr(struct, field.name, value)

    def _vector(self, values: Float32, n: int, name: str) -> int:
        kept = np.ascontiguousarray(values, np.float32)
        if kept.size != n:
            raise ModelUnsupported(f"{name} has {kept.size} values; the model's sizes ask for {n}")
        self._alive.append(kept)
        return kept.ctypes.data
