"""ModelSpec from GGUF metadata: llama.cpp's own names for the same facts.

What the file leaves out, llama.cpp knows by architecture, and so does this: Gemma's every sixth
layer is global and its local layers turn with 10,000; SmolLM3's every fourth does not rotate.
"""

import math
from collections.abc import Mapping
from typing import Final

import torch

from outpace.errors import ModelCorrupt, ModelUnsupported
from outpace.models.weights import Weights
from outpace.runtimes.native.spec.model import LayerSpec, ModelSpec, Rope
from outpace.runtimes.native.spec.rope import divided, make_rope

FAMILIES: Final = ("llama", "qwen2", "qwen3", "smollm3", "gemma3")
_GEMMA_27B_LAYERS: Final = 62  # scales scores by hidden / heads, not by head size


class _Fields:
    """Metadata of one architecture: `llama.block_count` is asked for as `block_count`."""

    def __init__(self, metadata: Mapping[str, object]) -> None:
        self.metadata = metadata
        self.family = str(metadata.get("general.architecture"))

    def find(self, key: str) -> object:
        return self.metadata.get(f"{self.family}.{key}")

    def size(self, key: str, default: int | None = None) -> int:
        value = self.find(key)
        value = default if value is None else value
        if not isinstance(value, int) or value < 1:
            raise ModelCorrupt(
                f"GGUF field {self.family}.{key} must be one whole number of 1 or more, "
                f"found {value!r}"
            )
        return value

    def real(self, key: str, default: float | None = None) -> float:
        value = self.find(key)
        value = default if value is None else value
        if not isinstance(value, int | float) or not value > 0:
            raise ModelCorrupt(
                f"GGUF field {self.family}.{key} must be a number above 0, found {value!r}"
            )
        return float(value)


def spec_from_gguf(weights: Weights) -> ModelSpec:
    """Raises ModelUnsupported (what, and what is allowed) or ModelCorrupt (a field is missing)."""
    fields = _Fields(weights.gguf)
    if fields.family not in FAMILIES:
        raise ModelUnsupported(
            f"GGUF architecture {fields.family!r} is not supported by the native runtime; it "
            f"supports {', '.join(FAMILIES)}"
        )
    if fields.find("expert_count"):
        raise ModelUnsupported("mixtures of experts are not supported by the native runtime")
    gemma = fields.family == "gemma3"
    n_layers, n_heads = fields.size("block_count"), fields.size("attention.head_count")
    hidden = fields.size("embedding_length")
    head_dim = fields.size("attention.key_length", 256 if gemma else hidden // n_heads)
    if fields.size("attention.value_length", head_dim) != head_dim:
        raise ModelUnsupported("keys and values of different sizes are not supported")
    if fields.size("rope.dimension_count", head_dim) != head_dim:
        raise ModelUnsupported("partial rotation is not supported by the native runtime")
    scale = hidden / n_heads if gemma and n_layers == _GEMMA_27B_LAYERS else head_dim
    return ModelSpec(
        family="gemma3_text" if gemma else fields.family,
        n_layers=n_layers,
        hidden=hidden,
        n_heads=n_heads,
        n_kv_heads=fields.size("attention.head_count_kv", n_heads),
        head_dim=head_dim,
        ffn=fields.size("feed_forward_length"),
        vocab_size=weights.shape("token_embd.weight")[0],
        context_tokens=fields.size("context_length"),
        norm_eps=fields.real("attention.layer_norm_rms_epsilon"),
        norm_offset=0.0,
        activation="gelu_tanh" if gemma else "silu",
        attention_scale=scale**-0.5,
        embedding_scale=math.sqrt(hidden) if gemma else 1.0,
        qk_norm=fields.family in ("qwen3", "gemma3"),
        post_norms=gemma,
        tied="output.weight" not in weights.names(),
        layers=_layers(fields, weights, n_layers, head_dim),
        attention_softcap=_softcap(fields, "attn_logit_softcapping"),
        logit_softcap=_softcap(fields, "final_logit_softcapping"),
        eos_ids=_eos(weights.gguf),
    )


def _layers(
    fields: _Fields, weights: Weights, n_layers: int, head_dim: int
) -> tuple[LayerSpec, ...]:
    rope = _rope(fields, head_dim)
    if "rope_freqs.weight" in weights.names():
        rope = divided(rope, torch.from_numpy(weights.dequantized("rope_freqs.weight")))
    if fields.family == "gemma3":
        pattern = fields.size("attention.sliding_window_pattern", 6)
        window = fields.size("attention.sliding_window")
        theta = fields.real("rope.freq_base_swa", 10_000.0)
        local = make_rope(
            {"rope_theta": theta}, head_dim=head_dim, context_tokens=fields.size("context_length")
        )
        return tuple(
            LayerSpec(rope=local, window=window) if (i + 1) % pattern else LayerSpec(rope=rope)
            for i in range(n_layers)
        )
    if fields.find("attention.sliding_window"):
        window = fields.size("attention.sliding_window")
        if window < fields.size("context_length"):
            raise ModelUnsupported(
                f"GGUF architecture {fields.family!r} with a sliding window of {window} does not "
                f"say which layers slide"
            )
    if fields.family == "smollm3":
        return tuple(LayerSpec(rope=rope if (i + 1) % 4 else None) for i in range(n_layers))
    return (LayerSpec(rope=rope),) * n_layers


def _rope(fields: _Fields, head_dim: int) -> Rope:
    kind = str(fields.find("rope.scaling.type") or "none")
    factor = fields.find("rope.scaling.factor")
    if kind == "none" and factor is None and fields.find("rope.scale_linear"):
        kind, factor = "linear", fields.find("rope.scale_linear")
    params: dict[str, object] = {
        "rope_theta": fields.real("rope.freq_base", 10_000.0),
        "rope_type": "default" if kind == "none" else kind,
        "factor": factor,
        "original_max_position_embeddings": fields.find("rope.scaling.original_context_length"),
        "attention_factor": fields.find("rope.scaling.attn_factor"),
    }
    return make_rope(params, head_dim=head_dim, context_tokens=fields.size("context_length"))


def _softcap(fields: _Fields, key: str) -> float | None:
    return fields.real(key) if fields.find(key) else None


def _eos(metadata: Mapping[str, object]) -> frozenset[int]:
    keys = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
    return frozenset(i for key in keys if isinstance(i := metadata.get(key), int))
