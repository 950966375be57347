"""A suite that cannot fail proves nothing: each planted bug is noticed by each of its killers."""

import pytest

from laws.mutants import MUTANTS, Check, Mutant
from outpace.errors import ContractError

PAIRS = [
    pytest.param(mutant, check, id=f"{mutant.name}, by {i}".replace(" ", "-"))
    for mutant in MUTANTS
    for i, check in enumerate(mutant.checks(), start=1)
]


@pytest.mark.parametrize(("mutant", "check"), PAIRS)
def test_the_planted_bug_is_noticed(
    mutant: Mutant, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.plant(monkeypatch)
    with pytest.raises((AssertionError, ContractError)):
        check()


def test_an_edit_that_no_longer_fits_the_source_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = MUTANTS[0]
    stale = Mutant(
        name="stale", module=first.module, where=first.where, old="not there", new="", killers=()
    )
    with pytest.raises(ValueError, match="is not once in"):
        stale.plant(monkeypatch)
