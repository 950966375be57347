"""Chance, enumerated: coins that branch instead of falling, and the law of a run over all of them.

Each coin (seed, purpose, since, position, branch) stands for one uniform u in [0, 1). The oracle
knows an interval of u per coin; a question splits it, and every part of positive width is walked.
A coin asked twice is therefore one and the same u, and a bug that reuses coins shows as a wrong
law. A coupled question is the inverse CDF at one u per position: a coupling that depends on the
position only, as the noise of seeded requests does.

`law_of` merges runs that reached the same text. What is known of the coins is dropped there,
except for coins that are asked again later: which ones, and how late, is found by trying.
"""

import copy
import itertools
from collections.abc import Hashable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from torch import Tensor

from outpace.core.coins import Purpose

T = TypeVar("T")
Key = tuple[int, int, int, int, int]  # seed, purpose, since, position, branch
Interval = tuple[float, float]
Known = Mapping[Key, Interval]


class LawError(AssertionError):
    """The law of the real code is not what it must be."""


class Run(Protocol):
    """A deterministic machine, but for its coins."""

    @property
    def done(self) -> bool:
        """Whether nothing more is to be watched."""

    @property
    def size(self) -> int:
        """Grows with every step."""

    @property
    def state(self) -> Hashable:
        """Equal states have equal futures, given the coins."""

    @property
    def outcome(self) -> Hashable:
        """What is watched."""

    def step(self) -> None:
        """Go on, asking coins."""

    def fork(self) -> "Run":
        """An independent copy."""


class Oracle:
    """All coins of a run; answers by a script, then by the first branch that is possible."""

    def __init__(self) -> None:
        self.known: dict[Key, Interval] = {}
        self.weight = 1.0
        self.untried: list[tuple[int, ...]] = []
        self.asked_again: dict[Key, int] = {}  # -> the size of the latest run that did
        self._script: tuple[int, ...] = ()
        self._answers: list[int] = []
        self._old: frozenset[Key] = frozenset()
        self._size = 0

    def begin(self, script: tuple[int, ...], known: Known, old: frozenset[Key], size: int) -> None:
        """Start one walk of a run of this size; `old` are all the coins it asked before."""
        self.known = dict(known)
        self.weight, self.untried = 1.0, []
        self._script, self._answers, self._old, self._size = script, [], old, size

    def coins(self, seed: int, since: int) -> "OracleCoins":
        """The coins of one round: what a `Sequence` takes as `coins_at`."""
        return OracleCoins(self, seed, since)

    def choose(self, key: Key, cuts: Seq[float]) -> int:
        """Which part of [0, 1), cut at `cuts` (from 0 to 1), this coin falls in."""
        if key in self._old:
            self.asked_again[key] = max(self._size, self.asked_again.get(key, 0))
        low, high = self.known.get(key, (0.0, 1.0))
        parts = [
            (index, max(low, start), min(high, end))
            for index, (start, end) in enumerate(itertools.pairwise(cuts))
            if min(high, end) > max(low, start)
        ]
        turn = len(self._answers)
        if turn < len(self._script):
            answer = self._script[turn]
        else:
            answer = 0
            self.untried += [(*self._answers, other) for other in range(1, len(parts))]
        self._answers.append(answer)
        index, start, end = parts[answer]
        self.known[key] = (start, end)
        self.weight *= (end - start) / (high - low)
        return index

    def __deepcopy__(self, memo: dict[int, object]) -> "Oracle":
        return self


@dataclass(frozen=True, slots=True)
class OracleCoins:
    """The three questions, asked of the oracle; questions that make no sense are refused."""

    oracle: Oracle
    seed: int
    since: int

    def bernoulli(self, a: float, purpose: Purpose, position: int, branch: int = 0) -> bool:
        if not 0 <= a <= 1:
            raise LawError(f"asked for a coin with probability {a}")
        key = (self.seed, int(purpose), self.since, position, branch)
        return self.oracle.choose(key, (0.0, a, 1.0)) == 0

    def categorical(
        self, weights_V: Tensor, purpose: Purpose, position: int, branch: int = 0
    ) -> int:
        key = (self.seed, int(purpose), self.since, position, branch)
        return self.oracle.choose(key, _cuts(weights_V.tolist()))

    def coupled(self, scores_V: Tensor, position: int) -> int:
        key = (self.seed, int(Purpose.COUPLED), -1, position, 0)
        return self.oracle.choose(key, _cuts(scores_V.softmax(0).tolist()))


def _cuts(weights: Seq[float]) -> list[float]:
    if not all(0 <= w < float("inf") for w in weights) or not sum(weights) > 0:
        raise LawError(f"asked to draw in proportion to {weights}")
    cuts = [0.0]
    for w in weights:
        cuts.append(cuts[-1] + w)
    return [min(1.0, cut / cuts[-1]) for cut in cuts]


@dataclass(slots=True)
class _Group:
    """Runs that reached one state: a representative, and their probability."""

    run: Run
    known: dict[Key, Interval]
    old: frozenset[Key]
    weight: float = 0.0


@dataclass(slots=True)
class Walk:
    """The law of what is watched, and how it was found."""

    law: dict[Hashable, float] = field(default_factory=dict)
    n_runs: int = 0


def law_of(run: Run, oracle: Oracle) -> Walk:
    """Walk every path of `run`, whose coins come from `oracle`."""
    carried: dict[Key, int] = {}
    while True:
        oracle.asked_again = dict(carried)
        walk = _walk(run, oracle, carried)
        if oracle.asked_again == carried:
            return walk
        carried = oracle.asked_again


def _walk(start: Run, oracle: Oracle, carried: Mapping[Key, int]) -> Walk:
    walk = Walk()
    waiting: dict[int, dict[Hashable, _Group]] = {
        start.size: {0: _Group(start, {}, frozenset(), 1.0)}
    }
    while waiting:
        for group in waiting.pop(min(waiting)).values():
            scripts: list[tuple[int, ...]] = [()]
            while scripts:
                oracle.begin(scripts.pop(), group.known, group.old, group.run.size)
                run = group.run.fork()
                run.step()
                walk.n_runs += 1
                scripts += oracle.untried
                weight = group.weight * oracle.weight
                if run.done:
                    walk.law[run.outcome] = walk.law.get(run.outcome, 0.0) + weight
                else:
                    _merge(waiting, run, oracle, (group.old, carried), weight)
    return walk


def _merge(
    waiting: dict[int, dict[Hashable, _Group]],
    run: Run,
    oracle: Oracle,
    memory: tuple[frozenset[Key], Mapping[Key, int]],
    weight: float,
) -> None:
    old, carried = memory
    known = {k: part for k, part in oracle.known.items() if carried.get(k, -1) >= run.size}
    old |= oracle.known.keys()
    states = waiting.setdefault(run.size, {})
    state = (run.state, frozenset(known.items()))
    group = states.setdefault(state, _Group(run, known, old))
    group.old |= old
    group.weight += weight


def worst(found: Mapping[Hashable, float], wanted: Mapping[Hashable, float]) -> tuple[float, str]:
    """The largest difference between two laws, and where it is."""
    gaps = {k: abs(found.get(k, 0.0) - wanted.get(k, 0.0)) for k in {*found, *wanted}}
    at = max(gaps, key=lambda k: gaps[k])
    return gaps[at], f"{at}: {found.get(at, 0.0):.15g}, wanted {wanted.get(at, 0.0):.15g}"


def deep_fork(run: T, shared: Seq[object]) -> T:
    """A deep copy that shares what never changes."""
    return copy.deepcopy(run, {id(part): part for part in shared})
