"""Products: right in every format, run only at row counts that agree, replaced when they fail."""

import pytest
import torch
from torch import Tensor

from outpace.runtimes.native.eager.operators import dense, four_bit
from outpace.runtimes.native.eager.quantize import from_values
from outpace.runtimes.native.eager.tiles import (
    CANDIDATES,
    Agreement,
    RawProduct,
    Tiled,
    cancelling,
    find_agreement,
    fitting,
)

CPU = torch.device("cpu")


def weights(n_out: int, n_in: int) -> Tensor:
    return torch.randn(n_out, n_in, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("n_rows", [0, 1, 3, 64, 300])
@pytest.mark.parametrize(("n_out", "n_in"), [(48, 64), (37, 50), (256, 1536)])
def test_every_format_multiplies(n_out: int, n_in: int, n_rows: int) -> None:
    weight_NK, x_RK = weights(n_out, n_in), weights(n_rows, n_in)
    eight, four = from_values(weight_NK, 8), from_values(weight_NK, 4)
    for product, held_NK, tolerance in (
        (dense(weight_NK, torch.float32), weight_NK, 1e-5),
        (dense(weight_NK, torch.bfloat16), weight_NK.bfloat16(), 0.02),
        (four_bit(eight), eight.values(), 0.02),
        (four_bit(four), four.values(), 0.02),
    ):
        true_RN = x_RK @ held_NK.float().T
        got_RN = product(x_RK)
        assert got_RN.shape == true_RN.shape
        assert got_RN.dtype == torch.float32
        if n_rows:
            assert (got_RN - true_RN).abs().max() <= tolerance * true_RN.abs().max()


@pytest.mark.parametrize("n_in", [64, 576, 1536])
def test_a_row_is_the_same_at_every_row_count(n_in: int) -> None:
    weight_NK, x_RK = cancelling(n_in, 96, 300)
    for product in (
        dense(weight_NK, torch.float32),
        dense(weight_NK, torch.bfloat16),
        four_bit(from_values(weight_NK, 4)),
        four_bit(from_values(weight_NK, 8)),
    ):
        if not product.agreement.exact:
            continue
        whole_RN = product(x_RK)
        for n_rows in (*range(1, 65), 100, 257):
            assert torch.equal(product(x_RK[7 : 7 + n_rows]), whole_RN[7 : 7 + n_rows])


def test_a_row_count_that_sums_in_another_order_is_dropped() -> None:
    def make(weight_NK: Tensor) -> RawProduct:
        def product(x_RK: Tensor) -> Tensor:
            if len(x_RK) in (1, 8):  # another order of the same sum
                return x_RK.flip(1) @ weight_NK.flip(1).T
            return torch.cat([x_RK[i : i + 4] @ weight_NK.T for i in range(0, len(x_RK), 4)])

        return product

    agreement = find_agreement(make, n_in=96, n_out=40, device=CPU)
    assert agreement.exact
    assert 8 not in agreement.tiles
    assert {16, 256} <= set(agreement.tiles)


def test_a_product_whose_rows_depend_on_their_place_makes_no_promise() -> None:
    def make(weight_NK: Tensor) -> RawProduct:
        def product(x_RK: Tensor) -> Tensor:
            y_RN = x_RK @ weight_NK.T
            y_RN[0] = x_RK[0].flip(0) @ weight_NK.flip(1).T
            return y_RN

        return product

    agreement = find_agreement(make, n_in=96, n_out=40, device=CPU)
    assert agreement == Agreement(tiles=(CANDIDATES[-1],), exact=False)


def test_only_agreed_row_counts_are_run() -> None:
    seen = []

    def raw(x_RK: Tensor) -> Tensor:
        seen.append(len(x_RK))
        return x_RK * 2

    product = Tiled(raw=raw, n_out=3, n_bytes=0, agreement=Agreement(tiles=(2, 8), exact=True))
    for n_rows in (0, 1, 2, 5, 8, 19):
        x_RK = weights(n_rows, 3)
        assert torch.equal(product(x_RK), x_RK * 2)
    assert set(seen) == {2, 8}
    assert [fitting(n, (2, 8)) for n in (1, 2, 3, 9)] == [2, 2, 8, 8]


def test_a_wrong_operator_is_replaced_with_a_warning() -> None:
    def wrong(weight_NK: Tensor) -> RawProduct:
        return lambda x_RK: x_RK @ weight_NK.T * 1.01

    def missing(weight_NK: Tensor) -> RawProduct:
        raise AttributeError("no such operator")

    weight_NK, x_RK = weights(48, 64), weights(3, 64)
    for fast in (wrong, missing):
        with pytest.warns(RuntimeWarning, match="does not work in torch"):
            product = dense(weight_NK, torch.float32, fast=fast)
        torch.testing.assert_close(product(x_RK), x_RK @ weight_NK.T)
