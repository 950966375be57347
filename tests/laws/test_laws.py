"""The law of every text is the target's: all paths of the real round, summed."""

import pytest

from laws.cases import (
    ALL_CASES,
    BY_NAME,
    CONTROL_CASES,
    END_CASES,
    PROCESSOR_CASES,
    RULE_CASES,
    RULE_LEFT_CASES,
    WIDE_CASES,
)
from laws.world import Case, check, ident


@pytest.mark.parametrize("case", RULE_CASES, ids=ident)
def test_every_rule_keeps_the_law_on_every_tree(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", RULE_LEFT_CASES, ids=ident)
def test_the_rule_outpace_picks_keeps_the_law(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", PROCESSOR_CASES, ids=ident)
def test_every_processor_means_the_same_inside_a_block(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", END_CASES, ids=ident)
def test_the_earliest_end_wins_wherever_the_block_ends(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", CONTROL_CASES, ids=ident)
def test_the_depth_may_change_every_round(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", WIDE_CASES, ids=ident)
def test_more_tokens_and_longer_blocks_change_nothing(case: Case) -> None:
    check(case)


def test_no_two_cases_share_a_name() -> None:
    assert len(BY_NAME) == len(ALL_CASES)
