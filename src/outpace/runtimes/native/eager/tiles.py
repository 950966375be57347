"""Row invariance of a matrix product: only row counts whose results were seen to agree are used.

A fast product picks its loop, and with it the order of its sums, by the shape it is given; so the
same row can differ in its last bits between a pass of one row and one of eight. Within one shape
every row is computed alike, whatever its place or neighbours. Hence: rows are cut and padded to a
few fixed counts ("tiles"), and at load each count is compared, bit by bit, with the largest on
this machine's own operators. Counts that disagree are dropped (measured: MKL's fp32 product below
four rows; oneDNN's single row when it splits the inner dimension over threads). If the largest
does not even agree with itself after reordering its rows, the product makes no promise.

Shapes: R rows, K inputs, N outputs, T rows of a tile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

RawProduct = Callable[[Tensor], Tensor]
CANDIDATES: Final = (1, 2, 4, 8, 16, 32, 64, 256)
_ENOUGH_OUTPUTS: Final = 16384  # beyond this nobody splits sums to feed more threads
_CHECK_BUDGET: Final = 1 << 32  # multiplications one check may spend


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """tiles: row counts that give bit-equal rows, ascending. exact: whether order changes nothing.

    With exact False, tiles is the largest candidate alone and no promise is made.
    """

    tiles: tuple[int, ...]
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiled:
    """A product x_RK -> y_RN (fp32 both ways) run only at row counts that agree."""

    raw: RawProduct
    n_out: int
    n_bytes: int
    agreement: Agreement

    def __call__(self, x_RK: Tensor) -> Tensor:
        n_rows = x_RK.shape[0]
        tiles = self.agreement.tiles
        if n_rows in tiles:
            return self.raw(x_RK)
        whole = tiles[-1]
        parts = [self._one(x_RK[i : i + whole]) for i in range(0, n_rows, whole)]
        if not parts:
            return x_RK.new_empty((0, self.n_out))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _one(self, x_RK: Tensor) -> Tensor:
        n_rows = x_RK.shape[0]
        tile = fitting(n_rows, self.agreement.tiles)
        if tile == n_rows:
            return self.raw(x_RK)
        return self.raw(functional.pad(x_RK, (0, 0, 0, tile - n_rows)))[:n_rows]


def fitting(n_rows: int, tiles: Sequence[int]) -> int:
    """The smallest tile that holds n_rows, or the largest there is."""
    return next((tile for tile in tiles if tile >= n_rows), tiles[-1])


def find_agreement(
    make: Callable[[Tensor], RawProduct], *, n_in: int, n_out: int, device: torch.device
) -> Agreement:
    """Compare every candidate row count with the largest affordable one.

    make: weights (integers of -7 to 7, any format holds them) -> the product under test.
    """
    n_out = min(n_out, _ENOUGH_OUTPUTS)
    affordable = [t for t in CANDIDATES if t <= 16 or t * n_in * n_out <= _CHECK_BUDGET]
    largest = affordable[-1]
    weight_NK, x_TK = cancelling(n_in, n_out, largest)
    raw, x_TK = make(weight_NK.to(device)), x_TK.to(device)
    y_TN = raw(x_TK)
    order_T = torch.randperm(largest, generator=torch.Generator().manual_seed(1)).to(device)
    if not torch.equal(raw(x_TK[order_T]), y_TN[order_T]):
        return Agreement(tiles=(largest,), exact=False)
    agreeing = [
        tile
        for tile in affordable[:-1]
        if all(
            torch.equal(raw(x_TK[i : i + tile].clone()), y_TN[i : i + tile])
            for i in _starts(largest, tile)
        )
    ]
    return Agreement(tiles=(*agreeing, largest), exact=True)


def cancelling(n_in: int, n_out: int, n_rows: int) -> tuple[Tensor, Tensor]:
    """Weights (N, K) and rows (T, K) whose every product is zero: what comes out is rounding.

    Two orders of summing differ in the last bits of fp32, which a product that returns bf16 would
    mostly hide; here the last bits are all there is. The second half repeats the first, negated.
    """
    generator = torch.Generator().manual_seed(n_in * 31 + n_out)
    half = n_in // 2
    some_NK = torch.randint(-7, 8, (min(n_out, 256), half), generator=generator).float()
    half_NK = some_NK.repeat(-(-n_out // len(some_NK)), 1)[:n_out]
    half_TK = torch.randn(n_rows, half, generator=generator)
    spare = n_in - 2 * half
    weight_NK = torch.cat((half_NK, -half_NK, torch.zeros(n_out, spare)), dim=1)
    return weight_NK, torch.cat((half_TK, half_TK, torch.zeros(n_rows, spare)), dim=1)


def _starts(largest: int, tile: int) -> range:
    """At most eight places to compare a tile at, spread over the rows."""
    step = max(tile, largest // 8 // tile * tile)
    return range(0, largest - tile + 1, step)
