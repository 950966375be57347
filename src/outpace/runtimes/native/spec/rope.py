"""Rotary frequencies and their scalings, in the arithmetic transformers uses.

A scaling changes only the inverse frequencies (and, for yarn, one factor on cos and sin):
linear divides them (positions squeezed); llama3 divides the slow ones and blends between; yarn
(Peng et al. 2309.00071) ramps from kept to divided by how often a dimension turns over the
original context. They are computed in fp32 tensors, so they are bit-equal to transformers'.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from outpace.errors import ModelUnsupported
from outpace.runtimes.native.spec.model import Rope

SUPPORTED = ("default", "linear", "llama3", "yarn")


def make_rope(params: Mapping[str, object], *, head_dim: int, context_tokens: int) -> Rope:
    """Rope of transformers' `rope_parameters` (rope_theta, rope_type, and that type's own keys).

    Raises ModelUnsupported for scalings whose frequencies depend on the text, or unknown ones.
    """
    kind = str(params.get("rope_type", params.get("type", "default")) or "default")
    if kind not in SUPPORTED:
        raise ModelUnsupported(
            f"rotary scaling {kind!r} is not supported by the native runtime; it supports "
            f"{', '.join(SUPPORTED)}"
        )
    if _number(params, "partial_rotary_factor", 1.0) != 1.0:
        raise ModelUnsupported(
            "partial rotation (partial_rotary_factor) is not supported by the native runtime"
        )
    theta = _number(params, "rope_theta", 10000.0)
    freq_F = base_frequencies(theta, head_dim)
    if kind == "linear":
        return _frozen(freq_F / _number(params, "factor"))
    if kind == "llama3":
        return _frozen(_llama3(freq_F, params, context_tokens))
    if kind == "yarn":
        return _yarn(params, theta=theta, head_dim=head_dim, context_tokens=context_tokens)
    return _frozen(freq_F)


def base_frequencies(theta: float, head_dim: int) -> Tensor:
    """1 / theta^(2i / head_dim) for i below head_dim / 2, fp32."""
    exponent_F = torch.arange(0, head_dim, 2, dtype=torch.int64).to(torch.float32) / head_dim
    inv_freq_F: Tensor = 1.0 / (theta**exponent_F)
    return inv_freq_F


def divided(rope: Rope, factors: Tensor) -> Rope:
    """The same rotation with each frequency divided by a stored factor (GGUF's rope_freqs)."""
    return _frozen(torch.tensor(rope.inv_freq) / factors, rope.scale)


def _frozen(inv_freq_F: Tensor, scale: float = 1.0) -> Rope:
    return Rope(inv_freq=tuple(inv_freq_F.tolist()), scale=scale)


def _number(params: Mapping[str, object], key: str, default: float | None = None) -> float:
    value = params.get(key)
    if value is None:
        value = default
    if not isinstance(value, int | float):
        raise ModelUnsupported(f"rotary scaling needs a number {key!r}, found {value!r}")
    return float(value)


def _llama3(freq_F: Tensor, params: Mapping[str, object], context_tokens: int) -> Tensor:
    factor = _number(params, "factor")
    low, high = _number(params, "low_freq_factor"), _number(params, "high_freq_factor")
    original = _number(params, "original_max_position_embeddings", context_tokens)
    wavelength_F = 2 * math.pi / freq_F
    slow_F = wavelength_F > original / low
    scaled_F = torch.where(slow_F, freq_F / factor, freq_F)
    smooth_F = (original / wavelength_F - low) / (high - low)
    blend_F = (1 - smooth_F) * scaled_F / factor + smooth_F * scaled_F
    between_F = ~(wavelength_F < original / high) & ~slow_F
    return torch.where(between_F, blend_F, scaled_F)


def _yarn(
    params: Mapping[str, object], *, theta: float, head_dim: int, context_tokens: int
) -> Rope:
    original = _number(params, "original_max_position_embeddings", context_tokens)
    factor = _number(params, "factor", context_tokens / original)

    def turns_at(n_turns: float) -> float:
        """The dimension that turns n_turns times over the original context."""
        return head_dim * math.log(original / (n_turns * 2 * math.pi)) / (2 * math.log(theta))

    low = turns_at(_number(params, "beta_fast", 32.0))
    high = turns_at(_number(params, "beta_slow", 1.0))
    if params.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    width = high - low if high != low else 0.001
    ramp_F = torch.clamp((torch.arange(head_dim // 2, dtype=torch.float32) - low) / width, 0, 1)
    keep_F = 1 - ramp_F
    period_F = theta ** (torch.arange(0, head_dim, 2).to(torch.float32) / head_dim)
    inv_freq_F = 1.0 / (factor * period_F) * (1 - keep_F) + 1.0 / period_F * keep_F
    return _frozen(inv_freq_F, _yarn_scale(params, factor))


def _yarn_scale(params: Mapping[str, object], factor: float) -> float:
    given = params.get("attention_factor")
    if isinstance(given, int | float):
        return float(given)

    def scale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    mscale, mscale_all = params.get("mscale"), params.get("mscale_all_dim")
    if mscale and mscale_all:
        return scale(_number(params, "mscale")) / scale(_number(params, "mscale_all_dim"))
    return scale(1.0)
