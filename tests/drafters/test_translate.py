"""Other vocabularies: strings decide, laws live on the shared part, text is spelt as it comes."""

import pytest
import torch

from outpace.core.coins import SeededCoins
from outpace.core.draft import Ask
from outpace.core.sampling import Sampling
from outpace.drafters.model import ModelDrafter
from outpace.drafters.translate import SameIds, Translation, dictionary
from outpace.errors import CapabilityError
from outpace.runtimes.toy import TableRuntime, random_table

TARGET = [b"a", b"b", b"c", b"ab", b"abc", b"zz"]
MODEL = [b"c", b"a", b"b", b"bc", b"ab", b"q"]


def test_equal_vocabularies_need_no_translation() -> None:
    same = dictionary(target=TARGET, model=list(TARGET), vocab_size=6)
    assert same == SameIds(vocab_size=6, n_words=6)


@pytest.mark.parametrize(("n_target", "n_model"), [(6, 4), (4, 6)])
def test_one_may_have_more_at_its_end(n_target: int, n_model: int) -> None:
    same = dictionary(target=TARGET[:n_target], model=TARGET[:n_model], vocab_size=n_target + 2)
    assert isinstance(same, SameIds)
    wide_V = same.widen(torch.zeros(n_model))
    assert wide_V.shape == (n_target + 2,)
    assert same.read([0, 5]) == [t for t in (0, 5) if t < n_model]


def test_equal_sizes_prove_nothing() -> None:
    assert isinstance(dictionary(target=TARGET, model=MODEL, vocab_size=6), Translation)


def test_vocabularies_without_a_single_string_prove_nothing_either() -> None:
    with pytest.raises(CapabilityError, match="shares 0"):
        dictionary(target=[b"", b""], model=[b"", b""], vocab_size=2)


def test_a_law_is_that_of_the_shared_tokens_renormalised() -> None:
    translation = Translation(target=TARGET, model=MODEL, vocab_size=8)
    logits_D = torch.tensor([0.1, 0.2, 0.3, 5.0, 0.5, 9.0])
    law_V = translation.widen(logits_D).softmax(0)
    shared_D = torch.tensor([0.2, 0.3, 0.1, 0.5]).softmax(0)
    assert torch.allclose(law_V[:4], shared_D)
    assert float(law_V[4:].sum()) == 0
    assert translation.n_shared == 4


def test_text_is_read_by_its_bytes() -> None:
    translation = Translation(target=TARGET, model=MODEL, vocab_size=6)
    assert translation.read([0, 3]) == [1, 4]  # a, ab: both have them
    assert translation.read([4]) == [4, 0]  # abc is spelt ab, c
    assert translation.read([5]) == []  # zz cannot be spelt


def test_strangers_are_refused_with_the_numbers() -> None:
    with pytest.raises(CapabilityError, match="shares 1 of 20"):
        dictionary(
            target=[b"%d" % i for i in range(20)],
            model=[b"5", *(b"x%d" % i for i in range(19))],
            vocab_size=20,
        )


def test_a_permuted_twin_guesses_as_the_model_itself_would() -> None:
    words = [bytes([97 + i]) for i in range(9)]
    order = [4, 2, 7, 0, 8, 1, 3, 6, 5]  # the model's id i stands for words[order[i]]
    table = random_table(9, seed=3)
    to_model = [order.index(t) for t in range(9)]

    def permuted(text: tuple[int, ...]) -> torch.Tensor:
        return table(tuple(order[t] for t in text))[order]

    twin = ModelDrafter(
        TableRuntime(permuted, vocab_size=9),
        dictionary(target=words, model=[words[i] for i in order], vocab_size=9),
    )
    own = ModelDrafter(TableRuntime(table, vocab_size=9), SameIds(vocab_size=9, n_words=9))
    assert to_model != list(range(9))
    text = [1, 2, 3]
    for seed in range(20):
        ask = Ask(
            key=0, tokens=list(text), n_prompt=1, max_nodes=5, max_depth=5, trees=False,
            style="chosen", sampling=Sampling(), coins=SeededCoins(seed, len(text)),
        )  # fmt: skip
        (a,), (b,) = twin.propose([ask]), own.propose([ask])
        assert a.tokens == b.tokens
        text = [*text, *a.tokens[: seed % 6], seed % 9]
