"""ModelSpec from a `config.json`, in transformers' old and new spellings.

A key this file does not know is not an error, a *value* it cannot honour is: the point is never to
run a model a little wrong. Refused with ModelUnsupported, so that the transformers runtime can
take over: other architectures, quantized checkpoints, partial rotation, two-way attention, ...
"""

import math
from collections.abc import Mapping
from typing import Final

from outpace.errors import ModelCorrupt, ModelUnsupported
from outpace.runtimes.native.spec.model import Activation, LayerSpec, ModelSpec, Rope
from outpace.runtimes.native.spec.rope import make_rope

FAMILIES: Final = ("llama", "mistral", "qwen2", "qwen3", "smollm3", "gemma3_text")
_ACTIVATIONS: Final[Mapping[str, Activation]] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
}
_THETA: Final = {"smollm3": 2_000_000.0}
_NONE_OF: Final = (
    "quantization_config", "use_bidirectional_attention", "num_experts", "num_local_experts",
)  # fmt: skip


def spec_from_config(config: Mapping[str, object]) -> ModelSpec:
    """Raises ModelUnsupported (what, and what is allowed) or ModelCorrupt (a size is missing)."""
    config = _text_part(config)
    family = str(config.get("model_type"))
    if family not in FAMILIES:
        raise ModelUnsupported(
            f"architecture {family!r} is not supported by the native runtime; it supports "
            f"{', '.join(FAMILIES)}"
        )
    for key in _NONE_OF:
        if config.get(key):
            raise ModelUnsupported(
                f"{key} = {config[key]!r} is not supported by the native runtime"
            )
    n_heads, hidden = _size(config, "num_attention_heads"), _size(config, "hidden_size")
    gemma = family == "gemma3_text"
    few = family == "mistral" and "num_key_value_heads" not in config
    defaults = {"gemma3_text": 256, "qwen3": 128}
    head_dim = _size(config, "head_dim", defaults.get(family, hidden // n_heads))
    scale = _real(config, "query_pre_attn_scalar", 256) if gemma else float(head_dim)
    return ModelSpec(
        family=family,
        n_layers=_size(config, "num_hidden_layers"),
        hidden=hidden,
        n_heads=n_heads,
        n_kv_heads=_size(config, "num_key_value_heads", 8 if few else n_heads),
        head_dim=head_dim,
        ffn=_size(config, "intermediate_size"),
        vocab_size=_size(config, "vocab_size"),
        context_tokens=_size(config, "max_position_embeddings"),
        norm_eps=_real(config, "rms_norm_eps", 1e-6),
        norm_offset=1.0 if gemma else 0.0,
        activation=_activation(config, "gelu_pytorch_tanh" if gemma else "silu"),
        attention_scale=scale**-0.5,
        embedding_scale=math.sqrt(hidden) if gemma else 1.0,
        qk_norm=family in ("qwen3", "gemma3_text"),
        post_norms=gemma,
        tied=bool(config.get("tie_word_embeddings", family in ("gemma3_text", "smollm3"))),
        layers=_layers(config, family, head_dim),
        attention_softcap=_optional(config, "attn_logit_softcapping"),
        logit_softcap=_optional(config, "final_logit_softcapping"),
        eos_ids=_ids(config.get("eos_token_id")),
    )


def _text_part(config: Mapping[str, object]) -> Mapping[str, object]:
    """Gemma 3 with eyes keeps its text model under text_config, leaving some values implicit."""
    text = config.get("text_config")
    if config.get("model_type") != "gemma3" or not isinstance(text, Mapping):
        return config
    implied = {
        "vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4,
        "max_position_embeddings": 131_072, "eos_token_id": config.get("eos_token_id", 1),
        "quantization_config": config.get("quantization_config"),
    }  # fmt: skip
    return {**implied, **text, "model_type": "gemma3_text"}


def _layers(config: Mapping[str, object], family: str, head_dim: int) -> tuple[LayerSpec, ...]:
    n_layers = _size(config, "num_hidden_layers")
    slides = _sliding(config, family, n_layers)
    window = config.get("sliding_window")
    ropes = {kind: _rope(config, family, head_dim, local=kind) for kind in set(slides)}
    rotates: list[object] = [1] * n_layers
    if family == "smollm3":
        step = _size(config, "no_rope_layer_interval", 4)
        given = config.get("no_rope_layers")
        rotates = given if isinstance(given, list) else [(i + 1) % step for i in range(n_layers)]
    if len(rotates) < n_layers or (any(slides) and not isinstance(window, int)):
        raise ModelCorrupt(
            f"config.json: no_rope_layers or sliding_window do not describe {n_layers} layers"
        )
    return tuple(
        LayerSpec(
            rope=ropes[slides[i]] if rotates[i] else None,
            window=window if slides[i] and isinstance(window, int) else None,
        )
        for i in range(n_layers)
    )


def _sliding(config: Mapping[str, object], family: str, n_layers: int) -> list[bool]:
    """Which layers look through a window; every family has its own way to say so."""
    kinds = config.get("layer_types")
    window = config.get("sliding_window")
    if family == "llama":
        return [False] * n_layers
    if family == "mistral":
        return [window is not None] * n_layers
    if family in ("qwen2", "qwen3", "smollm3") and not config.get("use_sliding_window", False):
        return [False] * n_layers
    if isinstance(kinds, list) and len(kinds) == n_layers:
        if set(kinds) - {"sliding_attention", "full_attention"}:
            raise ModelUnsupported(f"layer_types {sorted(set(kinds))} are not supported")
        return [kind == "sliding_attention" for kind in kinds]
    if family == "gemma3_text":
        step = _size(config, "sliding_window_pattern", 6)
        return [bool((i + 1) % step) for i in range(n_layers)]
    if family == "smollm3":
        step = _size(config, "no_rope_layer_interval", 4)
        return [window is not None and (i + 1) % step == 0 for i in range(n_layers)]
    first = _size(config, "max_window_layers", 28)
    return [window is not None and i >= first for i in range(n_layers)]


def _rope(config: Mapping[str, object], family: str, head_dim: int, *, local: bool) -> Rope:
    """Old spelling: rope_theta and rope_scaling. New: rope_parameters, in Gemma one per kind."""
    params: dict[str, object] = {}
    if "partial_rotary_factor" in config:
        params["partial_rotary_factor"] = config["partial_rotary_factor"]
    given = config.get("rope_parameters")
    if family == "gemma3_text":
        key = "rope_local_base_freq" if local else "rope_theta"
        params["rope_theta"] = config.get(key, 10_000.0 if local else 1_000_000.0)
        kind = "sliding_attention" if local else "full_attention"
        given = given.get(kind) if isinstance(given, Mapping) else None
        if not local and isinstance(config.get("rope_scaling"), Mapping):
            params.update(config["rope_scaling"])  # type: ignore[call-overload]  # checked above
    else:
        params["rope_theta"] = config.get("rope_theta", _THETA.get(family, 10_000.0))
        if isinstance(config.get("rope_scaling"), Mapping):
            params.update(config["rope_scaling"])  # type: ignore[call-overload]  # checked above
    if isinstance(given, Mapping):
        params.update(given)
    context_tokens = _size(config, "max_position_embeddings")
    return make_rope(params, head_dim=head_dim, context_tokens=context_tokens)


def _activation(config: Mapping[str, object], default: str) -> Activation:
    name = str(config.get("hidden_activation") or config.get("hidden_act") or default)
    if name not in _ACTIVATIONS:
        raise ModelUnsupported(
            f"activation {name!r} is not supported by the native runtime; it supports "
            f"{', '.join(_ACTIVATIONS)}"
        )
    return _ACTIVATIONS[name]


def _size(config: Mapping[str, object], key: str, default: int | None = None) -> int:
    value = config.get(key)
    if value is None:
        value = default
    if not isinstance(value, int) or value < 1:
        raise ModelCorrupt(
            f"config.json needs a whole number {key!r} of 1 or more, found {value!r}"
        )
    return value


def _real(config: Mapping[str, object], key: str, default: float) -> float:
    value = config.get(key, default)
    if not isinstance(value, int | float) or not value > 0:
        raise ModelCorrupt(f"config.json: {key!r} must be a number above 0, found {value!r}")
    return float(value)


def _optional(config: Mapping[str, object], key: str) -> float | None:
    return _real(config, key, 1.0) if config.get(key) else None


def _ids(value: object) -> frozenset[int]:
    if isinstance(value, int):
        return frozenset({value})
    return (
        frozenset(i for i in value if isinstance(i, int))
        if isinstance(value, list)
        else frozenset()
    )
