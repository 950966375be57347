"""Small random models as files on disk: transformers' own configurations and weights, and GGUF.

Large enough to cross a block of 256 keys, a sliding window and several tiles; weights large enough
that no mistake hides behind small logits.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outpace.models.files import ModelFiles
from outpace.models.resolve import resolve
from outpace.runtimes.native.passes import Decoder, Pass

VOCAB = 96
WINDOW = 270
_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 640,
    "eos_token_id": 1, "bos_token_id": 2, "pad_token_id": 0, "rms_norm_eps": 1e-5,
}  # fmt: skip
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 160}
_LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 80,
}  # fmt: skip
CASES = (
    "llama", "llama linear", "llama llama3", "llama yarn", "llama biases", "mistral", "qwen2",
    "qwen2 window", "qwen3", "smollm3", "gemma3", "gemma3 scaled",
)  # fmt: skip


def config(case: str) -> Any:
    """transformers' configuration of a case."""
    import transformers as t

    def rope(params: dict[str, Any]) -> dict[str, Any]:
        return {**_SIZES, "rope_parameters": {"rope_theta": 500.0, **params}}

    slide = {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}
    gemma = {
        "sliding_window": WINDOW, "head_dim": 32, "query_pre_attn_scalar": 24,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    }  # fmt: skip
    wide = {
        **_SIZES, "hidden_size": 192, "num_attention_heads": 6, "intermediate_size": 1536,
        "num_hidden_layers": 2,
    }  # fmt: skip
    makers: dict[str, Any] = {
        "llama wide": lambda: t.LlamaConfig(**wide),
        "llama": lambda: t.LlamaConfig(**_SIZES),
        "llama linear": lambda: t.LlamaConfig(**rope({"rope_type": "linear", "factor": 3.0})),
        "llama llama3": lambda: t.LlamaConfig(**rope(_LLAMA3), tie_word_embeddings=True),
        "llama yarn": lambda: t.LlamaConfig(**rope(_YARN), head_dim=24),
        "llama biases": lambda: t.LlamaConfig(**_SIZES, attention_bias=True, mlp_bias=True),
        "mistral": lambda: t.MistralConfig(**_SIZES, sliding_window=WINDOW, head_dim=32),
        "qwen2": lambda: t.Qwen2Config(**_SIZES, tie_word_embeddings=True),
        "qwen2 window": lambda: t.Qwen2Config(**_SIZES, **slide),
        "qwen3": lambda: t.Qwen3Config(**_SIZES, head_dim=32),
        "smollm3": lambda: t.SmolLM3Config(**{**_SIZES, "num_hidden_layers": 5}),
        "gemma3": lambda: t.Gemma3TextConfig(
            **_SIZES, **gemma, attn_logit_softcapping=None, final_logit_softcapping=9.0
        ),
        "gemma3 scaled": lambda: t.Gemma3TextConfig(
            **_SIZES,
            **gemma,
            rope_parameters={
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        ),
    }
    return makers[case]()


def random_model(case: str, *, seed: int = 5) -> Any:
    """A causal language model of transformers with random weights, fp32."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    made: Any = AutoModelForCausalLM.from_config(
        config(case), dtype=torch.float32, attn_implementation="eager"
    )
    with torch.no_grad():
        for name, tensor in made.named_parameters():
            tensor.normal_(0, 0.2 if tensor.dim() > 1 or name.endswith("bias") else 0.1)
            if tensor.dim() == 1 and not name.endswith("bias") and "gemma" not in case:
                tensor.add_(1)
    return made.eval()


def saved(model: Any, folder: Path) -> ModelFiles:
    """The model as safetensors on disk, found again."""
    model.save_pretrained(folder)
    return resolve(f"{folder}")


def expected(model: Any, tokens: NDArray[np.int32]) -> Tensor:
    """transformers' logits of every position."""
    with torch.no_grad():
        logits: Tensor = model(torch.from_numpy(tokens.astype(np.int64))[None]).logits[0]
    return logits


def text(n_tokens: int, *, seed: int = 0) -> NDArray[np.int32]:
    return np.random.default_rng(seed).integers(0, VOCAB, n_tokens).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One sequence's rows in a pass: chain unless parents are given; pages in the pool's order."""

    tokens: NDArray[np.int32]
    n_cached: int
    pages: NDArray[np.int32]
    parents: tuple[int, ...] | None = None


def one_pass(parts: list[Part], *, asked: bool = True, logits: bool = True) -> Pass:
    """All rows of all parts, all of them asked or none."""
    starts = np.cumsum([0, *(len(part.tokens) for part in parts)])
    positions, parents = [], []
    for part, start in zip(parts, starts[:-1], strict=True):
        local = part.parents or tuple(range(-1, len(part.tokens) - 1))
        depth: list[int] = []
        for parent in local:
            depth.append(part.n_cached if parent < 0 else depth[parent] + 1)
        positions += depth
        parents += [-1 if parent < 0 else parent + int(start) for parent in local]
    width = max(len(part.pages) for part in parts)
    tables = [
        np.pad(part.pages, (0, width - len(part.pages)), constant_values=-1) for part in parts
    ]
    n_rows = int(starts[-1])
    return Pass(
        tokens_R=np.concatenate([part.tokens for part in parts]),
        positions_R=np.array(positions, np.int32),
        parents_R=np.array(parents, np.int32),
        starts_S1=starts.astype(np.int32),
        n_cached_S=np.array([part.n_cached for part in parts], np.int32),
        tables_SP=np.array(tables, np.int32),
        asked_A=np.arange(n_rows if asked else 0, dtype=np.int32),
        logits=logits,
    )


def logits_of(decoder: Decoder, parts: list[Part]) -> Tensor:
    """Logits of every row."""
    result = decoder.forward(one_pass(parts)).logits_AV
    assert result is not None
    return result


def in_chunks(decoder: Decoder, tokens: NDArray[np.int32], borders: list[int]) -> Tensor:
    """Logits of a text computed in chunks that end at these borders, on the first pages."""
    pages = np.arange(-(-len(tokens) // decoder.page_size), dtype=np.int32)
    cuts = [0, *borders, len(tokens)]
    return torch.cat(
        [
            logits_of(decoder, [Part(tokens=tokens[a:b], n_cached=a, pages=pages)])
            for a, b in pairwise(cuts)
        ]
    )
