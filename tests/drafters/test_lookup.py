"""Lookup: the newest of the longest matches is followed, several share a tree, none is a rescan."""

import pytest

from outpace.core.coins import SeededCoins
from outpace.core.draft import Ask, Seen
from outpace.core.sampling import Sampling
from outpace.drafters.lookup import LookupConfig, LookupDrafter, Text


def ask(tokens: list[int], *, nodes: int = 8, depth: int = 8, trees: bool = True) -> Ask:
    return Ask(
        key=0, tokens=tokens, n_prompt=1, max_nodes=nodes, max_depth=depth, trees=trees,
        style="chosen", sampling=Sampling(), coins=SeededCoins(0, len(tokens)),
    )  # fmt: skip


def test_a_repeated_passage_is_continued() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 50, 51, 1, 2, 3, 4]
    (draft,) = LookupDrafter().propose([ask(text, nodes=4, trees=False)])
    assert draft.tokens == (5, 6, 7, 8)
    assert draft.is_chain


def test_the_longest_match_is_followed_first() -> None:
    text = [1, 2, 3, 4, 70, 9, 3, 4, 80, 9, 2, 3, 4, 90, 9, 1, 2, 3, 4]
    (draft,) = LookupDrafter().propose([ask(text, nodes=1)])
    assert draft.tokens == (70,)


def test_several_continuations_become_a_tree_without_twins() -> None:
    text = [1, 2, 3, 70, 71, 9, 1, 2, 3, 80, 81, 8, 1, 2, 3, 70, 72, 7, 1, 2, 3]
    drafter = LookupDrafter(LookupConfig(floor=0.0))
    (draft,) = drafter.propose([ask(text, nodes=16, depth=2)])
    paths = [draft.guesses(node) for node in range(len(draft))]
    assert len(set(paths)) == len(paths)
    assert {(70,), (80,), (70, 71), (70, 72), (80, 81)} <= set(paths)
    assert paths[0] == (70,), "two of three occurrences say 70"


def test_a_text_that_ends_in_a_loop_is_taken_to_go_on_looping() -> None:
    (draft,) = LookupDrafter().propose([ask([5, 6, 7] * 5, nodes=8, trees=False)])
    assert draft.tokens == (5, 6, 7, 5, 6, 7, 5, 6)


def test_longer_matches_are_followed_deeper() -> None:
    long, short = list(range(100, 130)), list(range(200, 230))
    config = LookupConfig(floor=0.1)
    (after_long,) = LookupDrafter(config).propose([ask([*long, *short, *long[:12]])])
    (after_short,) = LookupDrafter(config).propose([ask([*long, *short, long[0]])])
    assert len(after_long) == 8
    assert len(after_short) < len(after_long)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_links_lead_to_the_last_equal_end(n: int) -> None:
    tokens = [(i * i * 7 + i // 3) % 5 for i in range(200)]
    text = Text()
    for token in tokens:
        text.extend([token])
    for end in range(n, len(tokens) + 1):
        same = [j for j in range(n, end) if tokens[j - n : j] == tokens[end - n : end]]
        assert text.before[n - 1][end] == (same[-1] if same else 0)


def test_observing_piece_by_piece_equals_reading_all_at_once() -> None:
    tokens = [(i * 13) % 7 for i in range(60)]
    told, asked = LookupDrafter(), LookupDrafter()
    told.observe([Seen(key=0, start=0, tokens=tokens[:20])])
    for i in range(20, 60, 4):
        told.observe([Seen(key=0, start=i, tokens=tokens[i : i + 4])])
    assert told.propose([ask(tokens)]) == asked.propose([ask(tokens)])


def test_what_it_was_not_told_it_reads_from_the_ask() -> None:
    tokens = [(i * 13) % 7 for i in range(60)]
    drafter = LookupDrafter()
    drafter.observe([Seen(key=0, start=0, tokens=tokens[:20])])
    drafter.observe([Seen(key=0, start=30, tokens=tokens[30:40])])
    assert drafter.propose([ask(tokens)]) == LookupDrafter().propose([ask(tokens)])
