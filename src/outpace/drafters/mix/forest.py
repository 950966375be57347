"""Offers of several drafters in one tree: their claims corrected by what came of earlier ones."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from heapq import heappop, heappush

from outpace.core.draft import ROOT, Ask
from outpace.drafters.tree import Offer

# Claimed probabilities are corrected in this many bands.
BANDS = 10
# A band's claim counts as this many positions of experience; older ones fade.
PRIOR_POSITIONS = 24.0
MEMORY_POSITIONS = 2000.0
# Who guesses what a mask leaves no choice about.
FORCED = "forced"


class Calibration:
    """What came of one source's claims, by band: the share of guesses that were right."""

    __slots__ = ("_claimed", "_right", "_tried")

    def __init__(self) -> None:
        self._tried = [PRIOR_POSITIONS] * BANDS
        self._right = [PRIOR_POSITIONS * (band + 0.5) / BANDS for band in range(BANDS)]
        self._claimed = list(self._right)

    def corrected(self, p: float) -> float:
        """The probability that a guess claimed with `p` turned out to deserve."""
        band = min(int(p * BANDS), BANDS - 1)
        return min(p * self._right[band] / self._claimed[band], 0.999)

    def learn(self, p: float, *, right: bool) -> None:
        """One guess that was reached."""
        band = min(int(p * BANDS), BANDS - 1)
        self._tried[band] += 1
        self._claimed[band] += p
        self._right[band] += right
        if self._tried[band] > MEMORY_POSITIONS:
            for sums in (self._tried, self._claimed, self._right):
                sums[band] /= 2


# By node: which source claimed which probability of it, given its parent.
Claims = list[list[tuple[int, float]]]
# Guesses from below the root down to a node.
Path = tuple[int, ...]


@dataclass(slots=True)
class Forest:
    """Offers being merged: a trie of guesses, with every source's claims about each."""

    tokens: list[int] = field(default_factory=list)
    children: list[list[int]] = field(default_factory=lambda: [[]])  # by parent + 1
    sources: list[str] = field(default_factory=list)
    chances: list[float] = field(default_factory=list)  # corrected, given the parent
    claims: Claims = field(default_factory=list)
    _places: dict[tuple[int, int], int] = field(default_factory=dict)

    def plant(self, offer: Offer, index: int, calibration: Calibration) -> None:
        """Merge an offer of source number `index`."""
        places: list[int] = []
        for i, (token, parent) in enumerate(zip(offer.tokens, offer.parents, strict=True)):
            above, chance = (
                (ROOT, 1.0) if parent == ROOT else (places[parent], offer.chances[parent])
            )
            claim = offer.chances[i] / chance
            p = calibration.corrected(claim)
            node = self._place(above, token)
            self.claims[node].append((index, claim))
            if p > self.chances[node]:
                self.chances[node], self.sources[node] = p, offer.sources[i]
            places.append(node)

    def _place(self, above: int, token: int) -> int:
        """The node of this token below `above`; a new one, which nobody believes in, if need be."""
        node = self._places.get((above, token))
        if node is None:
            node = self._places[above, token] = len(self.tokens)
            self.tokens.append(token)
            self.sources.append("")
            self.chances.append(0.0)
            self.claims.append([])
            self.children.append([])
            self.children[above + 1].append(node)
        return node

    def _below(self, node: int, path: Path, ask: Ask) -> Seq[int]:
        """What may follow a node: its children, or what the ask's mask forces."""
        forced = ask.mask.forced(path) if ask.mask is not None else ()
        if not forced or len(path) >= ask.max_depth:
            return self.children[node + 1]
        only = self._place(node, forced[0])
        self.chances[only], self.sources[only], self.claims[only] = 1.0, FORCED, []
        return [only]

    @property
    def surest(self) -> float:
        """The chance of the likeliest next token; 0 where none is offered."""
        return max((self.chances[child] for child in self.children[0]), default=0.0)

    def best(self, ask: Ask) -> tuple[Offer, Claims]:
        """The likeliest nodes within the ask's budget, and the claims about each."""
        heap: list[tuple[float, int, int, Path]] = []
        picked: list[int] = []
        parents: list[int] = []
        chances: list[float] = []
        node, place, chance = ROOT, ROOT, 1.0
        path: Path = ()
        while len(picked) < ask.max_nodes:
            for child in self._below(node, path, ask):
                if chance * self.chances[child] >= ask.worth:
                    below = (*path, self.tokens[child])
                    heappush(heap, (-chance * self.chances[child], child, place, below))
            if not heap:
                break
            less, node, parent, path = heappop(heap)
            if not ask.trees:
                heap.clear()
            place, chance = len(picked), -less
            picked.append(node)
            parents.append(parent)
            chances.append(chance)
        offer = Offer(
            tokens=[self.tokens[n] for n in picked],
            parents=parents,
            chances=chances,
            sources=[self.sources[n] for n in picked],
        )
        return offer, [self.claims[n] for n in picked]
