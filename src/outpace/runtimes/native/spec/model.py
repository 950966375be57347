"""ModelSpec: everything the arithmetic of a pass depends on, and nothing about where it came from.

One decoder layer is

    x += post(attention(norm(x)))          post = a norm in Gemma, nothing elsewhere
    x += post(down(act(gate(n)) * up(n)))  n = norm(x)

and all supported families are values of this spec, not branches of the code: Llama 2/3, Mistral,
Qwen2/2.5, Qwen3, SmolLM2/3 and Gemma 3 (text).
"""

from dataclasses import dataclass
from typing import Literal

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Rotary positions: pair i of a head turns by position * inv_freq[i] (Su et al. 2104.09864).

    Every scaling (linear, llama3, yarn) ends in these two values. scale multiplies cos and sin.
    """

    inv_freq: tuple[float, ...]
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSpec:
    """What differs between layers. rope None = positions are not rotated (SmolLM3's fourth layers).

    window: a row sees itself and the window - 1 positions before it; None = all of them.
    """

    rope: Rope | None
    window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A decoder-only transformer of the Llama kind. Sizes are counts of values.

    norm_offset: added to stored norm weights (Gemma's safetensors hold w of 1 + w; its GGUF files
    hold the sum already). attention_scale multiplies q k. softcaps: c * tanh(x / c), None = absent.
    """

    family: str
    n_layers: int
    hidden: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    ffn: int
    vocab_size: int
    context_tokens: int
    norm_eps: float
    norm_offset: float
    activation: Activation
    attention_scale: float
    embedding_scale: float
    qk_norm: bool
    post_norms: bool
    tied: bool
    layers: tuple[LayerSpec, ...]
    attention_softcap: float | None = None
    logit_softcap: float | None = None
    eos_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        sizes = (self.n_layers, self.hidden, self.n_heads, self.n_kv_heads, self.head_dim, self.ffn)
        if min(*sizes, self.vocab_size, self.context_tokens) < 1:
            raise ValueError(f"a model has no size below 1: {self}")
        if self.n_heads % self.n_kv_heads or self.head_dim % 2:
            raise ValueError(
                f"{self.n_heads} heads over {self.n_kv_heads} K/V heads of size {self.head_dim}: "
                f"heads must divide evenly and their size must be even"
            )
        if len(self.layers) != self.n_layers:
            raise ValueError(f"{len(self.layers)} layer specs for {self.n_layers} layers")

    @property
    def group(self) -> int:
        """Query heads that share one K/V head."""
        return self.n_heads // self.n_kv_heads

    @property
    def windows(self) -> tuple[int | None, ...]:
        """The distinct windows of the layers, in order of first use."""
        return tuple(dict.fromkeys(layer.window for layer in self.layers))
