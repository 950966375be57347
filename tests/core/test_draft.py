"""A `Draft` knows its shape, and refuses one that is none."""

from typing import Any

import pytest
import torch

from outpace.core.draft import NO_GUESS, ROOT, Draft, chain
from outpace.errors import ContractError

HALF_LV = torch.full((2, 2), 0.5)


@pytest.mark.parametrize(
    "fields",
    [
        {"tokens": (1, 2), "parents": (-1,)},
        {"tokens": (1,), "parents": (-1, 0)},
        {"tokens": (1,), "parents": (0,)},
        {"tokens": (1, 2), "parents": (1, -1)},
        {"tokens": (1,), "parents": (-2,)},
        {"tokens": (1,), "parents": (-1,), "sources": ("a", "b")},
        {"tokens": (1,), "parents": (-1,), "law_rows": (0,)},
        {"tokens": (1,), "parents": (-1,), "laws_LV": HALF_LV},
        {"tokens": (1, 1), "parents": (-1, 0), "laws_LV": HALF_LV, "law_rows": (0,)},
    ],
    ids=" ".join,
)
def test_a_draft_that_is_no_tree_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ContractError):
        Draft(**fields)


def test_a_tree_knows_its_paths_and_depths() -> None:
    draft = Draft(tokens=(5, 6, 7, 8), parents=(-1, -1, 0, 2))
    assert draft.children == ((0, 1), (2,), (), (3,), ())
    assert draft.depths == (1, 1, 2, 3)
    assert draft.depth == 3
    assert draft.path(3) == (0, 2, 3)
    assert draft.path(ROOT) == ()
    assert draft.guesses(3) == (5, 7, 8)
    assert not draft.is_chain
    assert not draft.drawn


def test_no_guess_is_an_empty_chain() -> None:
    assert len(NO_GUESS) == NO_GUESS.depth == 0
    assert NO_GUESS.is_chain


def test_a_chain_has_one_law_per_guess_if_it_was_drawn() -> None:
    laws_LV = torch.tensor([[0.1, 0.9], [0.4, 0.6]])
    drawn = chain((1, 0), laws_LV=laws_LV, source="me")
    assert drawn.is_chain
    assert drawn.drawn
    assert drawn.sources == ("me", "me")
    assert drawn.law(1).equal(laws_LV[1])
    with pytest.raises(ContractError, match="no law"):
        chain((1, 0)).law(0)
