"""Weights of a file -> products and norms a pass can use, in one of four formats.

    fp32, bf16   every matrix in that type
    q8           block matrices of a file as they are, where their form allows; others as int8
    q4           layer matrices of 4-bit blocks as they are, others rounded to int4; head as in q8

q, k and v become one matrix, gate and up another, so a layer is four products. Norm weights are
not folded into the matrices behind them: that would round every weight once more. The embedding
stays in the file's memory map; a pass dequantizes only the rows it looks up.

Shapes: N outputs, K inputs, R rows, H hidden.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from torch import Tensor

from outpace.models.weights import Weights
from outpace.runtimes.native.eager.operators import dense, four_bit
from outpace.runtimes.native.eager.quantize import Blocks, from_gguf, from_values, stacked
from outpace.runtimes.native.eager.tiles import Tiled
from outpace.runtimes.native.formats import Format
from outpace.runtimes.native.spec.model import ModelSpec
from outpace.runtimes.native.spec.names import Names, Role

_DENSE: Final = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer's weights. Norms and biases are fp32; None = the model has none."""

    attn_norm_H: Tensor
    ffn_norm_H: Tensor
    qkv: Tiled
    o: Tiled
    gate_up: Tiled
    down: Tiled
    qkv_bias: Tensor | None
    o_bias: Tensor | None
    gate_up_bias: Tensor | None
    down_bias: Tensor | None
    q_norm_D: Tensor | None
    k_norm_D: Tensor | None
    post_attn_norm_H: Tensor | None
    post_ffn_norm_H: Tensor | None


@dataclass(slots=True)
class Reader:
    """Reads the tensors of one file in one format, counting what it did with each."""

    weights: Weights
    names: Names
    spec: ModelSpec
    format: Format
    device: torch.device
    counts: Counter[str] = field(default_factory=Counter)

    def layer(self, index: int) -> Layer:
        """Load layer `index`."""
        return Layer(
            attn_norm_H=self._norm("attn_norm", index),
            ffn_norm_H=self._norm("ffn_norm", index),
            qkv=self._product(("q", "k", "v"), index),
            o=self._product(("o",), index),
            gate_up=self._product(("gate", "up"), index),
            down=self._product(("down",), index),
            qkv_bias=self._bias(("q", "k", "v"), index),
            o_bias=self._bias(("o",), index),
            gate_up_bias=self._bias(("gate", "up"), index),
            down_bias=self._bias(("down",), index),
            q_norm_D=self._norm("q_norm", index) if self.spec.qk_norm else None,
            k_norm_D=self._norm("k_norm", index) if self.spec.qk_norm else None,
            post_attn_norm_H=self._norm("post_attn_norm", index) if self.spec.post_norms else None,
            post_ffn_norm_H=self._norm("post_ffn_norm", index) if self.spec.post_norms else None,
        )

    def head(self) -> Tiled:
        """The matrix from hidden states to logits; the embedding's when they are tied."""
        return self._product(("embed" if self.spec.tied else "head",), None)

    def final_norm(self) -> Tensor:
        """The norm before the head."""
        return self._norm("final_norm", None)

    def _norm(self, part: str, layer: int | None) -> Tensor:
        value_H = self._values(Role(part=part, layer=layer))
        return (value_H + self.spec.norm_offset).to(self.device)

    def _bias(self, parts: tuple[str, ...], layer: int) -> Tensor | None:
        roles = [Role(part=part, layer=layer, kind="bias") for part in parts]
        present = set(self.weights.names())
        if not any(self.names.find(role) in present for role in roles):
            return None
        values = []
        for role in roles:
            n_out = self.weights.shape(self.names.find(Role(part=role.part, layer=layer)))[0]
            missing = self.names.find(role) not in present
            values.append(torch.zeros(n_out) if missing else self._values(role))
        return torch.cat(values).to(self.device)

    def _values(self, role: Role) -> Tensor:
        value = self.weights.dequantized(self.names.find(role))
        order_N = self.names.row_order(self.spec, role.part)
        return torch.from_numpy(value if order_N is None else value[order_N])

    def _product(self, parts: tuple[str, ...], layer: int | None) -> Tiled:
        roles = [Role(part=part, layer=layer) for part in parts]
        if self.format in _DENSE:
            self.counts[self.format] += len(roles)
            weight_NK = torch.cat([self._values(role) for role in roles]).to(self.device)
            return dense(weight_NK, _DENSE[self.format])
        return four_bit(stacked([self._blocks(role) for role in roles]))

    def _blocks(self, role: Role) -> Blocks:
        name = self.names.find(role)
        dtype = self.weights.dtype(name)
        to_four = self.format == "q4" and role.layer is not None
        kept = from_gguf(self.weights.raw(name), dtype) if self.weights.gguf else None
        if kept is not None and (kept.bits == 4 or not to_four):
            self.counts[f"{dtype} kept"] += 1
            order_N = self.names.row_order(self.spec, role.part)
            return kept if order_N is None else kept.rows(order_N)
        self.counts[f"{dtype} rounded to {'int4' if to_four else 'int8'}"] += 1
        return from_values(self._values(role), 4 if to_four else 8)


class Embedding:
    """Token id -> vector, straight from the file: exact in every format."""

    def __init__(self, weights: Weights, name: str) -> None:
        self._raw_VC = weights.raw(name)
        self._dtype = weights.dtype(name)

    def __call__(self, tokens_R: np.ndarray[tuple[int], np.dtype[np.int32]]) -> Tensor:
        """fp32 rows on the CPU, shape (R, H)."""
        raw_RC = self._raw_VC[tokens_R]
        if self._dtype == "F32":
            return torch.from_numpy(raw_RC.view("<f4"))
        if self._dtype in ("F16", "BF16"):
            kind = torch.float16 if self._dtype == "F16" else torch.bfloat16
            return torch.from_numpy(raw_RC).view(kind).float()
        blocks = from_gguf(raw_RC, self._dtype)
        if blocks is not None:
            return blocks.values()
        from gguf import GGMLQuantizationType, quants

        values = quants.dequantize(raw_RC, GGMLQuantizationType[self._dtype])
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
