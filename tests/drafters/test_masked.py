"""Guesses under a mask: what it forbids is not offered, what it forces is."""

from collections.abc import Callable
from collections.abc import Sequence as Seq

import pytest
import torch
from torch import Tensor

from outpace.core.coins import SeededCoins
from outpace.core.draft import Ask, Draft, Seen, chain
from outpace.core.law import TokenMask
from outpace.core.sampling import Sampling
from outpace.drafters.lookup import LookupDrafter
from outpace.drafters.mix.drafter import MixDrafter
from outpace.drafters.mix.forest import FORCED
from outpace.drafters.suffix.drafter import SuffixDrafter
from outpace.drafters.tree import Offers

V = 10
# 1 2 3 was followed by 4 and by 5 before.
TEXT = [1, 2, 3, 4, 4, 1, 2, 3, 5, 5, 1, 2, 3]


class Rule(TokenMask):
    """Allows what a function of the guesses says; forces where that is one token."""

    def __init__(self, allowed: Callable[[tuple[int, ...]], set[int]]) -> None:
        self._allowed = allowed

    def allowed(self, guesses: Seq[int]) -> Tensor:
        return torch.tensor([v in self._allowed(tuple(guesses)) for v in range(V)])

    def advance(self, token: int) -> None:
        pass

    def forced(self, guesses: Seq[int]) -> Seq[int]:
        allowed = self._allowed(tuple(guesses))
        return tuple(allowed) if len(allowed) == 1 else ()


def ask(mask: TokenMask | None, *, nodes: int = 6, depth: int = 6, trees: bool = True) -> Ask:
    return Ask(
        key=0, tokens=TEXT, n_prompt=1, max_nodes=nodes, max_depth=depth, trees=trees,
        style="chosen", sampling=Sampling(), coins=SeededCoins(0, len(TEXT)), mask=mask,
    )  # fmt: skip


def paths(draft: Draft) -> set[tuple[int, ...]]:
    return {draft.guesses(node) for node in range(len(draft))}


@pytest.mark.parametrize("trees", [True, False])
@pytest.mark.parametrize("drafter", [LookupDrafter(), SuffixDrafter()], ids=lambda d: d.name)
def test_forbidden_guesses_are_left_out_and_others_take_their_rows(
    drafter: Offers, trees: bool
) -> None:
    free = paths(drafter.offer(ask(None)).draft())
    assert {(4,), (5,), (4, 4)} <= free
    no_four = Rule(lambda text: set(range(V)) - {4})
    found = paths(drafter.offer(ask(no_four, trees=trees)).draft())
    assert (5, 5) in found
    assert not any(4 in path for path in found)


def test_a_mask_reads_the_guesses_before() -> None:
    once = Rule(lambda text: set(range(V)) - set(text))
    found = paths(LookupDrafter().offer(ask(once)).draft())
    assert {(4,), (5,)} <= found
    assert not found & {(4, 4), (5, 5)}


def test_what_is_forced_is_guessed_whatever_the_sources_say() -> None:
    spelling = Rule(lambda text: {7} if len(text) < 3 else set(range(V)))
    mix = MixDrafter([LookupDrafter(), SuffixDrafter()])
    (draft,) = mix.propose([ask(spelling)])
    assert draft.tokens[:3] == (7, 7, 7)
    assert draft.sources[:3] == (FORCED,) * 3
    assert draft.chances[:3] == (1.0, 1.0, 1.0)


def test_what_is_forced_after_a_guess_is_as_likely_as_the_guess() -> None:
    after_five = Rule(lambda text: {9} if text[-1:] == (5,) else set(range(V)) - {4})
    mix = MixDrafter([LookupDrafter(), SuffixDrafter()])
    (draft,) = mix.propose([ask(after_five)])
    (five,) = [n for n in range(len(draft)) if draft.guesses(n) == (5,)]
    (nine,) = draft.children[five + 1]
    assert draft.guesses(nine) == (5, 9)
    assert draft.chances[nine] == draft.chances[five]


@pytest.mark.parametrize("trees", [True, False])
@pytest.mark.parametrize(("nodes", "depth"), [(1, 6), (3, 3), (6, 2), (2, 1)])
def test_forced_guesses_keep_the_budget(nodes: int, depth: int, trees: bool) -> None:
    mix = MixDrafter([LookupDrafter()])
    (draft,) = mix.propose([ask(Rule(lambda _: {7}), nodes=nodes, depth=depth, trees=trees)])
    assert draft.tokens == (7,) * min(nodes, depth)
    assert draft.is_chain


def test_no_record_learns_from_what_was_forced() -> None:
    mix = MixDrafter([LookupDrafter(), SuffixDrafter()])
    untaught = [c.corrected(0.55) for c in mix.calibrations]
    for _ in range(20):
        mix.propose([ask(Rule(lambda _: {4}))])
        mix.observe([Seen(key=0, start=len(TEXT), tokens=[4, 4, 4])])
        mix.forget(0)
    assert [c.corrected(0.55) for c in mix.calibrations] == untaught


def test_a_silent_sources_guesses_join_the_forced_ones() -> None:
    class Model:
        name = "model"

        def propose(self, asks: Seq[Ask]) -> list[Draft]:
            return [chain([7, 2, 1], source="model") for _ in asks]

        def observe(self, seen: Seq[Seen]) -> None:
            pass

        def forget(self, key: int) -> None:
            pass

    starts_with_seven = Rule(lambda text: set(range(V)) if text else {7})
    (draft,) = MixDrafter([Model()]).propose([ask(starts_with_seven)])
    assert draft.tokens == (7, 2, 1)
    assert draft.sources == (FORCED, "model", "model")
