"""Several drafters, by measured record: one tree of the best of all, or the best one's draft.

Sources that can say how sure they are (`Offers`) share one tree: their paths are merged, twins
counted once, and the likeliest nodes fill the budget. How sure a source says it is, is corrected
by a record of how often such guesses were right, learned only from positions the target reached
(a guess whose parent was kept): that the rest of a rejected path was wrong is not known.

An offer that itself costs time (a head's) is asked for, all sequences together, where those at
hand are not sure of the next token, and while a record (`dear.py`) says that it pays.

Other sources (a model) cost time to ask. The best of them is asked when its record promises more
than the offers at hand. Guesses that count as chosen or coupled then join the tree, since any
choice among those is exact. Guesses *drawn* from a law must not be mixed or cut after they were
drawn, so for drawn styles one side is picked beforehand, from records and offers alone.

Where a request's mask (a grammar) leaves one token only, that token is a guess that cannot fail:
it takes the place of whatever the sources say there, and nobody's record learns from it.

The record is the process's: every request teaches it, and it decides only how fast a text comes.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from outpace.core.draft import ROOT, Ask, Draft, Drafter, Seen
from outpace.drafters.mix.dear import DearRecord, Rate
from outpace.drafters.mix.forest import Calibration, Claims, Forest
from outpace.drafters.tree import DearOffers, Offer, Offers
from outpace.errors import ConfigError

# The share of guesses kept that an untried silent source is credited with, and how fast it moves.
SILENT_RATE = 0.65
RATE_STEP = 0.02
# A next token so likely makes offers that cost time not worth asking for.
SURE = 0.7
# A source that must be asked is tried at least once in so many proposals, lest its record age.
PROBE_EVERY = 64


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

    def __init__(self, sources: Seq[Drafter], *, name: str = "", rate: Rate | None = None) -> None:
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
        self._rate = rate or Rate()
        self._dear_records = {index: DearRecord() for index, _ in self._dear}
        self.calibrations = [Calibration() for _ in sources]
        self._rates = [SILENT_RATE] * len(sources)
        self._waited = 0  # proposals since a silent source was asked
        self._pending: dict[int, Pending] = {}

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        self._rate.begin()
        forests = [self._plant(ask) for ask in asks]
        asked = self._plant_dear(asks, forests)
        best = [forest.best(ask) for forest, ask in zip(forests, asks, strict=True)]
        for index, i in asked:
            self._reckon(index, asks[i].worth, best[i][0])
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
        self._rate.end(sum(len(s.tokens) for s in seen if s.start))  # prompts are not written
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

    def _plant_dear(self, asks: Seq[Ask], forests: Seq[Forest]) -> list[tuple[int, int]]:
        """Ask sources that cost time where it pays; which of them was asked for which sequence."""
        asked: list[tuple[int, int]] = []
        for index, source in self._dear:
            record, clock = self._dear_records[index], self._rate.clock
            unsure = [i for i, forest in enumerate(forests) if forest.surest < SURE]
            worth = min((asks[i].worth for i in unsure), default=0.0)
            if not unsure or not record.pays(worth, self._rate.tokens_per_s):
                continue
            began = clock()
            offers = source.offers([asks[i] for i in unsure])
            record.took(worth, len(unsure), clock() - began)
            for i, offer in zip(unsure, offers, strict=True):
                forests[i].plant(offer, index, self.calibrations[index])
            asked += ((index, i) for i in unsure)
        return asked

    def _reckon(self, index: int, worth: float, offer: Offer) -> None:
        """What an offer that cost time added to the tree."""
        name = self.sources[index].name
        pairs = zip(offer.sources, offer.chances, strict=True)
        gain = sum(chance - worth for source, chance in pairs if source == name)
        self._dear_records[index].brought(worth, gain)

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
