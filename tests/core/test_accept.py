"""Stage 3 piece by piece; the laws as a whole are in `tests/laws`."""

import pytest
import torch

from outpace.core.accept import accept, choose_rule, ratio, scaled_ratio, share
from outpace.core.coins import SeededCoins
from outpace.core.draft import Draft, chain
from outpace.core.law import History, Laws
from outpace.core.sampling import Rule, Sampling
from outpace.errors import CapabilityError, ContractError

DRAWN = chain((0, 1), laws_LV=torch.full((2, 2), 0.5))
CHOSEN = chain((0, 1))
TREE = Draft(tokens=(0, 1), parents=(-1, -1))
DRAWN_TREE = Draft(
    tokens=(0, 1), parents=(-1, -1), laws_LV=torch.full((1, 2), 0.5), law_rows=(0, 0)
)
WARM = Sampling(temperature=1)


@pytest.mark.parametrize(
    ("sampling", "draft", "rule"),
    [
        (Sampling(), DRAWN, "match"),
        (Sampling(temperature=1, seed=3), CHOSEN, "match"),
        (WARM, CHOSEN, "token"),
        (WARM, TREE, "token"),
        (WARM, DRAWN, "block"),
        (WARM, DRAWN_TREE, "traversal"),
        (Sampling(temperature=1, rule="traversal"), DRAWN, "traversal"),
        (Sampling(rule="token"), CHOSEN, "token"),
    ],
)
def test_the_rule_is_the_named_one_or_the_best_for_the_draft(
    sampling: Sampling, draft: Draft, rule: Rule
) -> None:
    assert choose_rule(sampling, draft) == rule


def test_block_refuses_a_tree_and_says_what_to_do() -> None:
    with pytest.raises(CapabilityError, match="traversal"):
        choose_rule(Sampling(temperature=1, rule="block"), TREE)


def test_ratios_survive_zeros_and_ones() -> None:
    assert ratio(0.0, 0.0) == 0
    assert ratio(0.2, 0.0) == 1
    assert ratio(0.3, 0.3) == 1
    assert ratio(0.1, 0.4) == 0.25
    assert scaled_ratio(0.5, 0.4, 0.4) == 0.5
    assert scaled_ratio(1.0, 0.4, 0.2) == 1
    assert scaled_ratio(0.5, 0.0, 0.0) == 0


def test_a_share_is_a_probability_even_where_rounding_is_all_there_is() -> None:
    eps = 2.0**-53
    for weight in (0.0, eps, 0.5, 1 - eps, 1.0):
        for mass in (0.0, 1e-300, eps, weight / 3, weight):
            if mass <= weight:
                assert 0 <= share(mass, weight) <= 1
    assert share(0.0, 1.0) == 1


def _laws(logits: list[list[float]], draft: Draft, sampling: Sampling = WARM) -> Laws:
    return Laws(
        sampling=sampling, history=History((0,)), logits_AV=torch.tensor(logits),
        paths=[(), *(draft.guesses(node) for node in range(len(draft)))],
    )  # fmt: skip


def test_siblings_that_use_up_the_law_are_refused() -> None:
    one_hot = Draft(
        tokens=(0, 0), parents=(-1, -1), laws_LV=torch.tensor([[1.0, 0.0]]), law_rows=(0, 0)
    )
    laws = _laws([[-30.0, 30.0], [0, 0], [0, 0]], one_hot)
    with pytest.raises(ContractError, match="used up the whole law"):
        accept("token", one_hot, laws, SeededCoins(0, 1), 1)


@pytest.mark.parametrize("rule", ["token", "block", "traversal"])
def test_every_judgement_carries_the_numbers_it_came_from(rule: Rule) -> None:
    laws = _laws([[1.0, 0.0], [0.0, 1.0], [0.5, 0.0]], DRAWN)
    verdict = accept(rule, DRAWN, laws, SeededCoins(3, 1), 1)
    for j in verdict.judgements:
        assert j.token == DRAWN.tokens[j.node]
        assert j.p == pytest.approx(float(laws.law(DRAWN.parents[j.node] + 1)[j.token]))
        assert j.q == 0.5
        assert 0 <= j.a <= 1
        assert (j.node in verdict.path) or not j.kept or rule == "block"
    assert verdict.row == (verdict.path[-1] + 1 if verdict.path else 0)


@pytest.mark.parametrize("rule", ["match", "token", "block", "traversal"])
def test_a_cold_target_keeps_exactly_its_own_tokens(rule: Rule) -> None:
    draft = chain((1, 0, 1))
    sampling = Sampling(rule=rule)
    laws = _laws([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], draft, sampling)
    verdict = accept(rule, draft, laws, SeededCoins(0, 1), 1)
    assert verdict.path == (0, 1)
