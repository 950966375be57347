"""Block and traversal against the numbers that can be derived by hand or by another route."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from laws.cases import BY_NAME, RULE_CASES
from laws.guessers import CHAIN2, FORK, Pick
from laws.oracle import Oracle, law_of
from laws.world import SKILLS, Case, World, ident
from outpace.core.sampling import Rule, Sampling


def fixed(*p: float) -> Tensor:
    """A law that never changes."""
    return torch.tensor(p, dtype=torch.float64)


def plain(p_V: Tensor, q_V: Tensor, *, rule: Rule, shape: tuple[int, ...], pick: Pick) -> Case:
    """One round at a model that always says p, guessed by q."""
    return Case(
        name=f"{rule} {shape} {pick}", sampling=Sampling(temperature=1, rule=rule),
        vocab_size=len(p_V), shape=shape, pick=pick, n_watched=1,
        table=lambda text: p_V.log(), guess_law=lambda text: q_V,
    )  # fmt: skip


class FirstRound(World):
    """Watches the first round: the draft's tokens and the nodes kept."""

    @property
    def done(self) -> bool:
        return bool(self.rounds)

    @property
    def outcome(self) -> tuple[tuple[int, ...], int]:
        done = self.rounds[0]
        return done.draft.tokens, done.n_kept


def kept_law(case: Case) -> dict[tuple[tuple[int, ...], int], float]:
    """Probability of (tokens guessed, how many were kept) in the first round."""
    oracle = Oracle()
    found = law_of(FirstRound([case], case.drafter(), oracle.coins), oracle).law
    return {(k[0], k[1]): v for k, v in found.items() if isinstance(k, tuple)}


def mean_kept(case: Case) -> float:
    """Guesses kept in the first round, on average."""
    return sum(n_kept * weight for (_, n_kept), weight in kept_law(case).items())


def test_the_papers_example_keeps_ten_ninths_by_token_and_eleven_ninths_by_block() -> None:
    p_V, q_V = fixed(1 / 3, 2 / 3), fixed(2 / 3, 1 / 3)
    kept = {
        rule: mean_kept(plain(p_V, q_V, rule=rule, shape=CHAIN2, pick="without"))
        for rule in ("token", "block", "traversal")
    }
    assert kept["token"] == pytest.approx(10 / 9, abs=1e-12)
    assert kept["block"] == pytest.approx(11 / 9, abs=1e-12)
    assert kept["traversal"] == pytest.approx(11 / 9, abs=1e-12)


@pytest.mark.parametrize("rule", ["block", "traversal"])
@pytest.mark.parametrize("skill", SKILLS)
def test_a_prefix_survives_with_exactly_its_weight(rule: Rule, skill: str) -> None:
    """P(tau >= i | x_1..x_i) = P_i, Sun et al. 2403.10444."""
    case = BY_NAME[f"{rule} chain3 without {skill}"]
    target, law = case.target(), kept_law(case)
    guess_law = case.drafter().law
    for prefix in (x for n in (1, 2, 3) for x in product(range(3), repeat=n)):
        drawn = sum(w for (x, _), w in law.items() if x[: len(prefix)] == prefix)
        if drawn == 0:
            continue
        survived = sum(
            w for (x, kept), w in law.items() if x[: len(prefix)] == prefix and kept >= len(prefix)
        )
        weight = 1.0
        for i, x in enumerate(prefix):
            ratio = target.law(prefix[:i])[x] / float(guess_law(prefix[:i])[x])
            weight = min(1.0, weight * ratio)
        assert survived / drawn == pytest.approx(weight, abs=1e-12)


@pytest.mark.parametrize("case", [c for c in RULE_CASES if c.sampling.rule == "block"], ids=ident)
def test_on_a_chain_traversal_is_block(case: Case) -> None:
    other = replace(case, sampling=replace(case.sampling, rule="traversal"))
    block, traversal = kept_law(case), kept_law(other)
    assert block.keys() == traversal.keys()
    for key, weight in block.items():
        assert traversal[key] == pytest.approx(weight, abs=1e-12)


@pytest.mark.parametrize("skill", ["half", "random"])
@pytest.mark.parametrize("seed", range(6))
def test_block_keeps_at_least_as_much_as_token(seed: int, skill: str) -> None:
    def kept(rule: Rule) -> float:
        case = BY_NAME[f"{rule} chain3 without {skill}"]
        return mean_kept(replace(case, seed=seed))

    assert kept("block") >= kept("token") - 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_more_siblings_and_no_replacement_keep_more_at_one_node(seed: int) -> None:
    def kept(shape: str, pick: str) -> float:
        return mean_kept(replace(BY_NAME[f"traversal {shape} {pick} random"], seed=seed))

    one, twice, two = kept("chain1", "without"), kept("fork", "with"), kept("fork", "without")
    assert one <= twice + 1e-12
    assert one <= two + 1e-12
    assert one == pytest.approx(1 - _distance(seed), abs=1e-12)


def _distance(seed: int) -> float:
    """TV(p, q) at the first token: 1 - it is what one guess can keep."""
    case = replace(BY_NAME["token chain1 without random"], seed=seed)
    p_V = fixed(*case.target().law(()))
    q_V = case.drafter().law(())
    return float((p_V - q_V).abs().sum()) / 2


def by_hand(p_V: Tensor, q_V: Tensor, pick: Pick) -> float:
    """Two guesses at one place, worked out in closed form from the algorithm's two steps."""
    first = float(torch.minimum(p_V, q_V).sum())
    rest_V = (p_V - q_V).clamp_min(0) / (1 - first)
    if pick == "with":
        return first + (1 - first) * float(torch.minimum(rest_V, q_V).sum())
    # The first guess is x and lost with probability [q - p]+ (x); the second is drawn from the
    # rest of q.
    kept = first
    for x in range(len(p_V)):
        left_V = q_V.clone()
        left_V[x] = 0
        lost = float((q_V[x] - p_V[x]).clamp_min(0))
        kept += lost * float(torch.minimum(rest_V, left_V / left_V.sum()).sum())
    return kept


@pytest.mark.parametrize("rule", ["token", "traversal"])
@pytest.mark.parametrize("pick", ["with", "without"])
@pytest.mark.parametrize("q", [(0.5, 0.3, 0.2), (0.1, 0.1, 0.8), (0.3, 0.4, 0.3)])
def test_one_node_with_two_children_keeps_what_the_closed_form_says(
    rule: Rule, pick: Pick, q: tuple[float, ...]
) -> None:
    p_V, q_V = fixed(0.2, 0.2, 0.6), fixed(*q)
    case = plain(p_V, q_V, rule=rule, shape=FORK, pick=pick)
    assert mean_kept(replace(case, n_watched=2)) == pytest.approx(
        by_hand(p_V, q_V, pick), abs=1e-12
    )


@pytest.mark.parametrize("seed", range(4))
def test_traversal_keeps_at_least_as_much_as_token_on_a_tree(seed: int) -> None:
    for pick in ("with", "without"):
        for shape in ("elbow", "late"):
            kept = [
                mean_kept(replace(BY_NAME[f"{rule} {shape} {pick} random"], seed=seed))
                for rule in ("token", "traversal")
            ]
            assert kept[1] >= kept[0] - 1e-12


def test_a_drafter_that_is_the_target_loses_nothing() -> None:
    for rule, pick in (("token", "without"), ("block", "without"), ("traversal", "without"),
                       ("match", "coupled")):  # fmt: skip
        case = BY_NAME[f"{rule} chain3 {pick} self"]
        assert mean_kept(case) == pytest.approx(3, abs=1e-12)


def test_a_draft_of_nothing_keeps_nothing() -> None:
    case = replace(BY_NAME["token chain3 without half"], depth=lambda n: 0)
    assert kept_law(case) == {((), 0): pytest.approx(1.0, abs=1e-12)}
