"""A transformers model written as GGUF the way llama.cpp's converter does, by the gguf package.

Independent of the reader under test: the reordering of q and k is the converter's own formula.
"""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import quants

from outpace.models.files import ModelFiles
from outpace.models.resolve import resolve

ARCHITECTURES = {
    "LlamaConfig": "llama", "Qwen2Config": "qwen2", "Qwen3Config": "qwen3",
    "SmolLM3Config": "smollm3", "Gemma3TextConfig": "gemma3",
}  # fmt: skip
_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


def written(model: Any, path: Path, kind: str = "F32", *, factors: Any = None) -> ModelFiles:
    """Write it; matrices are stored as `kind`, and `model` then holds exactly what was stored."""
    arch = ARCHITECTURES[type(model.config).__name__]
    writer = gguf.GGUFWriter(path, arch)
    _metadata(writer, model.config)
    tied = model.config.tie_word_embeddings
    for name, tensor in model.named_parameters():
        if name.startswith("lm_head") and tied:
            continue
        values = tensor.detach().numpy()
        if "norm" in name and arch == "gemma3":
            values = values + 1
        values = _reordered(name, values, arch, model.config)
        stored = Kind[kind] if values.ndim > 1 else Kind.F32
        raw = quants.quantize(values, stored)
        writer.add_tensor(_gguf_name(name, arch), raw, raw_dtype=stored)
        if stored != Kind.F32:
            back = quants.dequantize(raw, stored)
            with torch.no_grad():
                tensor.copy_(torch.from_numpy(_restored(name, back, arch, model.config)))
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", np.asarray(factors, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return resolve(f"{path}")


def _metadata(writer: Any, config: Any) -> None:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    head_dim = getattr(config, "head_dim", None) or (
        config.hidden_size // config.num_attention_heads
    )
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    params = config.rope_parameters
    writer.add_rope_freq_base(params.get("full_attention", params)["rope_theta"])
    if "full_attention" in params:
        writer.add_sliding_window(config.sliding_window)
    if params.get("rope_type") == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(params["factor"])
        writer.add_rope_scaling_orig_ctx_len(params["original_max_position_embeddings"])
    writer.add_eos_token_id(1)


def _gguf_name(name: str, arch: str) -> str:
    stem, kind = name.rsplit(".", 1)
    if stem in _NAMES:
        return f"{_NAMES[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    plain = {"post_attention_layernorm": "ffn_norm"}
    gemma = {
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
    }
    names = {**_NAMES, **(gemma if arch == "gemma3" else plain)}
    return f"blk.{layer}.{names[part]}.{kind}"


def _heads(name: str, arch: str, config: Any) -> int | None:
    if arch not in ("llama", "smollm3"):
        return None
    if ".q_proj." in name:
        return int(config.num_attention_heads)
    return int(config.num_key_value_heads) if ".k_proj." in name else None


def _reordered(name: str, values: Any, arch: str, config: Any) -> Any:
    """llama.cpp's LlamaModel.permute."""
    heads = _heads(name, arch, config)
    if heads is None:
        return values
    shape = (heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return np.ascontiguousarray(values.reshape(shape).swapaxes(1, 2).reshape(values.shape))


def _restored(name: str, values: Any, arch: str, config: Any) -> Any:
    heads = _heads(name, arch, config)
    if heads is None:
        return values
    shape = (heads, values.shape[0] // heads // 2, 2, *values.shape[1:])
    return np.ascontiguousarray(values.reshape(shape).swapaxes(1, 2).reshape(values.shape))
