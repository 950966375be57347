"""Packing holds GGUF's weights exactly, and products are integer dot products of rounded rows."""

import ctypes

import gguf
import numpy as np
import pytest

from outpace.errors import ModelUnsupported
from outpace.runtimes.native.kernels import GGML, Format, KernelDecoder, Matrix, paths, why_missing
from outpace.runtimes.native.kernels.library import library
from runtimes.native.kernels.tiny import LLAMA, build

pytestmark = pytest.mark.skipif(why_missing() is not None, reason=str(why_missing()))

RNG = np.random.default_rng(5)
# Where each type keeps half-precision scales in a block; all other bytes may be anything.
BLOCKS = {
    GGML.Q4_0: (32, 18, (0,)),
    GGML.Q4_1: (32, 20, (0, 2)),
    GGML.Q5_0: (32, 22, (0,)),
    GGML.Q5_1: (32, 24, (0, 2)),
    GGML.Q8_0: (32, 34, (0,)),
    GGML.Q4_K: (256, 144, (0, 2)),
    GGML.Q5_K: (256, 176, (0, 2)),
    GGML.Q6_K: (256, 210, (208,)),
}


def random_blocks(source: GGML, n: int, k: int) -> np.ndarray:
    """Rows of random blocks with scales between 0.001 and 1."""
    weights, size, halves = BLOCKS[source]
    blocks = RNG.integers(0, 256, (n * k // weights, size), np.uint8)
    for at in halves:
        scales = RNG.uniform(0.001, 1, len(blocks)).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(n, -1)


@pytest.mark.parametrize("source", BLOCKS)
def test_gguf_blocks_are_held_exactly(source: GGML) -> None:
    blocks = random_blocks(source, 21, 512)
    matrix = Matrix.pack(blocks, source, n=21, k=512)
    want = gguf.dequantize(blocks, gguf.GGMLQuantizationType(int(source)))
    # numpy rounds scale * q and adds the minimum; so do the kernels, in the same order.
    np.testing.assert_array_equal(matrix.rows(), want)
    np.testing.assert_array_equal(matrix.rows(17, 3), want[17:20])
    matrix.close()


@pytest.mark.parametrize("source", BLOCKS)
@pytest.mark.parametrize("path", paths() if why_missing() is None else ())
@pytest.mark.parametrize("fine", [False, True])
def test_products_are_those_of_rounded_rows(source: GGML, path: str, fine: bool) -> None:
    matrix = Matrix.pack(random_blocks(source, 40, 256), source, n=40, k=256)
    x = RNG.standard_normal((7, 256)).astype(np.float32) * 3
    got = np.empty((7, 40), np.float32)
    decoder = KernelDecoder(build(LLAMA), n_pages=1, page_size=16, n_threads=1, path=path)
    handle = ctypes.c_void_p(decoder.handle.value)
    assert not library().outpace_engine_matmul(
        handle, matrix.handle, x.ctypes.data, 7, int(fine), got.ctypes.data
    )
    blocks = x.reshape(7, -1, 32)
    top = np.abs(blocks).max(-1, keepdims=True)
    most = np.float32(127 * 128 if fine else 127)
    rounded = (np.rint(blocks * (most / top)) * (top / most)).reshape(7, 256)
    want = rounded.astype(np.float64) @ matrix.rows().T.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * np.abs(want).max())
    decoder.close()
    matrix.close()


@pytest.mark.parametrize(
    ("target", "error"), [(Format.Q8, 0.01), (Format.Q4, 0.13), (Format.BF16, 0.004)]
)
def test_rounding_on_the_way_in_is_near(target: Format, error: float) -> None:
    w = RNG.standard_normal((50, 70)).astype(np.float32)
    held = Matrix.pack(w, GGML.F32, n=50, k=70, target=target)
    assert held.format is target
    assert np.abs(held.rows() - w).mean() < error * np.abs(w).mean()


def test_what_cannot_be_packed_is_refused_by_name() -> None:
    w = np.ones((4, 64), np.float32)
    for data, source, k, words in (
        (w, 99, 64, "type 99 is not supported"),
        (w, GGML.F32, 63, "take 1008 bytes, not 1024"),
        (w.astype(np.uint8), GGML.Q8_0, 50, "do not fit blocks of 32"),
        (np.full((4, 64), np.nan, np.float32), GGML.F32, 64, "not a number"),
        (np.full((4, 68), 0x7E, np.uint8), GGML.Q8_0, 64, "not a number"),
    ):
        with pytest.raises(ModelUnsupported, match=words):
            Matrix.pack(data, source, n=4, k=k)
    closed = Matrix.pack(w, GGML.F32, n=4, k=64)
    closed.close()
    closed.close()
    with pytest.raises(ModelUnsupported, match="closed"):
        closed.rows()
