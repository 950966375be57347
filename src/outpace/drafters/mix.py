"""Several drafters, by measured record: one tree of the best of all, or the best one's draft.

Sources that can say how sure they are (`Offers`) share one tree: their paths are merged, twins
counted once, and the likeliest nodes fill the budget. How sure a source says it is, is corrected
by a record of how often such guesses were right, learned only from positions the target reached
(a guess whose parent was kept): that the rest of a rejected path was wrong is not known.

An offer that itself costs time (a head's) is asked for, all sequences together, where those at
hand are not sure of the next token.

Other sources (a model) cost time to ask. The best of them is asked when its record promises more
than the offers at hand. Guesses that count as chosen or coupled then join the tree, since any
choice among those is exact. Guesses *drawn* from a law must not be mixed or cut after they were
drawn, so for drawn styles one side is picked beforehand, from records and offers alone.

Where a request's mask (a grammar) leaves one token only, that token is a guess that cannot fail:
it takes the place of whatever the sources say there, and nobody's record learns from it.

The record is the process's: every request teaches it, and it decides only how fast a text comes.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from heapq import heappop, heappush

from outpace.core.draft import ROOT, Ask, Draft, Drafter, Seen
from outpace.drafters.tree import DearOffers, Offer, Offers
from outpace.errors import ConfigError

# Claimed probabilities are corrected in this many bands.
BANDS = 10
# A band's claim counts as this many positions of experience; older ones fade.
PRIOR_POSITIONS = 24.0
MEMORY_POSITIONS = 2000.0
# The share of guesses kept that an untried silent source is credited with, and how fast it moves.
SILENT_RATE = 0.65
RATE_STEP = 0.02
# A next token so likely makes offers that cost time not worth asking for.
SURE = 0.7
# Who guesses what a mask leaves no choice about.
FORCED = "forced"
# A source that must be asked is tried at least once in so many proposals, lest its record age.
PROBE_EVERY = 64


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """What was offered to one sequence and is not verified yet."""

    start: int
    draft: Draft
    claims: Claims


class MixDrafter:
    """The best of several drafters.

    Raises:
        ConfigError: no source was given, or two have one name.
    """

    def __init__(self, sources: Seq[Drafter], *, name: str = "") -> None:
        names = [source.name for source in sources]
        if not sources or len(set(names)) < len(names):
            raise ConfigError(
                f"a mix of {', '.join(names) or 'nothing'}; name each drafter once, "
                "as in mix:lookup+suffix"
            )
        self.name = name or "mix:" + "+".join(names)
        self.sources = sources
        offers = [(i, s) for i, s in enumerate(sources) if isinstance(s, Offers)]
        self._dear = [(i, s) for i, s in offers if isinstance(s, DearOffers)]
        self._offers = [(i, s) for i, s in offers if not isinstance(s, DearOffers)]
        self._silent = [(i, s) for i, s in enumerate(sources) if not isinstance(s, Offers)]
        self.calibrations = [Calibration() for _ in sources]
        self._rates = [SILENT_RATE] * len(sources)
        self._waited = 0  # proposals since a silent source was asked
        self._pending: dict[int, Pending] = {}

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        forests = [self._plant(ask) for ask in asks]
        self._plant_dear(asks, forests)
        best = [forest.best(ask) for forest, ask in zip(forests, asks, strict=True)]
        index, answers = self._ask_silent(asks, [offer for offer, _ in best])
        drafts: list[Draft] = []
        for i, (ask, forest) in enumerate(zip(asks, forests, strict=True)):
            answer, (offer, claims) = answers.get(i), best[i]
            if answer is not None and ask.style == "drawn":
                drafts.append(answer)
                claims = [[(index, SILENT_RATE)]] * len(answer)
            else:
                if answer is not None:
                    forest.plant(self._offer_of(answer, index), index, self.calibrations[index])
                    offer, claims = forest.best(ask)
                drafts.append(offer.draft())
            self._pending[ask.key] = Pending(start=len(ask.tokens), draft=drafts[-1], claims=claims)
        return drafts

    def observe(self, seen: Seq[Seen]) -> None:
        for s in seen:
            pending = self._pending.pop(s.key, None)
            if pending is not None and pending.start == s.start:
                self._learn(pending, s.tokens)
        for source in self.sources:
            source.observe(seen)

    def forget(self, key: int) -> None:
        self._pending.pop(key, None)
        for source in self.sources:
            source.forget(key)

    def _plant(self, ask: Ask) -> Forest:
        forest = Forest()
        for index, source in self._offers:
            forest.plant(source.offer(ask), index, self.calibrations[index])
        return forest

    def _plant_dear(self, asks: Seq[Ask], forests: Seq[Forest]) -> None:
        for index, source in self._dear:
            unsure = [i for i, forest in enumerate(forests) if forest.surest < SURE]
            offers = source.offers([asks[i] for i in unsure]) if unsure else ()
            for i, offer in zip(unsure, offers, strict=True):
                forests[i].plant(offer, index, self.calibrations[index])

    def _ask_silent(self, asks: Seq[Ask], offers: Seq[Offer]) -> tuple[int, dict[int, Draft]]:
        """Ask the best silent source for those sequences where it promises more."""
        if not self._silent:
            return 0, {}
        self._waited += 1
        rates = [self._rates[i] for i, _ in self._silent]
        rate = max(rates)
        index, source = self._silent[rates.index(rate)]
        if self._waited >= PROBE_EVERY:
            index, source = self._silent[self._waited // PROBE_EVERY % len(self._silent)]
            rate = 1.0
        chosen = [
            i
            for i, (ask, offer) in enumerate(zip(asks, offers, strict=True))
            if chain_gain(rate, min(ask.max_depth, ask.max_nodes)) > offer.gain
        ]
        if not chosen:
            return index, {}
        self._waited = 0
        drafts = source.propose([asks[i] for i in chosen])
        return index, dict(zip(chosen, drafts, strict=True))

    def _offer_of(self, draft: Draft, index: int) -> Offer:
        """A silent source's chosen guesses as an offer, by its own estimates or its record."""
        rate = self._rates[index]
        return Offer(
            tokens=draft.tokens,
            parents=draft.parents,
            chances=draft.chances or [rate**depth for depth in draft.depths],
            sources=draft.sources or ("",) * len(draft),
        )

    def _learn(self, pending: Pending, committed: Seq[int]) -> None:
        draft, node = pending.draft, ROOT
        for token in committed:
            kept = None
            for child in draft.children[node + 1]:
                right = draft.tokens[child] == token
                for index, claim in pending.claims[child]:
                    self.calibrations[index].learn(claim, right=right)
                    self._rates[index] += RATE_STEP * (right - self._rates[index])
                if right:
                    kept = child
            if kept is None:
                return
            node = kept


def chain_gain(rate: float, depth: int) -> float:
    """Guesses kept on average of a chain whose every guess is right with the same probability."""
    return depth if rate >= 1 else rate * (1 - rate**depth) / (1 - rate)
