"""The real models of the cache: each format close to fp32 on text, and exact among rows."""

import os
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from outpace.models.files import ModelFiles
from outpace.models.pull import cached_path, default_cache_dir
from outpace.models.resolve import resolve
from outpace.models.weights import open_weights
from outpace.runtimes.native.compiled import available
from outpace.runtimes.native.formats import FINE, KL_BOUND
from outpace.runtimes.native.load import Wish, load_decoder
from outpace.text.tokenizer import Tokenizer
from runtimes.native.models import in_chunks

# The opening of Pride and Prejudice, and a list, as texts that no one owns.
TEXT = (
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, "
    "must be in want of a wife. However little known the feelings or views of such a man may be on "
    "his first entering a neighbourhood, this truth is so well fixed in the minds of the "
    "surrounding families, that he is considered as the rightful property of some one or other of "
    "their daughters. The capital of France is Paris, the capital of Italy is Rome, the capital "
    "of Spain is Madrid, and the capital of Germany is Berlin. One, two, three, four, five, six, "
    "seven, eight, nine, ten, eleven, twelve."
)
FINE_AGREEMENT = 0.985
LEAST_AGREEMENT = 0.9  # on some 150 tokens; benchmarks/precision.py measures on thousands

pytestmark = pytest.mark.model

needs_kernels = pytest.mark.skipif(not available()[0], reason=available()[1])


def cached(name: str) -> ModelFiles:
    path = cached_path(name, cache_dir=default_cache_dir(os.environ))
    if not path.is_file():
        pytest.skip(f"{name} is not in the cache; `outpace pull {name}` brings it")
    return resolve(f"{path}")


def computed(
    files: ModelFiles, backend: str, weights: str, borders: tuple[int, ...] = ()
) -> tuple[Tensor, str]:
    """Logits of the text, in chunks that end at the borders, and the format taken."""
    ids = Tokenizer.from_gguf(open_weights(files).gguf).encode(TEXT, special=False)
    wish = Wish(backend=backend, weights=weights, n_pages=4, page_size=64, threads=1)
    loaded = load_decoder(files, wish)
    try:
        assert loaded.decoder.row_invariant
        return in_chunks(loaded.decoder, np.array(ids, np.int32), list(borders)), loaded.format
    finally:
        loaded.decoder.close()


@cache
def reference(name: str) -> Tensor:
    return computed(cached(name), "torch", "fp32")[0].log_softmax(1)


@pytest.mark.parametrize(
    ("name", "backend", "weights"),
    [
        ("smollm2-135m", "torch", "bf16"),
        ("smollm2-135m", "torch", "auto"),
        pytest.param("smollm2-135m", "compiled", "fp32", marks=needs_kernels),
        pytest.param("smollm2-135m", "compiled", "bf16", marks=needs_kernels),
        pytest.param("smollm2-135m", "compiled", "auto", marks=needs_kernels),
        pytest.param("smollm2-135m", "compiled", "q4-fine", marks=needs_kernels),
        ("gemma3-270m", "torch", "auto"),
        pytest.param("gemma3-270m", "compiled", "auto", marks=needs_kernels),
        pytest.param("gemma3-270m", "compiled", "q8-fine", marks=needs_kernels),
    ],
)
def test_a_format_stays_close_to_fp32(
    name: str, backend: str, weights: str, record_property: Callable[[str, object], None]
) -> None:
    files = cached(name)
    true_AV = reference(name)
    got_AV, taken = computed(files, backend, weights)
    got_AV = got_AV.log_softmax(1)
    kl = (true_AV.exp() * (true_AV - got_AV)).sum(1).mean().item()
    agreement = (true_AV.argmax(1) == got_AV.argmax(1)).float().mean().item()
    record_property("kl_nats", kl)
    record_property("top1", agreement)
    assert kl <= KL_BOUND, f"{backend} {taken}"
    least = FINE_AGREEMENT if weights in FINE else LEAST_AGREEMENT
    assert agreement >= least, f"{backend} {taken}"


@pytest.mark.parametrize(
    ("name", "weights"),
    [*[("smollm2-135m", weights) for weights in ("fp32", "bf16", "q4")], ("gemma3-270m", "q8")],
)
def test_chunks_change_no_bit(name: str, weights: str) -> None:
    files = cached(name)
    whole, _ = computed(files, "torch", weights)
    chunked, _ = computed(files, "torch", weights, (1, 2, 5, 64, 71, 101))
    assert torch.equal(whole, chunked)
