"""Tiny random models of transformers, built from configurations: no files, no network."""

import functools
from typing import Any

import torch

VOCAB = 61
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "max_position_embeddings": 96, "eos_token_id": 1, "bos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
WINDOW = 8
NAMES = (
    "llama", "qwen2", "qwen3", "mistral", "gemma3", "gpt2", "gpt_neox", "falcon", "mixtral",
)  # fmt: skip


def config(name: str, **changes: object) -> Any:
    """The configuration of a tiny model by its type's name."""
    import transformers as t

    small: dict[str, Any] = {**SIZES, **changes}
    if name == "mistral":
        return t.MistralConfig(**{"sliding_window": WINDOW, **small})
    if name == "gemma3":
        kinds = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
        return t.Gemma3TextConfig(**{"sliding_window": WINDOW, "layer_types": kinds,
                                     "query_pre_attn_scalar": 8, **small})  # fmt: skip
    if name == "gpt2":
        return t.GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=3, n_head=4, n_positions=96,
                            eos_token_id=1, bos_token_id=2)  # fmt: skip
    if name == "falcon":  # ALiBi: positions enter by the index of the key
        return t.FalconConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=3,
                              num_attention_heads=4, alibi=True, eos_token_id=1)  # fmt: skip
    if name == "mixtral":
        return t.MixtralConfig(**{**small, "num_local_experts": 4, "sliding_window": None})
    makers = {"llama": t.LlamaConfig, "qwen2": t.Qwen2Config, "qwen3": t.Qwen3Config,
              "gpt_neox": t.GPTNeoXConfig}  # fmt: skip
    return makers[name](**small)


@functools.cache
def model(name: str) -> Any:
    """A random model in float32; weights larger than usual, so that no difference hides."""
    return build(config(name))


def build(settings: Any, *, seed: int = 3) -> Any:
    """The causal language model of a configuration, with random weights from `seed`."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    made: Any = AutoModelForCausalLM.from_config(settings, dtype=torch.float32)
    with torch.no_grad():
        for tensor in made.parameters():
            if tensor.dim() > 1:
                tensor.normal_(0, 0.25)
    return made.eval()
