"""The shipped enumeration finds nothing in the real code, and finds what is planted in it."""

import pytest

from laws.mutants import MUTANTS
from outpace.evaluate.exact.law import enumerate_law
from outpace.evaluate.exact.law.walk import cases, gap

TOLERANCE = 1e-12
# Planted faults of every kind, and cases that must see them: acceptance, the residual, siblings,
# processors, coins.
PLANTED = {
    "residual without q": "chain, without",
    "match keeps the eldest guess": "match, fork",
    "block with an early exit": "block",
    "sibling law not renormalised": "token, fork, without",
    "penalties on stale history": "penalties",
    "banned sequences on stale history": "banned",
    "one coin for every guess": "token, chain, without",
    "traversal with the token rule's residual": "traversal, elbow",
}


def test_the_real_code_keeps_the_law() -> None:
    found = enumerate_law()
    assert found.worst <= TOLERANCE, found.at
    assert found.cases == len(cases()) > 60
    assert found.paths > 10_000


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [case for case in cases() if PLANTED[name] in case.name]
    assert chosen
    assert gap(chosen).worst <= TOLERANCE
    (mutant,) = (m for m in MUTANTS if m.name == name)
    mutant.plant(monkeypatch)
    found = gap(chosen)
    assert found.worst > 1e-4, found
    assert any(case.name in found.at for case in chosen)
