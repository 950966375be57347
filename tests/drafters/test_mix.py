"""The mix: one tree of all offers, corrected by what was verified; drawn guesses stay whole."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import pytest
import torch

from outpace.core.coins import SeededCoins
from outpace.core.draft import Ask, Draft, Seen, Style, chain
from outpace.core.sampling import Sampling
from outpace.drafters.mix.drafter import MixDrafter
from outpace.drafters.mix.forest import Calibration
from outpace.drafters.tree import Offer
from outpace.errors import ConfigError


def ask(*, nodes: int = 8, trees: bool = True, style: Style = "chosen") -> Ask:
    return Ask(
        key=0, tokens=[1, 2, 3], n_prompt=1, max_nodes=nodes, max_depth=8, trees=trees,
        style=style, sampling=Sampling(temperature=float(style == "drawn")),
        coins=SeededCoins(0, 3),
    )  # fmt: skip


@dataclass
class Fixed:
    """Says the same every time; an `Offers` when it has chances."""

    name: str
    said: Offer

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return [self.said.draft() for _ in asks]

    def offer(self, ask: Ask) -> Offer:
        return self.said

    def observe(self, seen: Seq[Seen]) -> None:
        pass

    def forget(self, key: int) -> None:
        pass


@dataclass
class Silent:
    """Offers a draft without saying how sure it is; counts how often it was asked."""

    said: Draft
    name: str = "silent"
    asked: list[int] = field(default_factory=list)

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        self.asked.append(len(asks))
        return [self.said for _ in asks]

    def observe(self, seen: Seq[Seen]) -> None:
        pass

    def forget(self, key: int) -> None:
        pass


def fixed(name: str, *nodes: tuple[int, int, float]) -> Fixed:
    """A source that offers (token, parent, path chance) nodes."""
    return Fixed(
        name,
        Offer(
            tokens=[n[0] for n in nodes],
            parents=[n[1] for n in nodes],
            chances=[n[2] for n in nodes],
            sources=[name] * len(nodes),
        ),
    )


def test_twins_are_merged_and_the_likeliest_nodes_fill_the_budget() -> None:
    a = fixed("a", (5, -1, 0.8), (6, 0, 0.5), (7, 1, 0.1))
    b = fixed("b", (5, -1, 0.6), (9, 0, 0.3), (8, -1, 0.2))
    (draft,) = MixDrafter([a, b]).propose([ask(nodes=4)])
    paths = [draft.guesses(node) for node in range(len(draft))]
    assert paths == [(5,), (5, 6), (5, 9), (8,)]
    assert draft.sources == ("a", "a", "b", "b")


def test_where_only_chains_are_taken_it_offers_a_chain() -> None:
    a, b = fixed("a", (5, -1, 0.8), (6, 0, 0.2)), fixed("b", (5, -1, 0.7), (9, 0, 0.6))
    (draft,) = MixDrafter([a, b]).propose([ask(trees=False)])
    assert draft.is_chain
    assert draft.tokens == (5, 9)


def test_a_source_that_is_always_wrong_loses_its_place() -> None:
    liar, honest = fixed("liar", (5, -1, 0.95)), fixed("honest", (6, -1, 0.5))
    mix = MixDrafter([liar, honest])
    for _ in range(300):
        (draft,) = mix.propose([ask(nodes=2)])
        mix.observe([Seen(key=0, start=3, tokens=[6])])
    assert draft.tokens[0] == 6


def test_nothing_is_learned_from_what_was_not_reached() -> None:
    source = fixed("a", (5, -1, 0.9), (6, 0, 0.85), (7, 1, 0.8))
    mix, fresh = MixDrafter([source]), Calibration()
    mix.propose([ask()])
    mix.observe([Seen(key=0, start=3, tokens=[4])])
    fresh.learn(0.9, right=False)
    learned = mix.calibrations[0]
    assert [learned.corrected(p / 20) for p in range(20)] == [
        fresh.corrected(p / 20) for p in range(20)
    ]


def test_an_observation_of_another_place_teaches_nothing() -> None:
    mix = MixDrafter([fixed("a", (5, -1, 0.9))])
    mix.propose([ask()])
    mix.observe([Seen(key=0, start=9, tokens=[4])])
    assert mix.calibrations[0].corrected(0.9) == Calibration().corrected(0.9)


def test_a_drawn_draft_is_taken_whole_or_not_at_all() -> None:
    laws_LV = torch.full((3, 16), 1 / 16)
    silent = Silent(chain([1, 2, 3], laws_LV=laws_LV, source="silent"))
    weak, strong = fixed("weak", (5, -1, 0.1)), fixed("strong", (5, -1, 0.97), (6, 0, 0.95))
    (draft,) = MixDrafter([weak, silent]).propose([ask(style="drawn")])
    assert draft is silent.said
    long = fixed("long", *((i, i - 1, 0.99**i) for i in range(8)))
    (draft,) = MixDrafter([long, strong, silent]).propose([ask(style="drawn")])
    assert not draft.drawn


def test_chosen_guesses_of_a_silent_source_join_the_tree() -> None:
    silent = Silent(chain([5, 7], source="silent"))
    (draft,) = MixDrafter([fixed("a", (5, -1, 0.3), (6, 0, 0.2)), silent]).propose([ask()])
    paths = {draft.guesses(node) for node in range(len(draft))}
    assert paths == {(5,), (5, 6), (5, 7)}


def test_a_silent_source_that_is_always_wrong_is_asked_only_to_probe() -> None:
    silent = Silent(chain([1, 2, 3], source="silent"))
    mix = MixDrafter([fixed("a", (5, -1, 0.9)), silent])
    for _ in range(1000):
        mix.propose([ask()])
        mix.observe([Seen(key=0, start=3, tokens=[5])])
    silent.asked.clear()
    for _ in range(256):
        mix.propose([ask()])
        mix.observe([Seen(key=0, start=3, tokens=[5])])
    assert 2 <= len(silent.asked) <= 8


@pytest.mark.parametrize("sources", [[], [fixed("a"), fixed("a")]])
def test_a_mix_of_nothing_or_of_twins_is_refused(sources: list[Fixed]) -> None:
    with pytest.raises(ConfigError, match="each drafter once"):
        MixDrafter(sources)
