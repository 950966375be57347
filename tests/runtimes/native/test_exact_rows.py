"""Through the runtime, a row's bits depend on its own text only.

Real arithmetic on tiny random models: whatever neighbours, chunk borders, trees, known
beginnings, preemption and page sizes a walk brings, each row equals the row that a scratch decoder
computes from the whole text at once, bit for bit.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import torch
from torch import Tensor

from outpace.runtimes.native.kernels import Format, KernelDecoder, why_missing
from outpace.runtimes.native.passes import Decoder
from outpace.runtimes.toy import Table
from runtimes.native.kernels.tiny import GEMMA3, LLAMA, QWEN3, asking, build, chain
from runtimes.native.walk import CONTEXT, Walk, over, read

# (pages, page size) -> a decoder of always the same weights
Opener = Callable[[int, int], Decoder]


def torch_llama(weights: str) -> Opener:
    def opener(n_pages: int, page_size: int) -> Decoder:
        from runtimes.native.files import load_llama

        return load_llama("torch", weights, n_pages=n_pages, page_size=page_size).decoder

    return opener


def kernels(name: str) -> Opener:
    spec = build(
        {
            "llama q8": replace(LLAMA, target=Format.Q8),
            "gemma3 q4": replace(GEMMA3, target=Format.Q4),
            "qwen3 bf16": replace(QWEN3, target=Format.BF16),
        }[name]
    )

    def opener(n_pages: int, page_size: int) -> Decoder:
        return KernelDecoder(spec, n_pages=n_pages, page_size=page_size, n_threads=1)

    return opener


def alone(opener: Opener) -> Table:
    """The last row's logits of a text, computed in one pass on pages of their own."""
    scratch = opener(-(-CONTEXT // 16), 16)

    @lru_cache(maxsize=50_000)
    def table(text: tuple[int, ...]) -> Tensor:
        rows = asking(chain(np.array(text)), len(text) - 1)
        logits_AV = scratch.forward(rows).logits_AV
        assert logits_AV is not None
        return logits_AV[0].clone()

    return table


needs_kernels = pytest.mark.skipif(why_missing() is not None, reason=str(why_missing()))


@needs_kernels
@pytest.mark.parametrize("name", ["llama q8", "gemma3 q4", "qwen3 bf16"])
@pytest.mark.parametrize(("n_pages", "page_size"), [(30, 16), (14, 32)])
def test_walks_give_the_bits_of_each_text_alone(name: str, n_pages: int, page_size: int) -> None:
    opener = kernels(name)
    runtime = over(opener(n_pages, page_size))
    walk = Walk(runtime, seed=n_pages, table=alone(opener))
    walk.run(250)
    stats = runtime.stats()
    assert stats.n_hits > 10
    assert runtime.traits.row_invariant


@pytest.fixture
def _one_thread() -> Iterator[None]:
    """Matrices this small only lose by a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_one_thread")
@pytest.mark.parametrize("weights", ["bf16", "q8", "q4"])
def test_walks_give_the_bits_of_each_text_alone_in_torch(weights: str) -> None:
    opener = torch_llama(weights)
    decoder = opener(30, 16)
    if not decoder.row_invariant:
        pytest.skip(f"torch found no {weights} product of one height only on this machine")
    walk = Walk(over(decoder), seed=5, table=alone(opener))
    walk.run(50)


@needs_kernels
def test_a_preempted_text_goes_on_with_the_same_bits() -> None:
    opener = kernels("llama q8")
    table, text = alone(opener), [(7 * i) % 5 for i in range(70)]
    for page_size in (16, 48, 64):
        runtime = over(opener(6, page_size))
        read(runtime, 1, text[:50], chunk=1)
        runtime.close(1)
        read(runtime, 2, [4, *text], chunk=64)  # another text may take its pages meanwhile
        runtime.close(2)
        last = read(runtime, 3, text, chunk=9)
        assert last is not None
        assert last.equal(table(tuple(text)))
