"""Every private torch operator outpace calls, each checked at load against a plain product.

    mkldnn._reorder_linear_weight, _linear_pointwise   oneDNN's product over prepacked weights
    aten._convert_weight_to_int4pack_for_cpu, _weight_int4pack_mm_for_cpu   4-bit blocks of 32

Their names, layouts and machines may change with any torch release. One that is missing, raises or
is wrong is replaced by `F.linear` on plain weights, with a warning that says what it costs.

Eight bits are two planes of four: with code = 16 hi + lo,
`s (code - 128) = 16 s (hi - 8) + s (lo - 8) + 8 s`, so one operator serves both widths.

Shapes: R rows, K inputs, N outputs, B = K / 32 blocks.
"""

import warnings
from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from outpace.runtimes.native.eager.quantize import BLOCK, Blocks
from outpace.runtimes.native.eager.tiles import Agreement, RawProduct, Tiled, find_agreement

_LANES: Final = 16  # outputs of the 4-bit operator come in sixteens
_PACKED_AT_ONCE: Final = 16384  # outputs widened to 32 bits while they are packed
_TOLERANCE: Final = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
_agreements: dict[tuple[object, ...], Agreement] = {}


def prepacked(weight_NK: Tensor) -> RawProduct:
    """oneDNN's product, in the type of the weights."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight_NK, 8)
    dtype = weight_NK.dtype
    run = torch.ops.mkldnn._linear_pointwise

    def product(x_RK: Tensor) -> Tensor:
        y_RN: Tensor = run(x_RK.to(dtype), packed, None, "none", [], "")
        return y_RN.float()

    return product


def dense(
    weight_NK: Tensor, dtype: torch.dtype, *, fast: Callable[[Tensor], RawProduct] = prepacked
) -> Tiled:
    """A product with fp32 or bf16 weights: `fast` on a CPU if it proves right, plain otherwise."""
    plain_NK = weight_NK.to(dtype)
    make: Callable[[Tensor], RawProduct] = _plain
    raw = _plain(plain_NK)
    if plain_NK.device.type == "cpu":
        try:
            fast_raw = fast(plain_NK)
            some_N = _some(plain_NK.shape[0])
            _check(fast_raw, plain_NK[some_N], some_N, _TOLERANCE[dtype])
            make, raw = fast, fast_raw
        except (RuntimeError, AttributeError, _WrongProduct) as error:
            _warn("oneDNN's prepacked product", error, "F.linear, about 1.5 times slower")
    n_out, n_in = plain_NK.shape
    key = (make, dtype, plain_NK.device, n_in, n_out, torch.get_num_threads())
    if key not in _agreements:
        _agreements[key] = find_agreement(
            lambda w_NK: make(w_NK.to(dtype)), n_in=n_in, n_out=n_out, device=plain_NK.device
        )
    n_bytes = plain_NK.numel() * plain_NK.element_size()
    return Tiled(raw=raw, n_out=n_out, n_bytes=n_bytes, agreement=_agreements[key])


def four_bit(blocks: Blocks) -> Tiled:
    """A product with blocks of 4- or 8-bit codes; rows are rounded to bf16, sums are fp32."""
    some_N = _some(blocks.shape[0])
    try:
        planes = [Plane(*plane) for plane in split_codes(blocks)]
        raw = sum_of_planes(planes, blocks.shape)
        _check(raw, blocks.rows(some_N).values(), some_N, _TOLERANCE[torch.bfloat16])
    except (RuntimeError, AttributeError, _WrongProduct) as error:
        _warn("the 4-bit product", error, "bf16 weights, 2 to 4 times the memory")
        return dense(blocks.values(), torch.bfloat16)
    n_bytes = sum(p.codes.nbytes + p.scales_BN2.nbytes for p in planes)
    n_out, n_in = blocks.shape
    key = ("4 bits", n_in, n_out, torch.get_num_threads())
    if key not in _agreements:
        _agreements[key] = find_agreement(
            _four_bit_integers, n_in=n_in, n_out=n_out, device=torch.device("cpu")
        )
    return Tiled(raw=raw, n_out=n_out, n_bytes=n_bytes, agreement=_agreements[key])


class _WrongProduct(Exception):
    """An operator ran and its numbers are not the product."""


def _warn(what: str, error: Exception, instead: str) -> None:
    warnings.warn(
        f"{what} does not work in torch {torch.__version__} on this machine "
        f"({str(error).splitlines()[0][:200]}); using {instead}",
        RuntimeWarning,
        stacklevel=4,
    )


def _plain(weight_NK: Tensor) -> RawProduct:
    def product(x_RK: Tensor) -> Tensor:
        return functional.linear(x_RK.to(weight_NK.dtype), weight_NK).float()

    return product


class Plane:
    """Four bits of every code, packed, with bf16 (scale, zero) per block and output."""

    def __init__(self, codes_NK: Tensor, scale_NB: Tensor, zero_NB: Tensor) -> None:
        spare = -codes_NK.shape[0] % _LANES
        codes_NK = functional.pad(codes_NK, (0, 0, 0, spare), value=8)
        pack = torch.ops.aten._convert_weight_to_int4pack_for_cpu
        parts = [pack(part_NK.int(), 1) for part_NK in torch.split(codes_NK, _PACKED_AT_ONCE)]
        self.codes = torch.cat(parts)
        pair_NB2 = torch.stack((scale_NB, zero_NB), dim=2)
        pair_NB2 = functional.pad(pair_NB2, (0, 0, 0, 0, 0, spare))
        self.scales_BN2 = pair_NB2.transpose(0, 1).to(torch.bfloat16).contiguous()


def _four_bit_integers(weight_NK: Tensor) -> RawProduct:
    """The product of one plane with integer weights of -8 to 7, for checking row counts."""
    n_out, n_in = weight_NK.shape
    codes_NK = functional.pad(weight_NK + 8, (0, -n_in % BLOCK), value=8).to(torch.uint8)
    one_NB = torch.ones(n_out, codes_NK.shape[1] // BLOCK)
    return sum_of_planes([Plane(codes_NK, one_NB, torch.zeros_like(one_NB))], (n_out, n_in))


def split_codes(blocks: Blocks) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Codes of 4 bits, scales and zeros of each plane."""
    codes_NK, scale_NB, zero_NB = blocks.codes_NK, blocks.scale_NB, blocks.zero_NB
    if blocks.bits == 4:
        return [(codes_NK, scale_NB, zero_NB)]
    high = (codes_NK >> 4, 16 * scale_NB, zero_NB)
    return [high, (codes_NK & 15, scale_NB, 8 * scale_NB)]


def sum_of_planes(planes: list[Plane], shape: tuple[int, int]) -> RawProduct:
    """The product of the matrix that the planes add up to, of shape (outputs, inputs)."""
    n_out, n_in = shape
    run = torch.ops.aten._weight_int4pack_mm_for_cpu
    spare = -n_in % BLOCK

    def product(x_RK: Tensor) -> Tensor:
        x_RK = functional.pad(x_RK, (0, spare)) if spare else x_RK
        x_RK = x_RK.to(torch.bfloat16)
        first, *rest = planes
        y_RN: Tensor = run(x_RK, first.codes, BLOCK, first.scales_BN2).float()
        for plane in rest:
            y_RN = y_RN + run(x_RK, plane.codes, BLOCK, plane.scales_BN2)
        return y_RN if y_RN.shape[1] == n_out else y_RN[:, :n_out].contiguous()

    return product


def _some(n_out: int) -> NDArray[np.int64]:
    """At most 256 outputs, spread over all of them."""
    return np.unique(np.linspace(0, n_out - 1, 256).astype(np.int64))


def _check(raw: RawProduct, some_NK: Tensor, some_N: NDArray[np.int64], tolerance: float) -> None:
    """Three random rows against fp64 at the outputs some_N, whose weights are some_NK."""
    n_in = some_NK.shape[1]
    x_RK = torch.randn(3, n_in, generator=torch.Generator().manual_seed(n_in))
    true_RN = x_RK.double() @ some_NK.double().T
    error = (raw(x_RK)[:, torch.from_numpy(some_N)] - true_RN).abs().max().item()
    size = true_RN.abs().max().item()
    if not error <= tolerance * max(size, 1e-30):
        raise _WrongProduct(f"off by {error:.3g} where values reach {size:.3g}")
