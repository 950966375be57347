"""A model that guesses: in step with the text whatever is kept, quiet where it cannot be."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import pytest
import torch

from outpace.core.coins import SeededCoins
from outpace.core.draft import Ask, Draft, Style
from outpace.core.law import TokenMask
from outpace.core.sampling import Sampling
from outpace.core.score import Rows, Scores
from outpace.drafters.model import ModelConfig, ModelDrafter
from outpace.drafters.translate import SameIds
from outpace.errors import ConfigError
from outpace.runtimes.toy import Table, TableRuntime, random_table

V = 11
TABLE = random_table(V, seed=1)


def drafter(
    table: Table = TABLE,
    *,
    config: ModelConfig | None = None,
    context_tokens: int = 4096,
    max_tokens: int | None = None,
) -> tuple[ModelDrafter, TableRuntime]:
    runtime = TableRuntime(
        table, vocab_size=V, context_tokens=context_tokens, max_tokens=max_tokens
    )
    return ModelDrafter(runtime, SameIds(vocab_size=V, n_words=V), config), runtime


@dataclass(frozen=True)
class Like:
    """What an ask wants, apart from its text."""

    depth: int = 4
    style: Style = "chosen"
    trees: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0


def ask(tokens: Seq[int], like: Like = Like(), *, key: int = 0) -> Ask:
    return Ask(
        key=key, tokens=list(tokens), n_prompt=2, max_nodes=like.depth, max_depth=like.depth,
        trees=like.trees, style=like.style, sampling=like.sampling,
        coins=SeededCoins(like.seed, len(tokens)),
    )  # fmt: skip


def greedy(tokens: Seq[int], n: int, table: Table = TABLE) -> tuple[int, ...]:
    text = list(tokens)
    for _ in range(n):
        text.append(int(table(tuple(text)).argmax()))
    return tuple(text[len(tokens) :])


def test_chosen_guesses_are_the_models_own_greedy_text_whatever_was_kept_before() -> None:
    guesser, _ = drafter()
    text = [1, 2, 3]
    for kept in (0, 4, 2, 4, 4, 1, 0, 3):
        (draft,) = guesser.propose([ask(text)])
        assert draft.tokens == greedy(text, 4)
        text = [*text, *draft.tokens[:kept], (text[-1] * 3 + kept) % V]


def test_a_sequence_asked_twice_answers_twice_the_same() -> None:
    guesser, _ = drafter()
    first, second = (guesser.propose([ask([1, 2, 3])]) for _ in range(2))
    assert first == second


def test_many_sequences_take_one_pass_per_depth() -> None:
    guesser, runtime = drafter()
    asks = [ask([1, 2, key], key=key) for key in range(5)]
    together = guesser.propose(asks)
    assert runtime.n_passes == 4
    assert together == [drafter()[0].propose([a])[0] for a in asks]


def test_a_long_prompt_is_read_in_stretches() -> None:
    text = [i % V for i in range(1500)]
    guesser, _ = drafter()
    (draft,) = guesser.propose([ask(text)])
    assert draft.tokens == greedy(text, 4)


@pytest.mark.parametrize("over", range(-6, 4))
def test_it_stops_guessing_where_its_own_context_ends(over: int) -> None:
    guesser, runtime = drafter(context_tokens=20)
    text = [i % V for i in range(20 + over)]
    (draft,) = guesser.propose([ask(text)])
    assert len(draft) == max(0, min(4, 1 - over))
    guesser.forget(0)
    runtime.check_integrity()


def test_it_stops_guessing_where_its_memory_ends_and_goes_on_for_others() -> None:
    guesser, _ = drafter(max_tokens=14)
    long, short = guesser.propose([ask([1] * 12, key=1), ask([1, 2], key=2)])
    assert len(long) < 4
    guesser.forget(1)
    (short,) = guesser.propose([ask([1, 2], key=2)])
    assert short.tokens == greedy([1, 2], 4)


def test_drawn_guesses_report_the_law_they_were_drawn_from() -> None:
    sampling = Sampling(temperature=0.7, top_k=3, repetition_penalty=1.3)
    guesser, _ = drafter()
    seen: set[tuple[int, ...]] = set()
    for seed in range(50):
        (draft,) = guesser.propose(
            [ask([1, 2, 3], Like(style="drawn", sampling=sampling, seed=seed))]
        )
        assert draft.laws_LV is not None
        assert draft.laws_LV.shape == (4, V)
        assert torch.allclose(draft.laws_LV.sum(1), torch.ones(4, dtype=torch.float64))
        for node, token in enumerate(draft.tokens):
            assert draft.law(node)[token] > 0
            assert int((draft.law(node) > 0).sum()) == 3
        seen.add(draft.tokens)
    assert len(seen) > 10


def test_coupled_guesses_of_the_target_itself_are_its_seeded_text() -> None:
    sampling = Sampling(temperature=1.0, seed=9)
    guesser, _ = drafter()
    text = [1, 2, 3]
    (draft,) = guesser.propose([ask(text, Like(style="coupled", sampling=sampling, seed=9))])
    for token in draft.tokens:
        assert token == SeededCoins(9, 3).coupled(TABLE(tuple(text)), len(text))
        text.append(token)


def test_a_smaller_vocabulary_gets_no_probability_beyond_its_own() -> None:
    runtime = TableRuntime(TABLE, vocab_size=V)
    guesser = ModelDrafter(runtime, SameIds(vocab_size=V + 5, n_words=V))
    like = Like(style="drawn", sampling=Sampling(temperature=1))
    (draft,) = guesser.propose([ask([1, V + 2, 3], like)])
    assert draft.laws_LV is not None
    assert draft.laws_LV.shape == (4, V + 5)
    assert float(draft.laws_LV[:, V:].sum()) == 0


def test_a_token_the_model_does_not_know_is_not_read() -> None:
    runtime = TableRuntime(TABLE, vocab_size=V)
    guesser = ModelDrafter(runtime, SameIds(vocab_size=V + 5, n_words=V))
    (draft,) = guesser.propose([ask([1, 3, V + 2])])
    assert draft.tokens == greedy([1, 3], 4)


def test_a_tree_holds_the_likeliest_few_of_every_level() -> None:
    guesser, _ = drafter(config=ModelConfig(width=3))
    (draft,) = guesser.propose([ask([1, 2, 3], Like(depth=9, trees=True))])
    assert not draft.is_chain
    assert [draft.tokens[n] for n in draft.children[0]] == TABLE((2, 3)).topk(3).indices.tolist()
    assert all(len(c) <= 3 for c in draft.children)


def test_the_requests_mask_is_obeyed() -> None:
    class Even(TokenMask):
        def allowed(self, guesses: Seq[int]) -> torch.Tensor:
            return torch.arange(V) % 2 == 0

        def advance(self, token: int) -> None:
            pass

    (draft,) = drafter()[0].propose(
        [
            Ask(
                key=0, tokens=[1, 2], n_prompt=1, max_nodes=6, max_depth=6, trees=False,
                style="chosen", sampling=Sampling(), coins=SeededCoins(0, 2), mask=Even(),
            )
        ]
    )  # fmt: skip
    assert len(draft) == 6
    assert all(t % 2 == 0 for t in draft.tokens)


def test_where_nothing_is_allowed_it_offers_nothing() -> None:
    like = Like(sampling=Sampling(banned=tuple((t,) for t in range(V))))
    assert drafter()[0].propose([ask([1, 2], like)]) == [Draft()]


def test_rejected_guesses_leave_nothing_behind_in_the_runtime() -> None:
    class Watched(TableRuntime):
        kept: list[int]

        def extend(self, batch: Seq[Rows]) -> list[Scores]:
            self.kept = [len(rows.tokens) for rows in batch]
            return super().extend(batch)

    runtime = Watched(TABLE, vocab_size=V)
    guesser = ModelDrafter(runtime, SameIds(vocab_size=V, n_words=V))
    text = [1, 2, 3]
    for _ in range(30):
        (draft,) = guesser.propose([ask(text)])
        text = [*text, *draft.tokens, 5]  # all kept, plus the target's own
        assert runtime.kept == [4], "the last word and three guesses: nothing else is read again"


def test_a_width_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        ModelConfig(width=0)
