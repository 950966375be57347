"""The compiled kernels as a `Decoder` of any supported file: the fast path on a CPU.

The kernels know matrices and rotations; this knows roles and formats. GGUF blocks go over as they
lie in the file (rows of q and k reordered, never values), plain weights are rounded once.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from outpace.errors import ModelUnsupported
from outpace.models.weights import Weights
from outpace.runtimes.native.formats import FOUR_BITS, Choice
from outpace.runtimes.native.kernels import (
    GGML,
    Fine,
    KernelDecoder,
    KVType,
    LayerWeights,
    Matrix,
    why_missing,
)
from outpace.runtimes.native.kernels import Format as Held
from outpace.runtimes.native.kernels import ModelSpec as KernelSpec
from outpace.runtimes.native.kernels.head import Blocks, KernelHead
from outpace.runtimes.native.spec.model import ModelSpec, Rope
from outpace.runtimes.native.spec.names import Names, Role

_Floats = NDArray[np.float32]
_T = TypeVar("_T", bound=np.generic)
_TARGET: Final = {"fp32": Held.F32, "bf16": Held.BF16, "q8": Held.Q8, "q4": Held.Q4}
PAGE_MULTIPLE: Final = 16


def available() -> tuple[bool, str]:
    """Whether compiled kernels can be used here, and in words why or why not."""
    missing = why_missing()
    return missing is None, missing or "compiled kernels load on this machine"


def refusal(spec: ModelSpec, weights: Weights, *, page_size: int) -> str | None:
    """Why the kernels cannot run this model though torch can; None when they can."""
    if spec.attention_softcap is not None:
        return "the compiled kernels have no softcap on attention scores"
    if any(name.endswith(("_proj.bias", ".bias")) and _is_ffn(name) for name in weights.names()):
        return "the compiled kernels have no biases in the feed-forward part"
    if page_size % PAGE_MULTIPLE:
        return f"the compiled kernels want pages of a multiple of {PAGE_MULTIPLE} tokens"
    return None


def _is_ffn(name: str) -> bool:
    return ".mlp." in name or ".ffn_" in name


class CompiledDecoder(KernelDecoder):
    """A KernelDecoder that owns its matrices, and frees them when it is closed."""

    def __init__(
        self,
        packer: "Packer",
        *,
        n_pages: int,
        page_size: int,
        n_threads: int | None = None,
        hidden_layers: tuple[int, ...] = (),
    ) -> None:
        max_positions = min(packer.spec.context_tokens, n_pages * page_size)
        self._packer = packer
        super().__init__(
            packer.model(max_positions),
            n_pages=n_pages,
            page_size=page_size,
            kv_type=KVType.F32 if packer.format == "fp32" else KVType.F16,
            n_threads=n_threads,
            taps=hidden_layers,
        )
        self.weight_bytes = sum(matrix.n_bytes for matrix in packer.matrices)
        self._heads: list[KernelHead] = []

    def compile_head(
        self, matrices: Mapping[str, Blocks], ids_D: NDArray[np.int32], *, n_taps: int, eps: float
    ) -> KernelHead:
        """A drafting head on this decoder's threads, closed with it.

        Raises:
            ModelUnsupported: sizes that do not fit together.
        """
        head = KernelHead(self, matrices, ids_D, n_taps=n_taps, eps=eps)
        self._heads.append(head)
        return head

    def close(self) -> None:
        """Free threads, pools and weights. Twice is once."""
        for head in self._heads:
            head.close()
        super().close()
        for matrix in self._packer.matrices:
            matrix.close()


class Packer:
    """Packs the tensors of one file in one format."""

    def __init__(self, weights: Weights, names: Names, spec: ModelSpec, choice: Choice) -> None:
        self.weights, self.names, self.spec, self.format = weights, names, spec, choice.format
        self._fine_rows = Fine.ALL if choice.fine else Fine.NONE
        self.matrices: list[Matrix] = []

    def model(self, max_positions: int) -> KernelSpec:
        """The whole model, packed. On an error everything packed so far is freed."""
        try:
            return self._model(max_positions)
        except BaseException:
            for matrix in self.matrices:
                matrix.close()
            raise

    def _model(self, max_positions: int) -> KernelSpec:
        spec = self.spec
        ropes = list(dict.fromkeys(layer.rope for layer in spec.layers if layer.rope is not None))
        embedding = self._matrix("embed", None)
        return KernelSpec(
            hidden=spec.hidden,
            n_heads=spec.n_heads,
            n_kv_heads=spec.n_kv_heads,
            head_dim=spec.head_dim,
            ffn=spec.ffn,
            vocab=spec.vocab_size,
            layers=tuple(self._layer(i, ropes) for i in range(spec.n_layers)),
            embedding=embedding,
            head=embedding if spec.tied else self._matrix("head", None),
            norm_final=self._norm("final_norm", None),
            ropes=tuple(rope_tables(rope, max_positions) for rope in ropes),
            max_positions=max_positions,
            rope_dim=spec.head_dim,
            eps=spec.norm_eps,
            attention_scale=spec.attention_scale,
            gelu=spec.activation == "gelu_tanh",
            embedding_scale=spec.embedding_scale,
            logit_softcap=spec.logit_softcap or 0.0,
            fine_rows=self._fine_rows,
        )

    def _layer(self, i: int, ropes: list[Rope]) -> LayerWeights:
        spec, kind = self.spec, self.spec.layers[i]
        return LayerWeights(
            q=self._matrix("q", i),
            k=self._matrix("k", i),
            v=self._matrix("v", i),
            o=self._matrix("o", i),
            gate=self._matrix("gate", i),
            up=self._matrix("up", i),
            down=self._matrix("down", i),
            norm_attention=self._norm("attn_norm", i),
            norm_ffn=self._norm("ffn_norm", i),
            norm_after_attention=self._norm("post_attn_norm", i) if spec.post_norms else None,
            norm_after_ffn=self._norm("post_ffn_norm", i) if spec.post_norms else None,
            norm_q=self._norm("q_norm", i) if spec.qk_norm else None,
            norm_k=self._norm("k_norm", i) if spec.qk_norm else None,
            bias_q=self._bias("q", i),
            bias_k=self._bias("k", i),
            bias_v=self._bias("v", i),
            bias_o=self._bias("o", i),
            window=kind.window or 0,
            rope=-1 if kind.rope is None else ropes.index(kind.rope),
        )

    def _matrix(self, part: str, layer: int | None) -> Matrix:
        role = Role(part=part, layer=layer)
        name = self.names.find(role)
        n, k = self.weights.shape(name)
        stored = self.weights.dtype(name)
        source, target = GGML.F32, self._target(role, stored)
        data: NDArray[Any]  # floats, or the file's bytes
        if target is None or stored in ("BF16", "F16"):
            source, data = GGML[stored], self._ordered(part, self.weights.raw(name))
        else:
            data = self._values(role)
        self.matrices.append(Matrix.pack(data, source, n=n, k=k, target=target))
        return self.matrices[-1]

    def _target(self, role: Role, stored: str) -> Held | None:
        """What to round to; None = hold the file's blocks exactly."""
        blocks = self.weights.gguf and stored in GGML.__members__ and stored.startswith("Q")
        if self.format == "q4" and role.layer is not None:
            return None if blocks and stored in FOUR_BITS else Held.Q4
        if self.format in ("q8", "q4"):
            return None if blocks else Held.Q8
        return _TARGET[self.format]

    def _ordered(self, part: str, rows: NDArray[_T]) -> NDArray[_T]:
        order_N = self.names.row_order(self.spec, part)
        return rows if order_N is None else rows[order_N]

    def _values(self, role: Role) -> _Floats:
        return self._ordered(role.part, self.weights.dequantized(self.names.find(role)))

    def _norm(self, part: str, layer: int | None) -> _Floats:
        return self._values(Role(part=part, layer=layer)) + np.float32(self.spec.norm_offset)

    def _bias(self, part: str, layer: int) -> _Floats | None:
        role = Role(part=part, layer=layer, kind="bias")
        return self._values(role) if self.names.find(role) in self.weights.names() else None


def rope_tables(rope: Rope, n_positions: int) -> tuple[_Floats, _Floats]:
    """cos and sin of every position, fp32 (positions, pairs), in transformers' arithmetic."""
    angle_PF = torch.arange(n_positions).float()[:, None] * torch.tensor(rope.inv_freq)
    return (angle_PF.cos() * rope.scale).numpy(), (angle_PF.sin() * rope.scale).numpy()


def open_compiled(
    packer: Packer,
    *,
    n_pages: int,
    page_size: int,
    n_threads: int | None,
    hidden_layers: tuple[int, ...],
) -> CompiledDecoder:
    """Pack and open.

    Raises:
        ModelUnsupported: no compiled library here, or a model it cannot run.
        MemoryShort: the pools do not fit.
    """
    able, why = available()
    reason = refusal(packer.spec, packer.weights, page_size=page_size)
    if not able or reason is not None:
        raise ModelUnsupported(reason or why)
    return CompiledDecoder(
        packer,
        n_pages=n_pages,
        page_size=page_size,
        n_threads=n_threads,
        hidden_layers=hidden_layers,
    )
