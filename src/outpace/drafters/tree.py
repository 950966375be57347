"""Offers: guesses with an estimate of how likely each is to be kept, grown into the best tree.

A drafter that only looks (n-grams, suffixes) knows more than a `Draft` can say: how likely each
path is. An `Offer` keeps that, so that offers of several drafters can share one tree under one
budget. `grow` builds the tree best first, which maximises the expected number of kept tokens for
a node budget (SuffixDecoding 2411.04975, section 4; OPT-Tree 2406.17276).
"""

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol, TypeVar, runtime_checkable

from outpace.core.draft import NO_GUESS, ROOT, Ask, Draft, Drafter

State = TypeVar("State")
# What may follow a node: token, its probability there, and the state below it.
Expand = Callable[[State], Iterable[tuple[int, float, State]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Chosen guesses below the committed text, likeliest first; parents before children.

    tokens, parents: as in `Draft`. chances: estimated probability that the whole path down to
    the node is kept; never more than the parent's. sources: who guessed each.
    """

    tokens: Seq[int] = ()
    parents: Seq[int] = ()
    chances: Seq[float] = ()
    sources: Seq[str] = ()

    @property
    def gain(self) -> float:
        """Expected number of guesses kept."""
        return sum(self.chances)

    def draft(self) -> Draft:
        """The offer as a draft of chosen guesses."""
        if not self.tokens:
            return NO_GUESS
        return Draft(
            tokens=tuple(self.tokens),
            parents=tuple(self.parents),
            sources=tuple(self.sources),
            chances=tuple(self.chances),
        )


NO_OFFER = Offer()


@runtime_checkable
class Offers(Drafter, Protocol):
    """A drafter whose guesses are always chosen, and which can say how sure it is."""

    def offer(self, ask: Ask) -> Offer:
        """What it would propose for one ask, within the ask's budget."""


@runtime_checkable
class DearOffers(Offers, Protocol):
    """One whose offers cost time, and less when asked for many sequences at once."""

    def offers(self, asks: Seq[Ask]) -> list[Offer]:
        """What it would propose for each ask."""


def grow(expand: Expand[State], root: State, ask: Ask, *, floor: float, source: str) -> Offer:
    """The tree (or chain) of likeliest paths within the ask's budget.

    floor: paths less likely than this are left out where the ask does not say what a row is
    worth. Where only chains are taken the likeliest child is followed. What the ask's mask forbids
    is left out, which is exact because these guesses are chosen, not drawn.
    """
    floor = ask.worth or floor
    tokens: list[int] = []
    parents: list[int] = []
    chances: list[float] = []
    paths: dict[int, tuple[int, ...]] = {ROOT: ()}
    heap: list[tuple[float, int, int, int, int, State]] = []
    node, chance, depth, state, tick = ROOT, 1.0, 0, root, 0
    while len(tokens) < ask.max_nodes:
        if depth < ask.max_depth:
            for token, p, below in expand(state):
                if chance * p >= floor:
                    tick += 1  # breaks ties by age, and keeps states from being compared
                    heappush(heap, (-chance * p, tick, token, node, depth + 1, below))
        if not heap:
            break
        less, _, token, parent, depth, state = heappop(heap)
        if ask.mask is not None:
            if not ask.mask.accepts(paths[parent], token):
                depth = ask.max_depth  # nothing below it either
                continue
            paths[len(tokens)] = (*paths[parent], token)
        if not ask.trees:
            heap.clear()
        node, chance = len(tokens), -less
        tokens.append(token)
        parents.append(parent)
        chances.append(chance)
    if not tokens:
        return NO_OFFER
    return Offer(tokens=tokens, parents=parents, chances=chances, sources=(source,) * len(tokens))
