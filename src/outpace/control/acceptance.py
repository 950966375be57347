"""How often guesses are kept: by sequence and place, from verified positions only.

A guess is *reached* if its parent was kept; that the rest of a rejected path was wrong is not
known, and is never counted. Three things are estimated:

* `Ladder`: the chance that the n-th guess is kept. For chains it is the product of conditional
  chances by depth; where drafters say how sure they are, drafts are trees, best guess first, and
  it is the share of n-th guesses that ended on the kept path.
* `Trust`: whether a drafter is as often right as it says.
* `Evidence`: guesses kept per draft, with bounds, for the breaker.

All of it fades, so that it follows a text that changes its kind. A sequence starts from the
`Prior`: what all sequences of its style taught; nothing else is shared.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from math import log, sqrt

from outpace.core.draft import ROOT, Draft

MAX_STEPS = 64
# Drafts after which an observation counts 1/e.
MEMORY = 48.0
PRIOR_MEMORY = 400.0
FAST_MEMORY = 8.0
# One-sided 95 %.
Z = 1.64
# Chances less than this are not worth a place in any search.
LEAST_CHANCE = 0.01
# What is assumed before any draft: the chance of a first guess, and of one more after n.
FIRST_CHANCE, NEXT_CHANCE = 0.5, 0.7

_PRIOR_WEIGHT, _STEP_WEIGHT, _POOL_WEIGHT = 4.0, 2.0, 8.0
_PRIOR_FADES = 32
_ENOUGH_FAST = 4.0


class Ladder:
    """By step (depth, or rank in the draft): how many were seen, and how many kept."""

    __slots__ = ("kept", "seen")

    def __init__(self) -> None:
        self.seen: list[float] = []
        self.kept: list[float] = []

    def learn(self, hits: Seq[bool]) -> None:
        """One draft's outcome at steps 0, 1, .."""
        seen, kept = self.seen, self.kept
        while len(seen) < len(hits):
            seen.append(0.0)
            kept.append(0.0)
        for step, hit in enumerate(hits):
            seen[step] += 1.0
            kept[step] += hit

    def fade(self, factor: float) -> None:
        """Let all that was seen count less, also where nothing was seen since: what was once
        bad luck at a depth must not keep it from being tried for good."""
        self.seen = [factor * n for n in self.seen]
        self.kept = [factor * n for n in self.kept]

    def shrink(self, most: float) -> None:
        """Let what is known count as at most so many observations a step."""
        for step, n in enumerate(self.seen):
            if n > most:
                self.kept[step] *= most / n
                self.seen[step] = most

    def at(self, step: int) -> tuple[float, float]:
        """Seen and kept at a step."""
        return (self.seen[step], self.kept[step]) if step < len(self.seen) else (0.0, 0.0)

    def mixed(self, step: int, expected: float, weight: float) -> float:
        """Share kept at a step, if `expected` counts as so many observations."""
        seen, kept = self.at(step)
        return (kept + weight * expected) / (seen + weight)

    def capped(self, step: int, expected: float, weight: float) -> float:
        """The same, with what was seen counting as a few observations at most."""
        seen, kept = self.at(step)
        if seen > _POOL_WEIGHT:
            seen, kept = _POOL_WEIGHT, kept * _POOL_WEIGHT / seen
        return (kept + weight * expected) / (seen + weight)


def chain_gains(own: Ladder, prior: Ladder, n: int) -> list[float]:
    """Chance that a chain's guess at depth 1 .. n is kept, by conditional chances.

    Those hardly depend on depth, so a depth that was hardly seen takes after all the sequence's
    depths together, and after what the prior says of it.
    """
    any_depth = (sum(own.kept) + 2 * NEXT_CHANCE) / (sum(own.seen) + 2)
    weight = min(sum(own.seen), _POOL_WEIGHT) + 1
    gains: list[float] = []
    path = 1.0
    for step in range(n):
        if step:
            expected = prior.capped(step, any_depth, weight)
            path *= own.mixed(step, expected, _STEP_WEIGHT)
        else:
            path *= own.mixed(0, prior.capped(0, FIRST_CHANCE, 1.0), _PRIOR_WEIGHT)
        if path < LEAST_CHANCE:
            break
        gains.append(path)
    return gains


def rank_gains(own: Ladder, prior: Ladder, n: int) -> list[float]:
    """Chance that a draft's first .. n-th guess is kept, given that it has one; never rising.

    Long drafts are offered where the drafter is sure, so that their late guesses may be kept more
    often than first guesses are in general: those count as often as the first ones.
    """
    gains: list[float] = []
    top = above = 1.0
    for step in range(n):
        if step:
            known = prior.mixed(step, 0.9 * above, _PRIOR_WEIGHT)
            expected, weight = top * min(known / above, 1.0), _STEP_WEIGHT
        else:
            known = expected = prior.mixed(0, FIRST_CHANCE, 1.0)
            weight = _PRIOR_WEIGHT
        above = max(known, LEAST_CHANCE)
        top = min(top, own.mixed(step, expected, weight))
        if top < LEAST_CHANCE:
            break
        gains.append(top)
    return gains


class Trust:
    """How much of what a drafter claims comes true: (kept + a) / (claimed + a), fading.

    claimed: over the guesses that were reached, each given its parent; steps: how many depths
    those were.
    """

    __slots__ = ("claimed", "kept", "steps", "weight")

    def __init__(self, weight: float = 3.0) -> None:
        self.weight = weight
        self.kept = self.claimed = self.steps = 0.0

    def learn(self, kept: float, claimed: float, steps: float) -> None:
        """One draft: how many guesses were kept, of how many steps, and what it claimed."""
        fade = 1 - 1 / MEMORY
        self.kept = fade * self.kept + kept
        self.claimed = fade * self.claimed + claimed
        self.steps = fade * self.steps + steps

    def shrink(self) -> None:
        """Let what is known count for less."""
        self.kept, self.claimed, self.steps = self.kept / 4, self.claimed / 4, self.steps / 4

    def value(self, prior: float = 1.0) -> float:
        """The factor for its chances of one step, within bounds that keep a way back open."""
        a = self.weight
        return min(max((self.kept + a * prior) / (self.claimed + a), 0.05), 2.0)

    def in_claims(self, worth: float, prior: float = 1.0) -> float:
        """What the drafter claims of paths that are kept with chance `worth`.

        A path of d steps claimed with c each is kept with (trust * c) ** d, so that both meet
        where log(claim) / log(worth) = log(c) / log(trust * c).
        """
        if not 0 < worth < 1:
            return min(max(worth, 0.0), 1.0)
        a = self.weight
        claim = min(max((self.claimed + a * NEXT_CHANCE) / (self.steps + a), 0.05), 0.98)
        true = min(claim * self.value(prior), 0.99)
        return float(worth ** (log(claim) / log(true)))


def claims(draft: Draft, path: Seq[int]) -> tuple[int, float]:
    """Over a draft's reached guesses: how many depths they are, and the chances claimed there."""
    chances, children = draft.chances, draft.children
    steps, claimed = 0, 0.0
    for node in (ROOT, *path):
        below, above = children[node + 1], 1.0 if node == ROOT else chances[node]
        if below and above > 0:
            steps += 1
            claimed += sum(chances[child] for child in below) / above
    return steps, claimed


class Evidence:
    """Guesses kept per draft: fading sums, bounds, and a watch for a change of kind."""

    __slots__ = ("_fast_drafts", "_fast_kept", "deepest", "drafts", "guesses", "kept")

    def __init__(self) -> None:
        self.drafts = self.kept = self.guesses = 0.0
        self.deepest = 1.0
        self._fast_drafts = self._fast_kept = 0.0

    def learn(self, kept: int, guesses: int, depth: int, memory: float = MEMORY) -> bool:
        """One draft, of at most that depth; whether the recent ones contradict what was known,
        which is then dropped."""
        fade, fast = 1 - 1 / memory, 1 - 1 / FAST_MEMORY
        self.deepest = max(float(depth), fade * self.deepest)
        self.drafts = fade * self.drafts + 1
        self.kept = fade * self.kept + kept
        self.guesses = fade * self.guesses + guesses
        self._fast_drafts = fast * self._fast_drafts + 1
        self._fast_kept = fast * self._fast_kept + kept
        if self.drafts < 2 * self._fast_drafts or self._fast_drafts < _ENOUGH_FAST:
            return False
        new, n_new = self._fast_kept / self._fast_drafts, self._fast_drafts
        old = self.kept / self.drafts
        spread = self._spread(old, self.drafts), self._spread(new, n_new)
        if abs(new - old) <= 1.3 * (spread[0] + spread[1]):
            return False
        # They were looked at because they are extreme, so they count half.
        self.guesses *= n_new / 2 / self.drafts
        self.drafts, self.kept = n_new / 2, self._fast_kept / 2
        return True

    def shrink(self, most: float) -> None:
        """Let what is known count as at most so many drafts."""
        if self.drafts > most:
            share = most / self.drafts
            self.drafts, self.kept = most, self.kept * share
            self.guesses *= share
        self._fast_drafts = self._fast_kept = 0.0

    def inherit(self, other: "Evidence", most: float) -> None:
        """Start from another's, counting as at most so many drafts."""
        self.drafts, self.kept, self.guesses = other.drafts, other.kept, other.guesses
        self.deepest = other.deepest
        self.shrink(most)

    @property
    def mean(self) -> float | None:
        """Guesses kept per draft; None without data."""
        return self.kept / self.drafts if self.drafts > 0 else None

    @property
    def size(self) -> float:
        """Guesses per draft; 1 without data."""
        return self.guesses / self.drafts if self.drafts > 0 else 1.0

    def paid(self, breakeven: float) -> bool:
        """Whether the mean alone is far above break-even; then no bound needs working out."""
        return self.kept >= 1.5 * self.drafts * (breakeven - 1) and self.kept > 0.1 * self.drafts

    def upper(self) -> float:
        """Tokens per round, bonus included, are less than this with 95 % confidence."""
        if self.drafts <= 0:
            return float("inf")
        mean, n = self.kept / self.drafts, self.drafts
        return 1 + mean + Z * Z / (2 * n) + self._spread(mean, n)

    def lower(self) -> float:
        """Tokens per round, bonus included, are more than this with 95 % confidence."""
        if self.drafts <= 0:
            return 1.0
        # As if one more draft had kept nothing: a few good ones alone prove little.
        n = self.drafts + 1
        mean = self.kept / n
        return 1 + max(mean - Z * sqrt(self._variance(mean) / n), 0.0)

    def _spread(self, mean: float, n: float) -> float:
        return Z * sqrt(self._variance(mean) / n + (Z / (2 * n)) ** 2)

    def _variance(self, mean: float) -> float:
        """Counts are geometric at most, and bounded by the depth."""
        return min(mean + mean * mean, max(mean * (self.deepest - mean), 0.0))


@dataclass(slots=True)
class Prior:
    """What sequences of one style taught: the only thing a new sequence inherits."""

    chain: Ladder = field(default_factory=Ladder)
    ranks: Ladder = field(default_factory=Ladder)
    evidence: Evidence = field(default_factory=Evidence)
    trust: Trust = field(default_factory=lambda: Trust(10.0))
    _n_drafts: int = 0

    def learn(self, hits: Seq[bool], kept: int, draft: Draft, depth: int) -> None:
        """One draft of any of its sequences."""
        (self.ranks if draft.chances else self.chain).learn(hits)
        self.evidence.learn(kept, len(draft), depth, PRIOR_MEMORY)
        self._n_drafts += 1
        if not self._n_drafts % _PRIOR_FADES:
            factor = 1 - _PRIOR_FADES / PRIOR_MEMORY
            self.chain.fade(factor)
            self.ranks.fade(factor)


def outcome(draft: Draft, path: Seq[int]) -> list[bool]:
    """By step, whether it was kept; for a chain without chances, only where it was reached."""
    if draft.chances:
        kept = set(path)
        return [node in kept for node in range(min(len(draft), MAX_STEPS))]
    last = path[-1] if path else ROOT
    return [True] * len(path) + [False] * bool(draft.children[last + 1])
