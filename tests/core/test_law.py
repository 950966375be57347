"""Processors against a sort, and the edges where a law is none."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from laws.row_checks import check_greedy_under_a_grammar
from laws.world import Grammar
from outpace.core.law import History, Laws, filter_support, keep_likeliest, nucleus_size
from outpace.core.sampling import Sampling
from outpace.errors import ContractError

PROFILE = settings(max_examples=150)
# Few distinct values: ties everywhere.
WEIGHTS = st.lists(
    st.one_of(st.integers(0, 4).map(float), st.floats(0, 1)), min_size=1, max_size=300
).filter(any)


def as_law(weights: list[float]) -> torch.Tensor:
    weights_V = torch.tensor(weights, dtype=torch.float64)
    return weights_V / weights_V.sum()


def ranked(p_V: torch.Tensor) -> list[int]:
    """Ids by probability, the lowest id first among equals."""
    return sorted(range(len(p_V)), key=lambda v: (-float(p_V[v]), v))


@PROFILE
@given(weights=WEIGHTS, n=st.integers(1, 320))
def test_the_likeliest_are_those_a_sort_finds_ties_by_lowest_id(
    weights: list[float], n: int
) -> None:
    p_V = as_law(weights)
    wanted_V = torch.zeros_like(p_V)
    keep = ranked(p_V)[:n]
    wanted_V[keep] = p_V[keep]
    assert keep_likeliest(p_V, n).equal(wanted_V)


@PROFILE
@given(weights=WEIGHTS, top_p=st.floats(1e-9, 1.0))
def test_a_nucleus_is_the_shortest_head_of_the_sort_that_reaches_top_p(
    weights: list[float], top_p: float
) -> None:
    p_V = as_law(weights)
    sums_V = p_V[ranked(p_V)].cumsum(0)
    n = nucleus_size(p_V, top_p)
    assert n == len(p_V) or sums_V[n - 1] >= top_p
    assert n == 1 or sums_V[n - 2] < top_p


@pytest.mark.parametrize("sharpness", [0.0, 0.5, 3.0, 20.0])
def test_a_nucleus_of_a_whole_vocabulary_needs_no_full_sort_to_be_right(sharpness: float) -> None:
    generator = torch.Generator().manual_seed(0)
    p_V = (sharpness * torch.randn(30_000, generator=generator, dtype=torch.float64)).softmax(0)
    sums_V = p_V.sort(descending=True).values.cumsum(0)
    for top_p in (0.1, 0.5, 0.9, 0.99, 0.9999):
        assert nucleus_size(p_V, top_p) == int((sums_V < top_p).sum()) + 1


def laws_of(
    logits: list[list[float]], sampling: Sampling, *, dtype: torch.dtype = torch.float64
) -> Laws:
    logits_AV = torch.tensor(logits, dtype=dtype)
    paths = [(0,) * i for i in range(len(logits))]
    return Laws(sampling=sampling, history=History((0,)), paths=paths, logits_AV=logits_AV)


def test_the_coldest_law_is_one_hot_at_the_lowest_of_equals() -> None:
    for temperature in (0.0, 1e-300):
        law_V = laws_of([[1.0, 3.0, 2.0]], Sampling(temperature=temperature)).law(0)
        assert law_V.tolist() == [0, 1, 0]
    assert laws_of([[1.0, 3.0, 3.0]], Sampling()).law(0).tolist() == [0, 1, 0]


def test_top_k_of_nothing_or_of_everything_is_no_filter() -> None:
    p_V = as_law([1.0, 2.0, 3.0])
    for top_k in (0, 3, 4, 10**9):
        assert filter_support(p_V, Sampling(temperature=1, top_k=top_k)).equal(p_V)


def test_forced_tokens_and_bans_make_zeros_not_small_numbers() -> None:
    banned = laws_of([[9.0, 1.0, 1.0]], Sampling(temperature=1, banned=((0,),))).law(0)
    assert banned.tolist() == pytest.approx([0, 0.5, 0.5])
    assert banned[0] == 0
    assert laws_of([[9.0, 1.0, 1.0]], Sampling(temperature=1, forced=(2,))).law(0)[2] == 1


def test_half_precision_logits_are_widened_before_anything_else() -> None:
    law_V = laws_of([[1.0, 2.0]], Sampling(temperature=0.7), dtype=torch.bfloat16).law(0)
    assert law_V.dtype == torch.float32
    assert law_V.sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_damaged_logits_are_our_error_not_a_silent_law(bad: float) -> None:
    with pytest.raises(ContractError, match="damaged"):
        laws_of([[0.0, bad, 1.0]], Sampling(temperature=1)).law(0)


def test_a_row_after_which_nothing_may_follow_is_dead_and_its_law_zero() -> None:
    laws = laws_of([[0.0, 1.0], [1.0, 0.0]], Sampling(temperature=1, banned=((0, 0), (0, 1))))
    assert not laws.dead(0)
    assert laws.dead(1)
    assert not laws.law(1).any()


def test_argmax_ids_suffice_only_where_no_law_is_needed() -> None:
    history = History((0,))
    Laws(sampling=Sampling(), history=history, paths=[()], best_A=[1])
    for sampling in (Sampling(temperature=1), Sampling(rule="token"), Sampling(min_tokens=1)):
        with pytest.raises(ContractError, match="logits"):
            Laws(sampling=sampling, history=history, paths=[()], best_A=[1])


def test_a_rows_law_is_bit_equal_whatever_shares_the_pass() -> None:
    generator = torch.Generator().manual_seed(1)
    logits_AV = torch.randn(4, 5000, generator=generator)
    sampling = Sampling(temperature=0.7, top_k=900, top_p=0.9, frequency_penalty=0.4)
    history = History((1, 2))
    paths = [(), (3,), (3, 4), (5,)]
    together = Laws(sampling=sampling, history=history, paths=paths, logits_AV=logits_AV)
    for row, path in enumerate(paths):
        alone = Laws(
            sampling=sampling, history=history, paths=[path], logits_AV=logits_AV[row : row + 1]
        )
        assert together.law(row).equal(alone.law(0))


def test_history_counts_the_text_and_only_names_the_prompt() -> None:
    history = History((7, 7, 2))
    history.output += [2, 4, 2]
    ids, counts = history.seen((4, 9))
    assert dict(zip(ids.tolist(), counts.tolist(), strict=True)) == {2: 2, 4: 2, 7: 0, 9: 1}


def test_a_mask_that_knows_only_what_is_allowed_answers_the_rest_from_that() -> None:
    mask = Grammar(lambda text: {len(text), 3}, 5)
    assert mask.accepts((), 0)
    assert not mask.accepts((), 1)
    assert mask.accepts((0, 3), 2)
    mask.advance(0)
    assert mask.accepts((), 1)
    assert mask.forced(()) == ()


def test_not_even_a_forced_token_leaves_the_grammar() -> None:
    laws = Laws(
        sampling=Sampling(forced=(1, 2)), history=History((0,)), paths=[(), (1,)],
        logits_AV=torch.zeros(2, 4), mask=Grammar(lambda _: {1, 3}, 4),
    )  # fmt: skip
    assert laws.law(0).tolist() == [0, 1, 0, 0]
    assert laws.dead(1)


def test_a_greedy_choice_is_the_likeliest_that_the_grammar_allows() -> None:
    check_greedy_under_a_grammar()
