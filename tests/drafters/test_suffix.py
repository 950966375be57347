"""Suffix trees: counts are exact, forgetting undoes learning, memory is bounded, requests share."""

import tracemalloc

import numpy as np
import pytest

from outpace.core.coins import SeededCoins
from outpace.core.draft import Ask, Seen
from outpace.core.sampling import Sampling
from outpace.drafters.suffix.drafter import MOST_WAITING, SHARE_TOKENS, SuffixConfig, SuffixDrafter
from outpace.drafters.suffix.tree import DEPTH, MIB, Pen, Tree
from outpace.errors import ConfigError


def ask(key: int, tokens: list[int], *, nodes: int = 8, trees: bool = True) -> Ask:
    return Ask(
        key=key, tokens=tokens, n_prompt=1, max_nodes=nodes, max_depth=nodes, trees=trees,
        style="chosen", sampling=Sampling(), coins=SeededCoins(0, len(tokens)),
    )  # fmt: skip


def words(n: int, vocabulary: int, seed: int) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(vocabulary, size=n)]


def test_the_tree_counts_what_followed_every_context() -> None:
    text = words(300, 3, 1)
    tree = Tree(MIB)
    Pen(tree).write(text)
    tail = tuple(text[: -DEPTH - 1 : -1])
    levels = tree.followers(tail)
    assert levels
    for n, node in enumerate(levels, start=1):
        found = [text[i] for i in range(n, len(text)) if text[i - n : i] == text[-n:]]
        counts = {token: found.count(token) for token in found}
        assert ({node: 1} if isinstance(node, int) else node) == counts


def test_forgetting_undoes_learning_exactly() -> None:
    first, second = words(200, 4, 1), words(200, 4, 2)
    tree, alone = Tree(MIB), Tree(MIB)
    tree.add(first, 0)
    tree.add(second, 0)
    tree.remove(first, 0)
    alone.add(second, 0)
    assert tree.nodes == alone.nodes
    assert tree.n_bytes == alone.n_bytes
    tree.remove(second, 0)
    assert not tree.nodes
    assert tree.n_bytes == 0


def test_a_tree_stays_within_its_bytes_and_keeps_the_newest() -> None:
    tree = Tree(MIB)
    pen = Pen(tree)
    for i in range(100):
        pen.write(words(300, 5000, i))
        assert tree.n_bytes <= MIB + 64 * DEPTH * 400
    assert tree.followers(pen.tail[1:])[-1] == pen.tail[0]


def test_the_bytes_it_counts_are_the_bytes_it_takes() -> None:
    tokens = words(20_000, 3000, 5)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tree = Tree(1 << 40)
    Pen(tree).write(tokens)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.6 * taken <= tree.n_bytes <= 1.7 * taken


def test_writing_in_pieces_equals_writing_at_once() -> None:
    text = words(500, 4, 3)
    whole, pieces = Tree(MIB), Tree(MIB)
    Pen(whole).write(text)
    pen = Pen(pieces)
    at = 0
    while at < len(text):
        step = 1 + at % 7
        pen.write(text[at : at + step])
        at += step
    assert whole.nodes == pieces.nodes


def answer(drafter: SuffixDrafter, key: int, prompt: list[int], output: list[int]) -> None:
    drafter.observe([Seen(key=key, start=0, tokens=prompt)])
    drafter.observe([Seen(key=key, start=len(prompt), tokens=output)])


def test_an_answer_helps_other_requests_before_it_ends_and_after() -> None:
    output = list(range(100, 120))
    drafter = SuffixDrafter()
    answer(drafter, 1, [1, 2], output)
    (draft,) = drafter.propose([ask(2, [7, 8, *output[:6]], trees=False)])
    assert draft.tokens[:2] == tuple(output[6:8])
    drafter.forget(1)
    (draft,) = drafter.propose([ask(3, [9, 9, *output[:6]], trees=False)])
    assert draft.tokens[:2] == tuple(output[6:8])


def test_answers_too_short_to_fill_a_segment_are_forgotten_too() -> None:
    drafter = SuffixDrafter(SuffixConfig(share_bytes=MIB))
    for key in range(400):
        answer(drafter, key, [1, 2], words(20, 50_000, key))
        drafter.propose([ask(-1, [1])])
        drafter.forget(key)
        assert drafter.shared.n_bytes <= MIB


def test_a_text_that_is_not_guessed_for_pays_nothing_and_is_shared_in_pieces() -> None:
    """What learning costs, whoever asks pays, some tokens at a time; ended answers too."""
    output = list(range(100, 100 + 3 * SHARE_TOKENS))
    drafter = SuffixDrafter()
    answer(drafter, 1, [1, 2], output)
    assert not drafter.shared.nodes
    drafter.forget(1)
    for n in range(1, 4):
        drafter.propose([ask(2, [7, 8])])
        assert len(drafter.shared.nodes) == n * SHARE_TOKENS * DEPTH - sum(range(DEPTH - 1))
    end = len(output) - 3
    (draft,) = drafter.propose([ask(3, [9, 9, *output[:end]], trees=False)])
    assert draft.tokens == tuple(output[end:])


def test_answers_that_nobody_reads_take_bounded_memory() -> None:
    drafter = SuffixDrafter()
    answer(drafter, 0, [1, 2], [3, 4])
    for key in range(1, 2 * MOST_WAITING):
        answer(drafter, key, [1, 2], words(20, 50_000, key))
        drafter.forget(key)
    assert len(drafter._line) <= MOST_WAITING
    drafter.observe([Seen(key=0, start=4, tokens=(5,))])
    drafter.propose([ask(1, [7, 8])])
    assert drafter.shared.nodes


def test_prompts_are_never_shared() -> None:
    secret = list(range(100, 120))
    drafter = SuffixDrafter()
    drafter.observe([Seen(key=1, start=0, tokens=secret)])
    drafter.forget(1)
    (draft,) = drafter.propose([ask(2, [7, 8, *secret[:6]])])
    assert draft.tokens == ()


def test_sharing_can_be_turned_off() -> None:
    output = list(range(100, 120))
    drafter = SuffixDrafter(SuffixConfig(share_bytes=0))
    answer(drafter, 1, [1, 2], output)
    (draft,) = drafter.propose([ask(2, [7, 8, *output[:6]])])
    assert draft.tokens == ()


def test_the_more_frequent_continuation_comes_first() -> None:
    text = [1, 2, 70, 1, 2, 80, 1, 2, 80, 1, 2]
    offer = SuffixDrafter(SuffixConfig(floor=0)).offer(ask(1, text, nodes=200))
    chance = {offer.tokens[i]: offer.chances[i] for i in range(200) if offer.parents[i] == -1}
    assert chance[80] > chance[70] > 0


@pytest.mark.parametrize("sizes", [(0, 0), (MIB, 5), (MIB, -1)])
def test_budgets_too_small_to_hold_anything_are_refused(sizes: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match="allowed"):
        SuffixConfig(text_bytes=sizes[0], share_bytes=sizes[1])
