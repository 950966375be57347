"""A model's logits computed the plain way, in float64, over the weights the kernels hold."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outpace.runtimes.native.kernels import LayerWeights, ModelSpec

Array = NDArray[Any]


def logits(spec: ModelSpec, tokens: Array, parents: Array) -> Array:
    """Of every row of a text that begins here; parents as in `Pass`, nothing cached."""
    positions, sees = _ancestry(parents)
    x = spec.embedding.rows()[tokens].astype(np.float64) * spec.embedding_scale
    for layer in spec.layers:
        a = _attend(spec, layer, _norm(spec, x, layer.norm_attention), positions, sees)
        x += a if layer.norm_after_attention is None else _norm(spec, a, layer.norm_after_attention)
        h = _norm(spec, x, layer.norm_ffn)
        gate = h @ layer.gate.rows().T
        z = 1.5957691216057308 * (gate + 0.044715 * gate**3) if spec.gelu else gate
        f = (gate / (1 + np.exp(-z)) * (h @ layer.up.rows().T)) @ layer.down.rows().T
        x += f if layer.norm_after_ffn is None else _norm(spec, f, layer.norm_after_ffn)
    y: Array = _norm(spec, x, spec.norm_final) @ spec.head.rows().T * spec.logit_scale
    if spec.logit_softcap:
        y = spec.logit_softcap * np.tanh(y / spec.logit_softcap)
    return y


def _ancestry(parents: Array) -> tuple[Array, Array]:
    n = len(parents)
    positions, sees = np.zeros(n, np.int64), np.eye(n, dtype=bool)
    for row, parent in enumerate(parents):
        if parent >= 0:
            positions[row] = positions[parent] + 1
            sees[row] |= sees[parent]
    return positions, sees


def _norm(spec: ModelSpec, x: Array, weight: Array) -> Array:
    y: Array = x / np.sqrt((x**2).mean(-1, keepdims=True) + spec.eps) * weight
    return y


def _turn(spec: ModelSpec, x: Array, rope: int, positions: Array) -> Array:
    if rope < 0:
        return x
    half, y = spec.rope_dim // 2, x.copy()
    cos, sin = (table[positions][:, None].astype(np.float64) for table in spec.ropes[rope])
    if spec.rope_interleaved:
        first, second = slice(0, spec.rope_dim, 2), slice(1, spec.rope_dim, 2)
    else:
        first, second = slice(0, half), slice(half, spec.rope_dim)
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


def _attend(spec: ModelSpec, layer: LayerWeights, h: Array, positions: Array, sees: Array) -> Array:
    heads = []
    for matrix, bias in ((layer.q, layer.bias_q), (layer.k, layer.bias_k), (layer.v, layer.bias_v)):
        y = h @ matrix.rows().T + (0 if bias is None else bias)
        heads.append(y.reshape(len(h), -1, spec.head_dim))
    q, k, v = heads
    if layer.norm_q is not None and layer.norm_k is not None:
        q, k = _norm(spec, q, layer.norm_q), _norm(spec, k, layer.norm_k)
    q, k = (_turn(spec, y, layer.rope, positions) for y in (q, k))
    group = spec.n_heads // spec.n_kv_heads
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = np.einsum("rhd,khd->hrk", q, k) * spec.attention_scale
    mask = sees
    if layer.window:
        mask = sees & (positions[:, None] - positions[None] < layer.window)
    scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    out = np.einsum("hrk,khd->rhd", weights, v).reshape(len(h), -1)
    mixed: Array = out @ layer.o.rows().T
    return mixed
