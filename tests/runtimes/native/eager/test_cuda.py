"""The same decoder on a CUDA device: right everywhere, bit-equal where its own check says so."""

from pathlib import Path

import numpy as np
import pytest
import torch

from outpace.runtimes.native.load import Wish, load_decoder
from runtimes.native.models import Part, expected, in_chunks, logits_of, random_model, saved, text

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]


@pytest.mark.parametrize("case", ["llama wide", "gemma3", "qwen3"])
@pytest.mark.parametrize("weights", ["fp32", "bf16"])
def test_logits_are_close_and_rows_equal_where_promised(
    case: str, weights: str, tmp_path: Path
) -> None:
    model = random_model(case)
    files = saved(model, tmp_path)
    wish = Wish(device="cuda", weights=weights, n_pages=30, page_size=16)
    decoder = load_decoder(files, wish).decoder
    tokens = text(400)
    whole = in_chunks(decoder, tokens, [])
    if weights == "fp32":
        torch.testing.assert_close(whole.cpu(), expected(model, tokens), atol=1e-3, rtol=0)
    if decoder.row_invariant:
        assert torch.equal(in_chunks(decoder, tokens, [1, 3, 70, 257, 300]), whole)
        pages = np.arange(30, dtype=np.int32)
        branches = Part(
            tokens=tokens[[380, 380, 381]], n_cached=380, pages=pages, parents=(-1, -1, 1)
        )
        assert torch.equal(logits_of(decoder, [branches])[[1, 2]], whole[380:382])
