"""Weights as blocks of 32 codes with one scale and one zero each, 4 or 8 bits a code.

    value = scale * (code - half) + zero          half = 8 or 128

covers symmetric blocks (zero = 0) and blocks with a minimum m (zero = m + half * scale), and every
4-bit block is an 8-bit block with the same values. GGUF's own blocks are taken as they are where
they have this form (`from_gguf`); plain weights are rounded (`from_values`), with the scale rounded
to bf16 *first*, because the operators hold it so: then the codes make up for it.

Shapes: N outputs, K inputs (padded to blocks), B = K / 32 blocks.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK: Final = 32
Bits = Literal[4, 8]
_Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """codes_NK: uint8. scale_NB, zero_NB: fp32. n_in: inputs before padding to whole blocks."""

    codes_NK: Tensor
    scale_NB: Tensor
    zero_NB: Tensor
    bits: Bits
    n_in: int

    @property
    def shape(self) -> tuple[int, int]:
        """(outputs, inputs), padding not counted."""
        return self.codes_NK.shape[0], self.n_in

    def values(self) -> Tensor:
        """The weights these blocks stand for, fp32."""
        n_out = self.codes_NK.shape[0]
        half = 1 << (self.bits - 1)
        codes_NB32 = self.codes_NK.view(n_out, -1, BLOCK).float() - half
        value_NB32 = codes_NB32 * self.scale_NB[..., None] + self.zero_NB[..., None]
        return value_NB32.view(n_out, -1)[:, : self.n_in].contiguous()

    def widened(self) -> "Blocks":
        """The same values with 8-bit codes."""
        if self.bits == 8:
            return self
        return Blocks(
            codes_NK=self.codes_NK + 120,
            scale_NB=self.scale_NB,
            zero_NB=self.zero_NB,
            bits=8,
            n_in=self.n_in,
        )

    def rows(self, order_N: NDArray[np.int64]) -> "Blocks":
        """The same outputs in another order; blocks lie along inputs, so nothing is rounded."""
        index = torch.from_numpy(order_N)
        return Blocks(
            codes_NK=self.codes_NK[index],
            scale_NB=self.scale_NB[index],
            zero_NB=self.zero_NB[index],
            bits=self.bits,
            n_in=self.n_in,
        )


def stacked(parts: list[Blocks]) -> Blocks:
    """Several matrices over the same inputs as one; widened when their widths differ."""
    if len({part.bits for part in parts}) > 1:
        parts = [part.widened() for part in parts]
    return Blocks(
        codes_NK=torch.cat([part.codes_NK for part in parts]),
        scale_NB=torch.cat([part.scale_NB for part in parts]),
        zero_NB=torch.cat([part.zero_NB for part in parts]),
        bits=parts[0].bits,
        n_in=parts[0].n_in,
    )


def from_values(weight_NK: Tensor, bits: Bits) -> Blocks:
    """Round plain weights: 8 bits around zero, 4 bits between a block's extremes."""
    n_out, n_in = weight_NK.shape
    padded_NK = torch.nn.functional.pad(weight_NK.float(), (0, -n_in % BLOCK))
    value_NB32 = padded_NK.view(n_out, -1, BLOCK)
    if bits == 8:
        scale_NB = _bf16(value_NB32.abs().amax(2) / 127)
        zero_NB = torch.zeros_like(scale_NB)
    else:
        low_NB, high_NB = value_NB32.amin(2), value_NB32.amax(2)
        scale_NB = _bf16((high_NB - low_NB) / 15)
        zero_NB = _bf16(low_NB + 8 * scale_NB)
    half = 1 << (bits - 1)
    safe_NB = torch.where(scale_NB > 0, scale_NB, torch.ones_like(scale_NB))
    steps_NB32 = (value_NB32 - zero_NB[..., None]) / safe_NB[..., None]
    codes_NB32 = (steps_NB32.round() + half).clamp(0, 2 * half - 1)
    return Blocks(
        codes_NK=codes_NB32.to(torch.uint8).view(n_out, -1),
        scale_NB=scale_NB,
        zero_NB=zero_NB,
        bits=bits,
        n_in=n_in,
    )


def _bf16(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16).float()


def from_gguf(raw_NC: _Bytes, dtype: str) -> Blocks | None:
    """GGUF blocks as they are, or None where their form is another (blocks of 16, grids, ...).

    Layouts: ggml-common.h; low nibbles hold a block's first half, high nibbles its second.
    """
    n_out = raw_NC.shape[0]
    if dtype in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"):
        return _simple(raw_NC, dtype)
    if dtype not in ("Q4_K", "Q5_K"):
        return None
    n_bytes = 144 if dtype == "Q4_K" else 176
    blocks_NSC = raw_NC.reshape(n_out, -1, n_bytes)
    scale_NS1, least_NS1 = _half(blocks_NSC[..., 0:2]), _half(blocks_NSC[..., 2:4])
    scale_NS8, least_NS8 = _six_bits(blocks_NSC[..., 4:16])
    low_NS42 = _nibbles(blocks_NSC[..., -128:].reshape(n_out, -1, 4, 32))
    codes = np.stack(low_NS42, axis=3)  # (N, S, 4, 2, 32): pairs of blocks share bytes
    if dtype == "Q5_K":
        high_NS32 = blocks_NSC[..., 16:48]
        bits_NS8 = np.stack([(high_NS32 >> i) & 1 for i in np.arange(8, dtype=np.uint8)], axis=2)
        codes = codes | (bits_NS8.reshape(codes.shape) << np.uint8(4))
    return _blocks(
        codes.reshape(n_out, -1),
        scale=(scale_NS1 * scale_NS8).reshape(n_out, -1),
        least=-(least_NS1 * least_NS8).reshape(n_out, -1),
        code_bits=4 if dtype == "Q4_K" else 5,
    )


def _simple(raw_NC: _Bytes, dtype: str) -> Blocks:
    """Blocks of 32 with an fp16 scale, perhaps an fp16 minimum, then codes."""
    n_out = raw_NC.shape[0]
    n_bytes = {"Q4_0": 18, "Q4_1": 20, "Q5_0": 22, "Q5_1": 24, "Q8_0": 34}[dtype]
    blocks_NBC = raw_NC.reshape(n_out, -1, n_bytes)
    scale_NB = _half(blocks_NBC[..., 0:2])[..., 0]
    if dtype == "Q8_0":
        codes = blocks_NBC[..., 2:] ^ np.uint8(128)  # two's complement -> offset 128
        return _blocks(codes.reshape(n_out, -1), scale=scale_NB, least=None, code_bits=8)
    least_NB = _half(blocks_NBC[..., 2:4])[..., 0] if dtype.endswith("_1") else None
    codes = np.concatenate(_nibbles(blocks_NBC[..., -16:]), axis=2)
    code_bits = int(dtype[1])
    if code_bits == 5:
        high_NB4 = np.ascontiguousarray(blocks_NBC[..., -20:-16])
        codes = codes | (np.unpackbits(high_NB4, axis=2, bitorder="little") << np.uint8(4))
    return _blocks(codes.reshape(n_out, -1), scale=scale_NB, least=least_NB, code_bits=code_bits)


def _blocks(
    codes_NK: _Bytes,
    *,
    scale: NDArray[np.float32],
    least: NDArray[np.float32] | None,
    code_bits: int,
) -> Blocks:
    """Centre codes; `least` is the value of code 0, None = codes are centred on zero."""
    bits: Bits = 4 if code_bits == 4 else 8
    middle = 1 << (code_bits - 1)
    shift = 0 if code_bits in (4, 8) else 128 - middle
    zero = np.zeros_like(scale) if least is None else least + middle * scale
    return Blocks(
        codes_NK=torch.from_numpy(np.ascontiguousarray(codes_NK) + np.uint8(shift)),
        scale_NB=torch.from_numpy(np.ascontiguousarray(scale)),
        zero_NB=torch.from_numpy(np.ascontiguousarray(zero)),
        bits=bits,
        n_in=codes_NK.shape[1],
    )


def _half(pair: _Bytes) -> NDArray[np.float32]:
    return np.ascontiguousarray(pair).view("<f2").astype(np.float32)


def _nibbles(packed: _Bytes) -> tuple[_Bytes, _Bytes]:
    return packed & np.uint8(15), packed >> np.uint8(4)


def _six_bits(packed_NS12: _Bytes) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Eight 6-bit scales and eight 6-bit minima of a K superblock, packed into twelve bytes."""
    a, b, c = packed_NS12[..., 0:4], packed_NS12[..., 4:8], packed_NS12[..., 8:12]
    scale = np.concatenate((a & 63, (c & 15) | ((a >> 6) << 4)), axis=-1)
    least = np.concatenate((b & 63, (c >> 4) | ((b >> 6) << 4)), axis=-1)
    return scale.astype(np.float32), least.astype(np.float32)
