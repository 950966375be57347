"""Non-anticipation: what enters a block may depend on anything but the drawn guess itself.

Demonstrations on the real round with drafters that obey or break it: the exact ones to 1e-12,
the others by a bias one can see.
"""

from collections.abc import Callable, Hashable
from collections.abc import Sequence as Seq
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from laws.cases import WARM, no_repeats
from laws.guessers import CHAIN1, CHAIN2, CHAIN3, Guesser
from laws.oracle import Oracle, law_of, worst
from laws.reference import Text
from laws.world import TOLERANCE, Case, World, check, error
from outpace.core.draft import NO_GUESS, Ask, Draft, chain
from outpace.core.sampling import Rule

VISIBLE = 5e-3
RULES: tuple[Rule, ...] = ("token", "block", "traversal")

# (law, drawn token) -> whether to stop there
Stop = Callable[[Tensor, int], bool]


def unlikely(q_V: Tensor, x: int) -> bool:
    """A drawn guess its own drafter thought unlikely."""
    return bool(q_V[x] < 0.4)


class Looker(Guesser):
    """Draws a chain, looks at each guess, and stops: keeping it or dropping it."""

    def __init__(self, case: Case, stop: Stop, *, keeps: bool) -> None:
        super().__init__(case.drafter().law, case.shape, case.pick)
        self._stop, self._keeps = stop, keeps

    def guess(self, ask: Ask) -> Draft:
        draft = super().guess(ask)
        n = len(draft)
        for i in range(n):
            q_V = self.law((*ask.tokens[ask.n_prompt :], *draft.tokens[:i]))
            if self._stop(q_V, draft.tokens[i]):
                n = i + self._keeps
                break
        return cut(draft, n)


def cut(draft: Draft, n: int) -> Draft:
    """The first n guesses of a chain."""
    laws_LV = draft.laws_LV[:n] if draft.laws_LV is not None and n else None
    return chain(draft.tokens[:n], laws_LV=laws_LV)


def case(rule: Rule, shape: tuple[int, ...] = CHAIN2) -> Case:
    return Case(
        name=f"{rule} looked at", sampling=replace(WARM, rule=rule), shape=shape, skill="random"
    )


@pytest.mark.parametrize("rule", RULES)
def test_stopping_after_a_look_is_exact_if_the_guess_stays(rule: Rule) -> None:
    c = case(rule)
    check(c, Looker(c, unlikely, keeps=True))


@pytest.mark.parametrize("rule", RULES)
def test_dropping_the_unlikely_draw_is_biased(rule: Rule) -> None:
    c = case(rule)
    assert error(c, Looker(c, unlikely, keeps=False)) > VISIBLE


@pytest.mark.parametrize("rule", RULES)
def test_chosen_guesses_may_be_pruned_by_anything(rule: Rule) -> None:
    c = replace(case(rule), pick="chosen")
    check(c, Looker(c, unlikely, keeps=False))


class Throughput(Guesser):
    """Draws three, then verifies the number that promises most tokens per second."""

    def guess(self, ask: Ask) -> Draft:
        draft = super().guess(ask)
        best, n, hope, tokens = 1.0, 0, 1.0, 1.0
        for i in range(len(draft)):
            q_V = self.law((*ask.tokens[ask.n_prompt :], *draft.tokens[:i]))
            hope *= float(q_V[draft.tokens[i]])  # the confidence of the drawn token
            tokens += hope
            if tokens / (1 + 0.3 * (i + 1)) > best:
                best, n = tokens / (1 + 0.3 * (i + 1)), i + 1
        return cut(draft, n)


@pytest.mark.parametrize("rule", RULES)
def test_the_best_length_by_the_drawn_tokens_confidence_is_biased(rule: Rule) -> None:
    c = case(rule, CHAIN3)
    assert error(c, Throughput(c.drafter().law, c.shape, c.pick)) > VISIBLE


class Ranker(Guesser):
    """Two requests, room for one guess: it goes to the request that ranks first."""

    by_draw = True

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        if len(asks) < 2:
            return super().propose(asks)
        drafts = [self.guess(ask) for ask in asks]
        ranks = []
        for ask, draft in zip(asks, drafts, strict=True):
            q_V = self.law(tuple(ask.tokens[ask.n_prompt :]))
            ranks.append(float(q_V[draft.tokens[0]] if self.by_draw else q_V.max()))
        first = ranks.index(max(ranks))
        return [draft if i == first else NO_GUESS for i, draft in enumerate(drafts)]


class LawRanker(Ranker):
    """Ranks by the law, before anything was drawn from it."""

    by_draw = False


def batch_error(ranker: type[Ranker], rule: Rule) -> float:
    """Largest error of the joint law of two requests that share their guesses' budget."""
    one = replace(case(rule, CHAIN1), n_watched=1)
    two = replace(one, prompt=(1, 2))
    oracle = Oracle()
    drafter = ranker(one.drafter().law, one.shape, one.pick)
    found = law_of(World([one, two], drafter, oracle.coins), oracle).law
    wanted: dict[Hashable, float] = {
        (a, b): x * y
        for a, x in one.target().texts(1).items()
        for b, y in two.target().texts(1).items()
    }
    return worst(found, wanted)[0]


@pytest.mark.parametrize("rule", RULES)
def test_ranking_over_the_batch_by_the_drawn_tokens_is_biased(rule: Rule) -> None:
    assert batch_error(Ranker, rule) > VISIBLE


@pytest.mark.parametrize("rule", RULES)
def test_ranking_over_the_batch_by_the_laws_is_exact(rule: Rule) -> None:
    assert batch_error(LawRanker, rule) <= TOLERANCE


def masked(law: Callable[[Text], Tensor]) -> Callable[[Text], Tensor]:
    """The drafter's law under the grammar too."""

    def masked_law(text: Text) -> Tensor:
        q_V = law(text).clone()
        q_V[[v for v in range(len(q_V)) if v not in no_repeats(text)]] = 0
        return q_V / q_V.sum()

    return masked_law


@pytest.mark.parametrize("rule", RULES)
def test_a_draft_cut_at_the_first_invalid_token_is_biased(rule: Rule) -> None:
    class Cutter(Guesser):
        def guess(self, ask: Ask) -> Draft:
            draft = super().guess(ask)
            text = tuple(ask.tokens[ask.n_prompt :])
            ok = [x in no_repeats((*text, *draft.tokens[:i])) for i, x in enumerate(draft.tokens)]
            return cut(draft, [*ok, False].index(False))

    c = replace(case(rule), allowed=no_repeats)
    assert error(c, Cutter(c.drafter().law, c.shape, c.pick)) > VISIBLE


@pytest.mark.parametrize("rule", RULES)
def test_masking_the_drafter_or_rejecting_the_invalid_guess_is_exact(rule: Rule) -> None:
    c = replace(case(rule), allowed=no_repeats)
    check(c)
    check(c, Guesser(masked(c.drafter().law), c.shape, c.pick))


@pytest.mark.parametrize("rule", RULES)
def test_the_coupled_noise_must_not_meet_a_residual(rule: Rule) -> None:
    class Shared(Guesser):
        """Reports the law it drew from, but drew with the position's noise."""

        def pick(
            self, ask: Ask, q_V: Tensor, elder: Seq[int], position: int, branch: int
        ) -> int | None:
            return ask.coins.coupled(q_V.log(), position)

    c = case(rule)
    drafter = Shared(c.drafter().law, c.shape, c.pick)
    fresh = error(replace(c, n_watched=1), drafter)
    assert fresh <= TOLERANCE  # one round alone cannot tell
    # The same noise again in the next round can, where the first round weighed later guesses.
    assert (error(c, drafter) > 1e-3) == (rule != "token")


def test_guesses_that_are_all_certain_are_exact() -> None:
    c = replace(case("block"), guess_law=lambda text: torch.eye(3, dtype=torch.float64)[1])
    check(c)
