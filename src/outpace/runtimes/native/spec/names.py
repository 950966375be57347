"""What each file format calls a tensor, and in which order it keeps the rows of q and k.

llama.cpp rotates neighbouring values (2i, 2i + 1) in its llama-like architectures, transformers
the halves (i, i + D/2); a GGUF file therefore has the rows of q and k reordered within each head.
The order is undone by moving whole rows, which are whole blocks: nothing is rounded by it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from outpace.models.weights import Weights
from outpace.runtimes.native.spec.model import ModelSpec

Shape = tuple[int, ...]
PAIRED_FAMILIES: Final = ("llama", "smollm3")
_TOP: Final[Mapping[str, tuple[str, str]]] = {
    "embed": ("embed_tokens.weight", "token_embd.weight"),
    "final_norm": ("norm.weight", "output_norm.weight"),
}
_LAYER: Final[Mapping[str, tuple[str, str]]] = {
    "attn_norm": ("input_layernorm", "attn_norm"),
    "q": ("self_attn.q_proj", "attn_q"),
    "k": ("self_attn.k_proj", "attn_k"),
    "v": ("self_attn.v_proj", "attn_v"),
    "o": ("self_attn.o_proj", "attn_output"),
    "q_norm": ("self_attn.q_norm", "attn_q_norm"),
    "k_norm": ("self_attn.k_norm", "attn_k_norm"),
    "gate": ("mlp.gate_proj", "ffn_gate"),
    "up": ("mlp.up_proj", "ffn_up"),
    "down": ("mlp.down_proj", "ffn_down"),
}
_PLAIN_NORMS: Final = {"ffn_norm": ("post_attention_layernorm", "ffn_norm")}
_GEMMA_NORMS: Final = {
    "post_attn_norm": ("post_attention_layernorm", "post_attention_norm"),
    "ffn_norm": ("pre_feedforward_layernorm", "ffn_norm"),
    "post_ffn_norm": ("post_feedforward_layernorm", "post_ffw_norm"),
}
_HEAD_NAMES: Final = ("lm_head.weight", "output.weight")
_PREFIXES: Final = ("model.", "model.language_model.", "language_model.model.", "")
_IGNORED: Final = ("vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                   "model.multi_modal_projector.")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A place in the model: a part, its layer (None = the model itself), weight or bias."""

    part: str
    layer: int | None = None
    kind: str = "weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Role -> tensor name of one file, and the row order of its q and k."""

    gguf: bool
    prefix: str
    head: str
    paired: bool
    layer_parts: Mapping[str, tuple[str, str]]

    def find(self, role: Role) -> str:
        """The file's name for a role, whether or not the file has it."""
        column = 1 if self.gguf else 0
        if role.part == "head":
            return self.head
        if role.layer is None:
            return self.prefix + _TOP[role.part][column]
        stem = "blk" if self.gguf else "layers"
        part = self.layer_parts[role.part][column]
        return f"{self.prefix}{stem}.{role.layer}.{part}.{role.kind}"

    def row_order(self, spec: ModelSpec, part: str) -> NDArray[np.int64] | None:
        """Stored rows in the order the halves convention wants them; None = as they are."""
        if not self.paired or part not in ("q", "k"):
            return None
        n_heads = spec.n_heads if part == "q" else spec.n_kv_heads
        rows_HFP = np.arange(n_heads * spec.head_dim).reshape(n_heads, spec.head_dim // 2, 2)
        return np.ascontiguousarray(rows_HFP.swapaxes(1, 2)).reshape(-1)

    def ignorable(self, name: str) -> bool:
        """Tensors that say nothing new: stored frequencies, a tied head's copy, vision parts."""
        return (
            name in (self.head, "rope_freqs.weight", *_HEAD_NAMES)
            or name.endswith("rotary_emb.inv_freq")
            or name.startswith(_IGNORED)
        )


def names_of(weights: Weights, spec: ModelSpec) -> Names:
    """The naming of an opened file."""
    gguf = bool(weights.gguf)
    present = set(weights.names())
    found = (p for p in _PREFIXES if f"{p}embed_tokens.weight" in present)
    prefix = "" if gguf else next(found, "model.")
    head = _HEAD_NAMES[1] if gguf else _HEAD_NAMES[0]
    if prefix == "language_model.model.":
        head = f"language_model.{head}"
    return Names(
        gguf=gguf,
        prefix=prefix,
        head=head,
        paired=gguf and spec.family in PAIRED_FAMILIES,
        layer_parts={**_LAYER, **(_GEMMA_NORMS if spec.post_norms else _PLAIN_NORMS)},
    )


def expected_shapes(spec: ModelSpec) -> Iterator[tuple[Role, Shape, bool]]:
    """Every role, its shape, and whether the model cannot do without it (biases are optional)."""
    yield Role(part="embed"), (spec.vocab_size, spec.hidden), True
    yield Role(part="final_norm"), (spec.hidden,), True
    if not spec.tied:
        yield Role(part="head"), (spec.vocab_size, spec.hidden), True
    q, kv = spec.n_heads * spec.head_dim, spec.n_kv_heads * spec.head_dim
    matrices = {
        "q": (q, spec.hidden), "k": (kv, spec.hidden), "v": (kv, spec.hidden),
        "o": (spec.hidden, q), "gate": (spec.ffn, spec.hidden), "up": (spec.ffn, spec.hidden),
        "down": (spec.hidden, spec.ffn),
    }  # fmt: skip
    norms = ["attn_norm", "ffn_norm"]
    norms += ["post_attn_norm", "post_ffn_norm"] if spec.post_norms else []
    head_norms = ["q_norm", "k_norm"] if spec.qk_norm else []
    for layer in range(spec.n_layers):
        for part in norms:
            yield Role(part=part, layer=layer), (spec.hidden,), True
        for part in head_norms:
            yield Role(part=part, layer=layer), (spec.head_dim,), True
        for part, shape in matrices.items():
            yield Role(part=part, layer=layer), shape, True
            yield Role(part=part, layer=layer, kind="bias"), (shape[0],), False
