"""Every supported architecture computes what transformers computes, in chunks and in trees."""

from pathlib import Path

import numpy as np
import pytest
import torch

from outpace.errors import CapabilityError
from outpace.runtimes.native.compiled import available
from outpace.runtimes.native.load import Loaded, Wish, load_decoder
from runtimes.native.models import (
    CASES,
    Part,
    expected,
    in_chunks,
    logits_of,
    one_pass,
    random_model,
    saved,
    text,
)

TOLERANCE = 2e-4  # logits reach tens; fp32 sums of other orders differ by this much at most
LENGTH = 560  # past two key blocks and twice past the sliding window

needs_kernels = pytest.mark.skipif(not available()[0], reason=available()[1])
backends = pytest.mark.parametrize(
    "backend", ["torch", pytest.param("compiled", marks=needs_kernels)]
)


def opened(case: str, backend: str, folder: Path, **wish: object) -> tuple[object, Loaded]:
    model = random_model(case)
    asked = Wish(backend=backend, weights="fp32", n_pages=40, page_size=16, threads=1, **wish)  # type: ignore[arg-type]
    try:
        return model, load_decoder(saved(model, folder), asked)
    except CapabilityError as error:
        pytest.skip(str(error))


@backends
@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case: str, backend: str, tmp_path: Path) -> None:
    model, loaded = opened(case, backend, tmp_path)
    tokens = text(LENGTH)
    got = in_chunks(loaded.decoder, tokens, [])
    torch.testing.assert_close(got, expected(model, tokens), atol=TOLERANCE, rtol=0)


@backends
@pytest.mark.parametrize("case", CASES)
def test_chunks_and_branches_change_no_bit(case: str, backend: str, tmp_path: Path) -> None:
    _, loaded = opened(case, backend, tmp_path)
    tokens = text(LENGTH)
    whole = in_chunks(loaded.decoder, tokens, [])
    chunked = in_chunks(loaded.decoder, tokens, [1, 3, 70, 255, 257, 400, 464])
    assert torch.equal(chunked, whole)
    # A tree over the last 20 tokens: the text itself, with strangers between and beside it.
    pages, cached = np.arange(40, dtype=np.int32), LENGTH - 20
    branch: list[int] = []
    parents: list[int] = []
    places: list[int] = []
    for i, token in enumerate(tokens[cached:]):
        before = places[-1] if places else -1
        branch += [(int(token) + 1) % 96, int(token)] if i % 3 == 1 else [int(token)]
        parents += [before, before] if i % 3 == 1 else [before]
        places.append(len(branch) - 1)
    part = Part(
        tokens=np.array(branch, np.int32), n_cached=cached, pages=pages, parents=tuple(parents)
    )
    assert torch.equal(logits_of(loaded.decoder, [part])[places], whole[cached:])


@backends
@pytest.mark.parametrize("case", ["llama", "gemma3"])
def test_hidden_states_are_the_residual_streams_of_transformers(
    case: str, backend: str, tmp_path: Path
) -> None:
    model, loaded = opened(case, backend, tmp_path, hidden_layers=(2, 0))
    tokens = text(30)
    pages = np.arange(2, dtype=np.int32)
    rows = one_pass([Part(tokens=tokens, n_cached=0, pages=pages)], asked=False)
    hidden_RH = loaded.decoder.forward(rows).hidden_RH
    with torch.no_grad():
        states = model(torch.from_numpy(tokens.astype(np.int64))[None], output_hidden_states=True)  # type: ignore[operator]
    true = torch.cat((states.hidden_states[2][0], states.hidden_states[0][0]), dim=1)
    assert hidden_RH is not None
    assert loaded.n_hidden == true.shape[1]
    torch.testing.assert_close(hidden_RH, true, atol=TOLERANCE, rtol=0)


@backends
def test_best_is_the_lowest_of_the_largest_logits(backend: str, tmp_path: Path) -> None:
    _, loaded = opened("llama", backend, tmp_path)
    parts = [Part(tokens=text(30), n_cached=0, pages=np.arange(2, dtype=np.int32))]
    logits_AV = logits_of(loaded.decoder, parts)
    best = loaded.decoder.forward(one_pass(parts, logits=False)).best_A
    most_A1 = logits_AV.amax(1, keepdim=True)
    assert best == [
        int((row == most).nonzero()[0]) for row, most in zip(logits_AV, most_A1, strict=True)
    ]
