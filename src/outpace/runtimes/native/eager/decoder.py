"""TorchDecoder: one pass of a Llama-like model over ragged rows, in plain PyTorch.

Activations are fp32 between products. Two rules keep rows independent of their company:
products run at row counts that agree (`tiles`, `attention.agreeing_heights`), and everything else
is built from operations that are exact (+, *, /, sqrt, max), the same for every element (exp), or
sums over one row of fixed length. `torch.silu` and `gelu` are avoided: they switch to another exp
for the last elements of a thread's share.

Shapes: R rows, H hidden, A asked rows, V vocabulary, D head size, S slots, K K/V heads.
"""

import numpy as np
import torch
from torch import Tensor

from outpace.errors import ContractError
from outpace.runtimes.native.eager.attention import Scratch, agreeing_heights, attend
from outpace.runtimes.native.eager.matrices import Embedding, Layer, Reader
from outpace.runtimes.native.eager.plan import KEY_BLOCK, Group, Shape, physical_slots, plan
from outpace.runtimes.native.formats import Format
from outpace.runtimes.native.passes import Int32, Pass, PassResult
from outpace.runtimes.native.spec.model import Activation, ModelSpec, Rope
from outpace.runtimes.native.spec.names import Role

_ENTRY_BUDGET_BYTES = 8 << 20
_TABLE_STEP = 2048


class TorchDecoder:
    """Weights, a pool of K/V pages, and the arithmetic between them (`passes.Decoder`).

    hidden_layers: residual streams to return, after that many layers (0 = the embedding), side by
    side in the order given.
    """

    def __init__(
        self, reader: Reader, *, n_pages: int, page_size: int, hidden_layers: tuple[int, ...] = ()
    ) -> None:
        spec = self.spec = reader.spec
        self.n_pages, self.page_size = n_pages, page_size
        self._hidden_layers = hidden_layers
        self._device = reader.device
        self._embedding = Embedding(reader.weights, reader.names.find(Role(part="embed")))
        self._layers = [reader.layer(i) for i in range(spec.n_layers)]
        self._head = reader.head()
        self._final_norm_H = reader.final_norm()
        heights, exact = agreeing_heights(spec, reader.device)
        self._shape = Shape(
            page_size=page_size, heights=heights, max_entries=max_entries(spec, heights[-1])
        )
        products = [p for x in self._layers for p in (x.qkv, x.o, x.gate_up, x.down)]
        products.append(self._head)
        self.row_invariant = exact and all(p.agreement.exact for p in products)
        self.weight_bytes = sum(p.n_bytes for p in products)
        size = (spec.n_layers, 2, spec.n_kv_heads, n_pages * page_size, spec.head_dim)
        self._pool = torch.zeros(size, dtype=pool_type(reader.format), device=reader.device)
        self._scratch = Scratch(reader.device)
        self._tables = {
            layer.rope: _RopeTable(layer.rope, reader.device)
            for layer in spec.layers
            if layer.rope is not None
        }

    @torch.inference_mode()
    def forward(self, rows: Pass) -> PassResult:
        """See `passes.Decoder`."""
        spec = self.spec
        plans = {
            window: plan(rows, window=window, shape=self._shape, device=self._device)
            for window in spec.windows
        }
        slots_R = torch.from_numpy(physical_slots(rows, self.page_size)).to(self._device)
        turns = {rope: table.at(rows.positions_R) for rope, table in self._tables.items()}
        x_RH = self._embedding(rows.tokens_R).to(self._device)
        if spec.embedding_scale != 1.0:
            x_RH = x_RH * spec.embedding_scale
        kept = {0: x_RH}
        for i, (layer, kind) in enumerate(zip(self._layers, spec.layers, strict=True)):
            turn = turns[kind.rope] if kind.rope is not None else None
            x_RH = x_RH + self._attention(layer, i, x_RH, turn, slots_R, plans[kind.window])
            x_RH = x_RH + self._ffn(layer, x_RH)
            kept[i + 1] = x_RH
            if i not in self._hidden_layers:
                kept.pop(i)
        hidden = [kept[i] for i in self._hidden_layers]
        hidden_RH = torch.cat(hidden, dim=1) if hidden else None
        return self._result(rows, x_RH, hidden_RH)

    def copy_slots(self, sources: Int32, targets: Int32) -> None:
        """See `passes.Decoder`: as if one pair after the other."""
        if len(sources) != len(targets):
            raise ContractError(f"{len(sources)} source slots for {len(targets)} target slots")
        later_reads_earlier = {int(t) for t in targets} & {int(s) for s in sources}
        step = 1 if later_reads_earlier else max(len(sources), 1)
        for i in range(0, len(sources), step):
            source = torch.from_numpy(sources[i : i + step].astype(np.int64)).to(self._device)
            target = torch.from_numpy(targets[i : i + step].astype(np.int64)).to(self._device)
            self._pool[:, :, :, target] = self._pool[:, :, :, source]

    def close(self) -> None:
        """See `passes.Decoder`."""
        self._layers.clear()
        self._pool = torch.empty(0)

    def _attention(
        self,
        layer: Layer,
        index: int,
        x_RH: Tensor,
        turn: tuple[Tensor, Tensor] | None,
        slots_R: Tensor,
        groups: list[Group],
    ) -> Tensor:
        spec = self.spec
        n_q, n_kv, d = spec.n_heads, spec.n_kv_heads, spec.head_dim
        qkv_RN = _biased(layer.qkv(self._norm(x_RH, layer.attn_norm_H)), layer.qkv_bias)
        qkv_RHD = qkv_RN.view(-1, n_q + 2 * n_kv, d)
        qk_RHD, v_RKD = qkv_RHD[:, : n_q + n_kv], qkv_RHD[:, n_q + n_kv :]
        if layer.q_norm_D is not None and layer.k_norm_D is not None:
            q_RHD = self._norm(qk_RHD[:, :n_q], layer.q_norm_D)
            qk_RHD = torch.cat((q_RHD, self._norm(qk_RHD[:, n_q:], layer.k_norm_D)), dim=1)
        if turn is not None:
            qk_RHD = rotated(qk_RHD, *turn)
        kv_2KSD = self._pool[index]
        kv_2KSD[0].index_copy_(1, slots_R, _stored(qk_RHD[:, n_q:], kv_2KSD.dtype))
        kv_2KSD[1].index_copy_(1, slots_R, _stored(v_RKD, kv_2KSD.dtype))
        q_RHD = qk_RHD[:, :n_q] * spec.attention_scale
        o_RHD = attend(q_RHD, kv_2KSD, groups, spec, self._scratch)
        y_RH = _biased(layer.o(o_RHD.view(-1, n_q * d)), layer.o_bias)
        return y_RH if layer.post_attn_norm_H is None else self._norm(y_RH, layer.post_attn_norm_H)

    def _ffn(self, layer: Layer, x_RH: Tensor) -> Tensor:
        both_RF = _biased(layer.gate_up(self._norm(x_RH, layer.ffn_norm_H)), layer.gate_up_bias)
        gate_RF, up_RF = both_RF[:, : self.spec.ffn], both_RF[:, self.spec.ffn :]
        inner_RF = _gated(gate_RF, self.spec.activation) * up_RF
        y_RH = _biased(layer.down(inner_RF), layer.down_bias)
        return y_RH if layer.post_ffn_norm_H is None else self._norm(y_RH, layer.post_ffn_norm_H)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """Root-mean-square norm over the last dimension (Zhang & Sennrich 1910.07467)."""
        mean = (x * x).sum(-1, keepdim=True) / x.shape[-1]
        return x * torch.rsqrt(mean + self.spec.norm_eps) * weight

    def _result(self, rows: Pass, x_RH: Tensor, hidden_RH: Tensor | None) -> PassResult:
        asked_A = torch.from_numpy(rows.asked_A.astype(np.int64)).to(self._device)
        logits_AV = self._head(self._norm(x_RH[asked_A], self._final_norm_H))
        if self.spec.logit_softcap is not None:
            logits_AV = (logits_AV / self.spec.logit_softcap).tanh() * self.spec.logit_softcap
        if rows.logits:
            return PassResult(logits_AV=logits_AV, hidden_RH=hidden_RH)
        best_A = [int(i) for i in logits_AV.argmax(dim=1)] if len(asked_A) else []
        return PassResult(best_A=best_A, hidden_RH=hidden_RH)


class _RopeTable:
    """cos and sin by position, grown in steps of fixed shape so an entry never depends on when."""

    def __init__(self, rope: Rope, device: torch.device) -> None:
        self._rope = rope
        self._inv_freq_F = torch.tensor(rope.inv_freq)
        self._cos_PF = self._sin_PF = torch.empty(0, len(rope.inv_freq), device=device)

    def at(self, positions_R: Int32) -> tuple[Tensor, Tensor]:
        """cos and sin of R positions, shape (R, 1, D / 2)."""
        highest = int(positions_R.max()) if len(positions_R) else 0
        while len(self._cos_PF) <= highest:
            first = len(self._cos_PF)
            angle_PF = torch.arange(first, first + _TABLE_STEP).float()[:, None] * self._inv_freq_F
            cos_PF, sin_PF = angle_PF.cos() * self._rope.scale, angle_PF.sin() * self._rope.scale
            self._cos_PF = torch.cat((self._cos_PF, cos_PF.to(self._cos_PF.device)))
            self._sin_PF = torch.cat((self._sin_PF, sin_PF.to(self._sin_PF.device)))
        index_R = torch.from_numpy(positions_R.astype(np.int64)).to(self._cos_PF.device)
        return self._cos_PF[index_R][:, None], self._sin_PF[index_R][:, None]


def rotated(x_RHD: Tensor, cos_R1F: Tensor, sin_R1F: Tensor) -> Tensor:
    """Turn each pair (i, i + D/2) of a head by its angle."""
    a_RHF, b_RHF = x_RHD.chunk(2, dim=2)
    return torch.cat((a_RHF * cos_R1F - b_RHF * sin_R1F, b_RHF * cos_R1F + a_RHF * sin_R1F), dim=2)


def pool_type(weight_format: Format) -> torch.dtype:
    """K/V are kept in fp32 beside fp32 weights, else in fp16 (ten bits where bf16 has seven)."""
    return torch.float32 if weight_format == "fp32" else torch.float16


def max_entries(spec: ModelSpec, height: int) -> int:
    """Tile-and-block pairs computed at once: a long context never stands in memory whole."""
    keys = 2 * KEY_BLOCK * spec.n_kv_heads * spec.head_dim * 4
    scores = 3 * KEY_BLOCK * spec.n_heads * height * 4
    return max(1, _ENTRY_BUDGET_BYTES // (keys + scores))


def _stored(x_RKD: Tensor, dtype: torch.dtype) -> Tensor:
    x_KRD = x_RKD.transpose(0, 1)
    if dtype == torch.float16:
        x_KRD = x_KRD.clamp(-65504, 65504)
    return x_KRD.to(dtype)


def _biased(y_RN: Tensor, bias_N: Tensor | None) -> Tensor:
    return y_RN if bias_N is None else y_RN + bias_N


def _gated(x: Tensor, activation: Activation) -> Tensor:
    """SiLU x / (1 + e^-x), or tanh-GELU, which is x / (1 + e^-2u) at u = .798 (x + .0447 x^3)."""
    if activation == "gelu_tanh":
        u = (x + x * x * x * 0.044715) * 0.7978845608028654
        return x / ((u * -2).exp() + 1)
    return x / ((-x).exp() + 1)
