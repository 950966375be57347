"""A row's logits are bit-equal whatever shares its pass, in every format that promises it.

Walks: several texts advance together by 1 to 64 rows, alone or in company, straight or with
strangers branching off, over scattered pages of several sizes and with other thread counts. Each
row must equal, bit for bit, the row of one pass over its text alone.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from outpace.runtimes.native.load import Wish, load_decoder
from outpace.runtimes.native.passes import Decoder
from runtimes.native.models import VOCAB, Part, in_chunks, one_pass, random_model, saved, text

LENGTH = 330
CASES = ("llama wide", "gemma3", "qwen3")
WALKED = [
    *[("llama wide", weights) for weights in ("fp32", "bf16", "q8", "q4")],
    ("gemma3", "fp32"), ("gemma3", "q8"), ("qwen3", "bf16"), ("qwen3", "q4"),
]  # fmt: skip
Ints = NDArray[np.int32]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for case in CASES:
        made[case] = tmp_path_factory.mktemp(case.replace(" ", "-"))
        saved(random_model(case), made[case])
    return made


def opened(folder: Path, weights: str, *, n_pages: int, page_size: int) -> Decoder:
    from outpace.models.resolve import resolve

    wish = Wish(backend="torch", weights=weights, n_pages=n_pages, page_size=page_size)
    return load_decoder(resolve(f"{folder}"), wish).decoder


@pytest.mark.parametrize(("case", "weights"), WALKED)
def test_rows_do_not_depend_on_company(folders: dict[str, Path], case: str, weights: str) -> None:
    alone = opened(folders[case], weights, n_pages=6, page_size=64)
    assert alone.row_invariant, "this machine's operators agree at no row count"
    texts = [text(LENGTH, seed=seed) for seed in range(3)]
    wholes = [in_chunks(alone, tokens, []) for tokens in texts]
    for seed, (page_size, n_threads) in enumerate([(64, 1), (5, 2), (1, 3)]):
        torch.set_num_threads(n_threads)
        n_pages = 3 * -(-(LENGTH + 70) // page_size)
        decoder = opened(folders[case], weights, n_pages=n_pages, page_size=page_size)
        for tokens, whole, got in walk(decoder, texts, wholes, np.random.default_rng(seed)):
            assert torch.equal(got, whole), f"pages of {page_size}, {tokens} rows"


def walk(
    decoder: Decoder, texts: list[Ints], wholes: list[Tensor], rng: np.random.Generator
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """(rows of the pass, expected, computed) of every sequence of every pass."""
    pages = rng.permutation(decoder.n_pages).astype(np.int32).reshape(len(texts), -1)
    at = [0] * len(texts)
    while min(at) < LENGTH:
        behind = [s for s in range(len(texts)) if at[s] < LENGTH]
        chosen = rng.permutation(behind)[: rng.integers(1, len(behind) + 1)]
        parts, paths = [], []
        for s in chosen:
            n_true = min(int(rng.choice([1, 1, 2, 3, 5, 8, 13, 33, 64])), LENGTH - at[s])
            branching = rng.random() < 0.5 and n_true <= 13
            tokens, parents, path = drawn(texts[s][at[s] : at[s] + n_true], branching, rng)
            parts.append(Part(tokens=tokens, n_cached=at[s], pages=pages[s], parents=parents))
            paths.append(path)
        rows = one_pass(parts)
        logits_AV = decoder.forward(rows).logits_AV
        assert logits_AV is not None
        for s, path, start in zip(chosen, paths, rows.starts_S1, strict=False):
            true = wholes[s][at[s] : at[s] + len(path)]
            yield len(rows.tokens_R), true, logits_AV[[int(start) + i for i in path]]
            compact(decoder, pages[s], at[s], path)
            at[s] += len(path)


def drawn(
    true: Ints, branching: bool, rng: np.random.Generator
) -> tuple[Ints, tuple[int, ...], list[int]]:
    """Rows of a pass: the true tokens, perhaps among strangers; parents; where the true are."""
    tokens: list[int] = []
    parents: list[int] = []
    path: list[int] = []
    for token in true:
        before = path[-1] if path else -1
        for _ in range(int(rng.integers(0, 3)) if branching else 0):
            tokens.append(int(rng.integers(VOCAB)))
            parents.append(int(rng.integers(-1, len(parents))) if rng.random() < 0.3 else before)
        path.append(len(tokens))
        tokens.append(int(token))
        parents.append(before)
    return np.array(tokens, np.int32), tuple(parents), path


def compact(decoder: Decoder, pages: Ints, n_cached: int, path: list[int]) -> None:
    def slot(logical: int) -> int:
        return int(pages[logical // decoder.page_size]) * decoder.page_size + (
            logical % decoder.page_size
        )

    moves = [(slot(n_cached + i), slot(n_cached + j)) for j, i in enumerate(path) if i != j]
    if moves:
        sources, targets = np.array(moves, np.int32).T
        decoder.copy_slots(sources, targets)


def test_slots_are_copied_one_pair_after_the_other(folders: dict[str, Path]) -> None:
    decoder = opened(folders["qwen3"], "fp32", n_pages=2, page_size=16)
    tokens = text(12)
    part = Part(tokens=tokens, n_cached=0, pages=np.arange(2, dtype=np.int32))
    decoder.forward(one_pass([part]))
    # 8..11 -> 16..19, then 16..19 -> 24..27: the second reads what the first wrote.
    first = np.arange(8, 12, dtype=np.int32)
    decoder.copy_slots(
        np.concatenate((first, first + 8)).astype(np.int32),
        np.concatenate((first + 8, first + 16)).astype(np.int32),
    )
    decoder.copy_slots(np.arange(24, 28, dtype=np.int32), first)
    after = Part(tokens=tokens[:1], n_cached=12, pages=np.arange(2, dtype=np.int32))
    got = decoder.forward(one_pass([after])).logits_AV
    fresh = opened(folders["qwen3"], "fp32", n_pages=2, page_size=16)
    fresh.forward(one_pass([part]))
    want = fresh.forward(one_pass([after])).logits_AV
    assert got is not None
    assert want is not None
    assert torch.equal(got, want)
