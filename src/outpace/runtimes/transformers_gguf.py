"""A GGUF file as a transformers model: configuration from its metadata, weights dequantized.

transformers does this itself, but takes 8 s to read the metadata of a 98 MB file, does so three
times and needs a further package. Here the reader of `outpace.models` meets transformers' own
tables of names and permutations, for the architectures that were compared with its result.
"""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from outpace.errors import ModelCorrupt, ModelUnsupported
from outpace.models.weights import Weights

# GGUF architecture -> model type of transformers
ARCHITECTURES: Final = {
    "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3": "gemma3_text",
}  # fmt: skip
_GEMMA3_27B_LAYERS: Final = 62  # its attention scale is not in the file; llama.cpp knows it, too


def read_config(weights: Weights) -> Any:
    """The transformers configuration a GGUF file's metadata describes.

    Raises:
        ModelUnsupported: another architecture, or a rope scaling the tables do not carry over.
    """
    from transformers import AutoConfig
    from transformers.integrations import GGUF_CONFIG_MAPPING

    fields = weights.gguf
    arch = str(fields.get("general.architecture"))
    if arch not in ARCHITECTURES:
        raise ModelUnsupported(
            f"the GGUF file has architecture {arch!r}; through transformers outpace reads "
            f"{', '.join(ARCHITECTURES)} from GGUF. Use the model's safetensors folder"
        )
    scaling = fields.get(f"{arch}.rope.scaling.type", "none")
    if "rope_freqs.weight" in weights.names() or scaling != "none":
        raise ModelUnsupported(
            f"the GGUF file scales its rotary positions ({scaling}), which transformers' tables "
            f"do not carry over; use the model's safetensors folder"
        )
    known: dict[str, Any] = {}
    for ours, theirs in GGUF_CONFIG_MAPPING[arch].items():
        if theirs is not None and f"{arch}.{ours}" in fields:
            known[theirs] = fields[f"{arch}.{ours}"]
    if arch == "qwen3" and "qwen3.attention.key_length" in fields:
        known["head_dim"] = fields["qwen3.attention.key_length"]
    if arch == "gemma3" and known.get("num_hidden_layers") == _GEMMA3_27B_LAYERS:
        known["query_pre_attn_scalar"] = known["hidden_size"] // known["num_attention_heads"]
    known["vocab_size"] = weights.shape("token_embd.weight")[0]
    known["tie_word_embeddings"] = "output.weight" not in weights.names()
    for name, field in (("bos", "bos"), ("eos", "eos"), ("pad", "padding")):
        known[f"{name}_token_id"] = fields.get(f"tokenizer.ggml.{field}_token_id")
    return AutoConfig.for_model(ARCHITECTURES[arch], **known)


def read_model(weights: Weights, config: Any, dtype: torch.dtype) -> tuple[Any, list[str]]:
    """The model with the file's weights, and the names of parameters the file lacks.

    Raises:
        ModelUnsupported: the file has tensors the model has no place for.
        ModelCorrupt: a tensor of another shape than the configuration asks for.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING
    from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor

    model_class = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    arch = str(weights.gguf.get("general.architecture"))
    processor = TENSOR_PROCESSORS.get(arch, TensorProcessor)(config=config.to_dict())
    with torch.device("meta"):
        skeleton = model_class(config)
    shapes = {name: tuple(tensor.shape) for name, tensor in skeleton.state_dict().items()}
    names = _names(arch, int(config.num_hidden_layers), shapes)
    state: dict[str, Tensor] = {}
    homeless: list[str] = []
    for name in weights.names():
        if name not in names:
            homeless.append(name)
            continue
        values = processor.process(weights=weights.dequantized(name), name=name).weights
        tensor = torch.from_numpy(np.ascontiguousarray(values)).to(dtype)
        target = names[name]
        if tuple(tensor.shape) != shapes[target]:
            raise ModelCorrupt(
                f"tensor {name!r} has shape {list(tensor.shape)} where the file's own metadata "
                f"asks for {list(shapes[target])}; download the file again"
            )
        state[target] = tensor
    if homeless:
        raise ModelUnsupported(
            f"the GGUF file has {len(homeless)} tensors that {model_class.__name__} has no place "
            f"for ({', '.join(homeless[:3])}); use the model's safetensors folder"
        )
    model, report = model_class.from_pretrained(
        None, config=config, state_dict=state, dtype=dtype, output_loading_info=True
    )
    return model, list(report.get("missing_keys", ()))


def _names(arch: str, n_layers: int, ours: Iterable[str]) -> dict[str, str]:
    """GGUF tensor name -> parameter name, by the gguf package's table."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    enum = next(key for key, name in MODEL_ARCH_NAMES.items() if name == arch)
    table = get_tensor_name_map(enum, n_layers)
    names: dict[str, str] = {}
    for name in ours:
        stem, _, suffix = name.rpartition(".")
        theirs = table.get_name(stem)
        if theirs is not None:
            names[f"{theirs}.{suffix}"] = name
    return names
