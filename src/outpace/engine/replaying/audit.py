"""Findings: each number that did not follow, where, and what it should have been."""

import math
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One number that does not follow from the others."""

    stage: str
    says: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.stage}: {self.says}: found {self.found}, expected {self.expected}"


class OffTheRecord(Exception):
    """A decision needs a number the line does not have; nothing further can be re-derived."""


class Audit:
    """Compares numbers and remembers which did not agree, by stage."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.n_compared: Counter[str] = Counter()
        self._stage = ""

    def enter(self, stage: str) -> None:
        """What follows is about this stage."""
        self._stage = stage

    def holds(self, stage: str) -> bool:
        """Whether everything compared in this stage agreed."""
        return all(finding.stage != stage for finding in self.findings)

    def add(self, other: "Audit") -> None:
        """Take over what another audit found."""
        self.findings.extend(other.findings)
        self.n_compared.update(other.n_compared)

    def same(self, says: str, found: object, expected: object) -> None:
        """Equal, and of the same type: floats bit by bit."""
        self.n_compared[self._stage] += 1
        if found != expected or type(found) is not type(expected):
            self._add(says, found, expected)

    def near(self, says: str, found: float, expected: float, *, rel: float, least: float) -> None:
        """Equal up to rounding: `rel` of the larger one, or `least`."""
        self.n_compared[self._stage] += 1
        if not math.isclose(found, expected, rel_tol=rel, abs_tol=least):
            self._add(says, found, expected)

    def true(self, says: str, ok: bool, found: object, expected: str) -> None:
        """A condition on `found`, which `expected` words."""
        self.n_compared[self._stage] += 1
        if not ok:
            self._add(says, found, expected)

    def missing(self, says: str) -> OffTheRecord:
        """Report that the line lacks what a decision needs; the caller raises the result."""
        self._add(says, "nothing", "a recorded number")
        return OffTheRecord(says)

    def _add(self, says: str, found: object, expected: object) -> None:
        shown = [x if isinstance(x, str) else repr(x) for x in (found, expected)]
        short = [x if len(x) <= 120 else f"{x[:117]}..." for x in shown]
        self.findings.append(
            Finding(stage=self._stage, says=says, found=short[0], expected=short[1])
        )
