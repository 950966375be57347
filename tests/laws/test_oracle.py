"""The oracle itself: one coin is one u, and merging runs loses nothing."""

from collections.abc import Callable, Hashable
from itertools import product

import pytest
import torch

from laws.cases import BY_NAME
from laws.oracle import LawError, Oracle, OracleCoins, deep_fork, law_of, worst
from laws.world import World
from outpace.core.coins import Purpose

HALF_V = torch.tensor([0.25, 0.25, 0.5])


class Steps:
    """Three steps that ask coins; merged when they noted the same, or never."""

    def __init__(self, oracle: Oracle, since: Callable[[int], int], *, merges: bool) -> None:
        self._oracle, self._since, self._merges = oracle, since, merges
        self.noted: list[int] = []
        self.path: list[int] = []

    def step(self) -> None:
        coins: OracleCoins = self._oracle.coins(0, self._since(len(self.noted)))
        drawn = coins.categorical(HALF_V, Purpose.DRAFT, 0)
        fell = coins.bernoulli(0.4, Purpose.DRAFT, 0)
        self.noted.append(int(fell))
        self.path.append(drawn)

    @property
    def done(self) -> bool:
        return len(self.noted) == 3

    @property
    def size(self) -> int:
        return len(self.noted)

    @property
    def state(self) -> Hashable:
        return tuple(self.noted if self._merges else (*self.noted, *self.path))

    @property
    def outcome(self) -> Hashable:
        return tuple(self.noted)

    def fork(self) -> "Steps":
        return deep_fork(self, (self._oracle, self._since))


@pytest.mark.parametrize("merges", [True, False])
def test_one_coin_is_one_uniform_however_often_it_is_asked(merges: bool) -> None:
    oracle = Oracle()
    law = law_of(Steps(oracle, lambda n: 0, merges=merges), oracle).law
    assert law == {(1, 1, 1): pytest.approx(0.4), (0, 0, 0): pytest.approx(0.6)}


@pytest.mark.parametrize("merges", [True, False])
def test_other_coins_are_independent(merges: bool) -> None:
    oracle = Oracle()
    law = law_of(Steps(oracle, lambda n: n, merges=merges), oracle).law
    assert len(law) == 8
    for noted in product((0, 1), repeat=3):
        assert law[noted] == pytest.approx(0.4 ** sum(noted) * 0.6 ** (3 - sum(noted)))


@pytest.mark.parametrize(
    "name", ["block chain2 without half", "traversal fork with random", "match late coupled half"]
)
def test_merging_runs_that_wrote_the_same_changes_no_probability(name: str) -> None:
    class Lonely(World):
        """Remembers its path, so that nothing is ever merged."""

        trail: tuple[Hashable, ...] = ()

        @property
        def state(self) -> Hashable:
            return self.trail

        def step(self) -> None:
            super().step()
            self.trail = (*self.trail, tuple(sorted(oracle.known.items())))

    case, oracle = BY_NAME[name], Oracle()
    alone = law_of(Lonely([case], case.drafter(), oracle.coins), oracle)
    other = Oracle()
    merged = law_of(World([case], case.drafter(), other.coins), other)
    assert worst(alone.law, merged.law)[0] < 1e-14
    assert alone.n_runs > merged.n_runs


def test_all_paths_together_have_probability_1() -> None:
    case, oracle = BY_NAME["traversal boughs with half"], Oracle()
    law = law_of(World([case], case.drafter(), oracle.coins), oracle).law
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("a", [-0.1, 1.0000001, float("nan")])
def test_a_question_that_makes_no_sense_is_refused(a: float) -> None:
    coins = Oracle().coins(0, 0)
    with pytest.raises(LawError):
        coins.bernoulli(a, Purpose.ACCEPT, 0)
    with pytest.raises(LawError):
        coins.categorical(torch.tensor([a - 2, 0.0]), Purpose.ACCEPT, 0)
