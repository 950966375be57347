"""Blocks of codes hold GGUF's values exactly, and round plain values by at most half a step."""

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import quants

from outpace.runtimes.native.eager.quantize import Bits, from_gguf, from_values, stacked

ROWS, COLUMNS = 6, 512


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_gguf_blocks_are_held_exactly(kind: str) -> None:
    values = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    raw = quants.quantize(values, Kind[kind])
    blocks = from_gguf(raw, kind)
    assert blocks is not None
    assert blocks.bits == (4 if kind.startswith("Q4") else 8)
    true = torch.from_numpy(quants.dequantize(raw, Kind[kind]))
    assert torch.equal(blocks.values(), true)
    assert torch.equal(blocks.widened().values(), true)
    order = np.arange(ROWS)[::-1].copy()
    assert torch.equal(blocks.rows(order).values(), true.flip(0))


@pytest.mark.parametrize(("kind", "n_bytes"), [("Q4_K", 144), ("Q5_K", 176)])
def test_gguf_superblocks_are_held_to_the_last_bit_of_fp32(kind: str, n_bytes: int) -> None:
    rng = np.random.default_rng(1)
    raw = rng.integers(0, 256, (ROWS, 2, n_bytes), dtype=np.uint8)
    raw[..., :4] = rng.random((ROWS, 2, 2)).astype(np.float16).view(np.uint8)
    raw = raw.reshape(ROWS, -1)
    blocks = from_gguf(raw, kind)
    assert blocks is not None
    true = torch.from_numpy(quants.dequantize(raw, Kind[kind]))
    torch.testing.assert_close(blocks.values(), true, rtol=1e-6, atol=1e-4)


def test_blocks_of_another_form_are_left_to_rounding() -> None:
    assert from_gguf(np.zeros((1, 210), np.uint8), "Q6_K") is None


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("n_in", [64, 50])
def test_rounding_errs_by_little_more_than_half_a_step(n_in: int, bits: Bits) -> None:
    weight_NK = torch.randn(40, n_in, generator=torch.Generator().manual_seed(0))
    weight_NK[3] = 0
    blocks = from_values(weight_NK, bits)
    assert blocks.shape == (40, n_in)
    assert torch.equal(blocks.values()[3], weight_NK[3])
    step = blocks.scale_NB.amax(1, keepdim=True)  # scales and zeros are themselves rounded to bf16
    assert ((blocks.values() - weight_NK).abs() <= 0.6 * step + 1e-3 * (bits == 4)).all()


def test_matrices_of_two_widths_stack_without_rounding() -> None:
    generator = torch.Generator().manual_seed(1)
    a = from_values(torch.randn(4, 64, generator=generator), 4)
    b = from_values(torch.randn(5, 64, generator=generator), 8)
    both = stacked([a, b])
    assert both.bits == 8
    assert torch.equal(both.values(), torch.cat((a.values(), b.values())))
