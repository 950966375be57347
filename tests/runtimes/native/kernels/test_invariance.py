"""A row's bits depend on its own text only: not on rows beside it, batch, tree, pages, threads."""

from dataclasses import replace

import numpy as np
import pytest

from outpace.runtimes.native.kernels import Fine, Format, KernelDecoder, paths, why_missing
from runtimes.native.kernels.tiny import GEMMA3, LLAMA, ODD, QWEN2, SMOLLM3, Tiny, build, chain
from runtimes.native.kernels.walk import Walk, reference

pytestmark = pytest.mark.skipif(why_missing() is not None, reason=str(why_missing()))

KINDS = {
    "llama q8": replace(LLAMA, target=Format.Q8),
    "qwen2 q4": replace(QWEN2, target=Format.Q4),
    "gemma3 q8, fine rows": replace(GEMMA3, target=Format.Q8, fine_rows=Fine.ALL),
    "smollm3 bf16": replace(SMOLLM3, target=Format.BF16),
    "odd sizes f32": ODD,
    "odd sizes q8": replace(ODD, target=Format.Q8),
}
LENGTHS = (300, 140, 129, 64, 31, 2)
N_WALKS = 6  # of each kind; some 60 passes each


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_through_a_text_gives_its_bits(kind: str) -> None:
    tiny, rng = KINDS[kind], np.random.default_rng(11)
    spec = build(tiny)
    texts = [rng.integers(0, tiny.vocab, n) for n in LENGTHS]
    want = reference(spec, texts)
    n_passes = n_compared = 0
    for walk_number in range(N_WALKS):
        page_size = int(rng.choice([16, 32, 48, 128]))
        decoder = KernelDecoder(spec, n_pages=2000 // page_size, page_size=page_size, n_threads=1)
        walk = Walk(decoder, texts, want, rng)
        while not walk.finished:
            if n_passes % 5 == 0:
                decoder.set_threads(1 + (walk_number + n_passes) % 4)
            walk.step()
            n_passes += 1
        n_compared += walk.n_compared
        decoder.close()
    assert n_passes >= 25 * N_WALKS
    assert n_compared >= 2000


@pytest.mark.parametrize("path", paths() if why_missing() is None else ())
def test_one_to_64_rows_on_one_to_four_threads(path: str) -> None:
    tiny = Tiny(target=Format.Q8, n_layers=1)
    spec, text = build(tiny), np.random.default_rng(3).integers(0, tiny.vocab, 64)
    (want,) = reference(spec, [text])
    decoder = KernelDecoder(spec, n_pages=5, page_size=16, n_threads=1, path=path)
    for n_rows in range(1, 65):
        decoder.set_threads(1 + n_rows % 4)
        logits = decoder.forward(chain(text[:n_rows])).logits_AV
        assert logits is not None
        assert np.array_equal(logits.numpy().view(np.int32), want[:n_rows])
    decoder.close()
