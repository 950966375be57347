"""A pass computes the model: every feature against float64, every path the same bits."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from outpace.errors import ContractError, ModelUnsupported
from outpace.runtimes.native.kernels import Fine, Format, KernelDecoder, KVType, paths, why_missing
from runtimes.native.kernels import expected
from runtimes.native.kernels.tiny import ALL, GEMMA3, LLAMA, Tiny, asking, build, chain, tree

pytestmark = pytest.mark.skipif(why_missing() is not None, reason=str(why_missing()))

RNG = np.random.default_rng(7)


def random_tree(n: int) -> np.ndarray:
    """Parents of n rows: mostly deep, sometimes from the root."""
    return np.array([int(RNG.integers(-1, row)) if row else -1 for row in range(n)])


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("path", paths() if why_missing() is None else ())
def test_logits_are_the_models(name: str, path: str) -> None:
    tiny = ALL[name]
    spec = build(tiny)
    decoder = KernelDecoder(
        spec, n_pages=20, page_size=16, kv_type=KVType.F32, n_threads=2, path=path
    )
    tokens = RNG.integers(0, tiny.vocab, 150)
    got = decoder.forward(chain(tokens)).logits_AV
    want = expected.logits(spec, tokens, np.arange(-1, 149))
    assert got is not None
    np.testing.assert_allclose(got.numpy(), want, atol=3e-4, rtol=1e-4)

    tokens, parents = RNG.integers(0, tiny.vocab, 60), random_tree(60)
    got = decoder.forward(tree(tokens, parents, cached=0, page_size=16)).logits_AV
    assert got is not None
    np.testing.assert_allclose(
        got.numpy(), expected.logits(spec, tokens, parents), atol=3e-4, rtol=1e-4
    )
    decoder.close()


@pytest.mark.parametrize("target", [Format.Q8, Format.Q4, Format.BF16, Format.F16])
@pytest.mark.parametrize("kv_type", list(KVType))
def test_rounded_rows_stay_near(target: Format, kv_type: KVType) -> None:
    spec = build(replace(LLAMA, target=target, hidden=128, ffn=256))
    decoder = KernelDecoder(spec, n_pages=10, page_size=16, kv_type=kv_type, n_threads=1)
    tokens = RNG.integers(0, LLAMA.vocab, 100)
    got = decoder.forward(chain(tokens)).logits_AV
    assert got is not None
    want = expected.logits(spec, tokens, np.arange(-1, 99))
    error = np.abs(got.numpy() - want).mean() / np.abs(want).mean()
    assert error < (0.02 if target in (Format.BF16, Format.F16) else 0.05)
    decoder.close()


def test_fine_rows_are_all_but_exact() -> None:
    spec = build(replace(LLAMA, target=Format.Q8, hidden=128, ffn=256, fine_rows=Fine.ALL))
    decoder = KernelDecoder(spec, n_pages=10, page_size=16, kv_type=KVType.F32, n_threads=1)
    tokens = RNG.integers(0, LLAMA.vocab, 100)
    got = decoder.forward(chain(tokens)).logits_AV
    assert got is not None
    want = expected.logits(spec, tokens, np.arange(-1, 99))
    assert np.abs(got.numpy() - want).mean() < 0.0005 * np.abs(want).mean()
    decoder.close()


@pytest.mark.parametrize("fine", [Fine.NONE, Fine.QKV | Fine.DOWN, Fine.ALL])
@pytest.mark.parametrize("target", [Format.F32, Format.BF16, Format.Q8, Format.Q4])
def test_all_paths_agree_bit_for_bit(target: Format, fine: Fine) -> None:
    tiny = replace(GEMMA3, target=target, head_dim=32, rope_dim=32, fine_rows=fine)
    spec, tokens, parents = build(tiny), RNG.integers(0, tiny.vocab, 40), random_tree(40)
    answers = []
    for path in paths():
        decoder = KernelDecoder(spec, n_pages=20, page_size=16, n_threads=1, path=path)
        assert decoder.path == path
        decoder.forward(chain(RNG.permutation(np.arange(tiny.vocab))[:50]))
        decoder.forward(chain(np.arange(50)))
        answers.append(decoder.forward(tree(tokens, parents, cached=50, page_size=16)).logits_AV)
        decoder.close()
    for answer in answers[1:]:
        assert answer is not None
        assert answers[0] is not None
        assert torch.equal(answers[0].view(torch.int32), answer.view(torch.int32))


def test_best_and_top_are_of_the_logits() -> None:
    spec = build(replace(LLAMA, vocab=1000, target=Format.Q8))
    decoder = KernelDecoder(spec, n_pages=4, page_size=16, n_threads=2)
    rows = asking(chain(RNG.integers(0, 1000, 30)), 3, 17, 29)
    logits = decoder.forward(rows).logits_AV
    assert logits is not None
    best = decoder.forward(replace(rows, logits=False))
    assert best.logits_AV is None
    assert best.best_A == logits.argmax(-1).tolist()
    top = decoder.forward_top(rows, 40)
    order = np.argsort(-logits.numpy(), kind="stable", axis=-1)[:, :40]
    np.testing.assert_array_equal(top.ids_AK, order)
    np.testing.assert_array_equal(top.values_AK, np.take_along_axis(logits.numpy(), order, -1))
    decoder.close()


def test_the_lowest_id_wins_a_tie() -> None:
    tiny = Tiny(vocab=200, softcap=1e-30)  # every logit is 0 or so near that all are equal
    decoder = KernelDecoder(build(tiny), n_pages=2, page_size=16, n_threads=2)
    rows = replace(chain(np.array([5, 6])), logits=False)
    logits = decoder.forward(chain(np.array([5, 6]))).logits_AV
    assert logits is not None
    assert decoder.forward(rows).best_A == logits.argmax(-1).tolist()
    assert decoder.forward_top(rows, 3).ids_AK.tolist() == np.argsort(
        -logits.numpy(), kind="stable", axis=-1
    )[:, :3].tolist()  # fmt: skip
    decoder.close()


def test_hidden_states_are_the_residual_stream() -> None:
    spec = build(GEMMA3)
    decoder = KernelDecoder(spec, n_pages=2, page_size=16, n_threads=2, taps=(0, 1, 2))
    tokens = RNG.integers(0, GEMMA3.vocab, 12)
    result = decoder.forward(asking(chain(tokens), 11))
    assert result.hidden_RH is not None
    assert result.logits_AV is not None
    first, _, last = result.hidden_RH.reshape(12, 3, spec.hidden).unbind(1)
    embedded = spec.embedding.rows()[tokens] * np.float32(spec.embedding_scale)
    np.testing.assert_array_equal(first.numpy(), embedded)
    x = last[11].double().numpy()
    y = x / np.sqrt((x**2).mean() + spec.eps) * spec.norm_final @ spec.head.rows().T
    capped = spec.logit_softcap * np.tanh(y / spec.logit_softcap)
    np.testing.assert_allclose(result.logits_AV[0].numpy(), capped, atol=1e-4)
    decoder.close()


def test_passes_that_cannot_be_are_refused_by_name() -> None:
    decoder = KernelDecoder(build(LLAMA), n_pages=2, page_size=16, n_threads=1)
    good = chain(np.arange(5))
    for change, words in (
        ({"tokens_R": np.array([0, 1, 2, 3, 80], np.int32)}, "token 80"),
        ({"parents_R": np.array([-1, 0, 2, 2, 3], np.int32)}, "parent 2"),
        ({"positions_R": np.array([0, 1, 2, 3, 5], np.int32)}, "position 5"),
        ({"tables_SP": np.array([[2]], np.int32)}, "page 2"),
        ({"tables_SP": np.empty((1, 0), np.int32)}, "needs 1 pages"),
        ({"asked_A": np.array([5], np.int32)}, "asked row 5"),
        ({"n_cached_S": np.array([-1], np.int32)}, "-1 cached"),
        ({"starts_S1": np.array([0, 6], np.int32)}, "cover rows"),
        ({"starts_S1": np.array([0, 2, 5], np.int32)}, "do not fit together"),
    ):
        with pytest.raises(ContractError, match=words):
            decoder.forward(replace(good, **change))
    decoder.close()
    with pytest.raises(ContractError, match="closed"):
        decoder.forward(good)


def test_models_that_do_not_fit_are_refused_by_name() -> None:
    spec = build(LLAMA)
    for broken, words in (
        (replace(spec, ffn=95), "gate of layer 0 is 96 by 64"),
        (replace(spec, n_kv_heads=3), "cannot share 3"),
        (replace(spec, rope_dim=18, ropes=()), "18 of 16 dimensions"),
        (replace(spec, norm_final=spec.norm_final[:5]), "final norm has 5 values"),
    ):
        with pytest.raises(ModelUnsupported, match=words):
            KernelDecoder(broken, n_pages=1)
    with pytest.raises(ModelUnsupported, match="page size 24"):
        KernelDecoder(spec, n_pages=1, page_size=24)
    with pytest.raises(ModelUnsupported, match="no path 'sse'"):
        KernelDecoder(spec, n_pages=1, path="sse")
