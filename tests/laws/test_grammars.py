"""With a real grammar the law is still the target's: all paths of the real round, summed."""

import pytest

from laws.grammars import ASKED, GRAMMAR_CASES, SPECS, asked_anew
from laws.world import Case, check, ident


@pytest.mark.parametrize("case", GRAMMAR_CASES, ids=ident)
def test_a_grammar_means_the_same_inside_a_block(case: Case) -> None:
    check(case)


def test_the_grammars_end_inside_blocks_and_have_dead_ends() -> None:
    found: set[str | None] = set()
    for case in GRAMMAR_CASES:
        for outcome in case.target().texts(case.n_watched):
            assert isinstance(outcome, tuple)
            found.add(outcome[1])
    assert found == {"eos", "error", "stop_token", "stop_string", None}


def test_spellings_compete_where_the_grammar_leaves_a_choice() -> None:
    assert set(asked_anew(SPECS["choice"])(())) == {0, 1, 2}
    assert asked_anew(SPECS["one way"])(()) == [2], "forced text is spelled as a model would"
    assert len(ASKED) == 10
