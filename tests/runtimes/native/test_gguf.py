"""Models written as GGUF compute what the model they were written from computes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from outpace.runtimes.native.compiled import available
from outpace.runtimes.native.load import Wish, load_decoder
from runtimes.native.gguf_files import written
from runtimes.native.models import expected, in_chunks, random_model, text

needs_kernels = pytest.mark.skipif(not available()[0], reason=available()[1])
backends = pytest.mark.parametrize(
    "backend", ["torch", pytest.param("compiled", marks=needs_kernels)]
)


def wish(backend: str, weights: str = "fp32") -> Wish:
    return Wish(backend=backend, weights=weights, n_pages=40, page_size=16, threads=1)


@backends
@pytest.mark.parametrize("case", ["llama", "llama yarn", "qwen2", "qwen3", "smollm3", "gemma3"])
def test_logits_are_those_of_the_model_it_was_written_from(
    case: str, backend: str, tmp_path: Path
) -> None:
    model = random_model(case)
    if case == "gemma3":  # what llama.cpp assumes of every Gemma 3: one layer in six is global
        model.config.final_logit_softcapping = None
        for i, layer in enumerate(model.model.layers):
            layer.self_attn.sliding_window = model.config.sliding_window
            layer.self_attn.layer_type = model.config.layer_types[i] = "sliding_attention"
            layer.self_attn.scaling = 32**-0.5
            layer.self_attn.is_sliding = True
    loaded = load_decoder(written(model, tmp_path / "m.gguf"), wish(backend))
    tokens = text(400)
    got = in_chunks(loaded.decoder, tokens, [90])
    torch.testing.assert_close(got, expected(model, tokens), atol=2e-4, rtol=0)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "BF16"])
def test_stored_blocks_are_read_with_their_rows_in_order(kind: str, tmp_path: Path) -> None:
    model = random_model("llama")
    loaded = load_decoder(written(model, tmp_path / "m.gguf", kind), wish("torch"))
    tokens = text(60)
    got = in_chunks(loaded.decoder, tokens, [])
    torch.testing.assert_close(got, expected(model, tokens), atol=2e-4, rtol=0)


@backends
@pytest.mark.parametrize(("kind", "taken"), [("Q4_1", "q4"), ("Q4_0", "q4"), ("Q8_0", "q8")])
def test_auto_keeps_the_blocks_of_a_file(
    kind: str, taken: str, backend: str, tmp_path: Path
) -> None:
    model = random_model("llama")
    loaded = load_decoder(written(model, tmp_path / "m.gguf", kind), wish(backend, "auto"))
    assert loaded.format == taken
    assert loaded.identity == f"{backend} {taken}"
    assert "rounded" not in loaded.description
    tokens = text(200)
    true_AV = expected(model, tokens).log_softmax(1)
    got_AV = in_chunks(loaded.decoder, tokens, []).log_softmax(1)
    assert (true_AV.exp() * (true_AV - got_AV)).sum(1).mean() < 0.05  # rows and scales only


def test_stored_frequency_factors_divide_the_frequencies(tmp_path: Path) -> None:
    model = random_model("llama")
    factors = np.linspace(1, 8, 8)
    loaded = load_decoder(written(model, tmp_path / "m.gguf", factors=factors), wish("torch"))
    model.model.rotary_emb.inv_freq /= torch.from_numpy(factors).float()
    tokens = text(60)
    got = in_chunks(loaded.decoder, tokens, [])
    torch.testing.assert_close(got, expected(model, tokens), atol=2e-4, rtol=0)
