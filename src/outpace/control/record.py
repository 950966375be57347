"""What the control knows of one sequence; gone with it, except what the prior has learned."""

from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from outpace.control.acceptance import (
    MEMORY,
    Evidence,
    Ladder,
    Prior,
    Trust,
    chain_gains,
    claims,
    outcome,
    rank_gains,
)
from outpace.control.breaker import Breaker, BreakerConfig, Reading
from outpace.control.breaker import Turn as BreakerTurn
from outpace.control.limits import Limits, View
from outpace.core.repeat import Round

Floats = NDArray[np.float64]

# Drafts of other sequences a new one starts from, and how many there must be to start open.
INHERITED_DRAFTS = 3.0
CONVINCING_DRAFTS = 24.0
# Estimates are worked out anew after so many drafts.
_FRESH_DRAFTS = 4
# Rounds that a plan holds unless something happens; twice as many for so many sequences.
PLAN_ROUNDS, _MANY = 4, 8
# Fewer drafts than this are a beginning: every one counts at once.
_FEW_DRAFTS = 8


class Record:
    """One sequence's acceptance, trust and breaker.

    claims: whether its last draft said how likely its guesses were. n_empty: asks in a row that
    brought no guess; offered: how often an ask brings any. limits: what was
    decided last; turn: what for; rest: why it rests, and the limits that say so. news: whether
    something was learned that cannot wait for the next time estimates are worked out.
    """

    __slots__ = (
        "_chain", "_gains", "_n_drafts", "_n_faded", "_prior", "_ranks", "_stale", "breaker",
        "claims", "evidence", "limits", "limits_age", "n_empty", "news", "offered", "rest",
        "style", "trust", "turn",
    )  # fmt: skip

    def __init__(
        self, view: View, prior: Prior, config: BreakerConfig, *, claims: bool, breakeven: float
    ) -> None:
        self.style = view.style
        self.claims = claims
        self.n_empty = 0
        self.offered = 1.0
        self.evidence = Evidence()
        self.trust = Trust()
        self.limits: Limits | None = None
        self.limits_age = 0
        self.turn: BreakerTurn = "guess"
        self.rest: tuple[str, Limits] | None = None
        self.news = True
        self._prior = prior
        self._chain, self._ranks = Ladder(), Ladder()
        self._n_drafts = self._n_faded = 0
        self._stale = True
        self._gains = np.zeros(0)
        known = prior.evidence
        hopeless = (
            known.drafts >= CONVINCING_DRAFTS and known.upper() < breakeven * config.open_below
        )
        if hopeless:
            self.evidence.inherit(known, INHERITED_DRAFTS)
        self.breaker = Breaker(
            config,
            state="open" if hopeless else "closed",
            reason="others like it did not gain" if hopeless else "",
            # Its own record is empty, so it looks early; not in the same round as all others.
            first_wait=1 + view.key % config.first_probe,
        )

    def gains(self, n: int) -> Floats:
        """Chances of its next draft's guesses, at most n."""
        if self._stale:
            self._stale = False
            factor = (1 - 1 / MEMORY) ** (self._n_drafts - self._n_faded)
            self._n_faded = self._n_drafts
            (self._ranks if self.claims else self._chain).fade(factor)
            if self.claims:
                self._gains = np.array(rank_gains(self._ranks, self._prior.ranks, n))
            else:
                self._gains = np.array(chain_gains(self._chain, self._prior.chain, n))
        return self._gains

    @property
    def young(self) -> bool:
        """Whether hardly anything is known, of it and of others like it."""
        return self.evidence.drafts < 4 and self._prior.evidence.drafts < CONVINCING_DRAFTS

    def in_claims(self, worth: float) -> float:
        """The chance its drafter claims for a guess that is worth its row; never more than 1."""
        return self.trust.in_claims(worth, self._prior.trust.value())

    def learn(self, done: Round, *, every_ask: bool) -> None:
        """A verified round in which it was asked; every_ask: empty drafts count as failures."""
        draft, path = done.draft, done.verdict.path if done.verdict else ()
        fade = 1 - 1 / MEMORY
        self.offered = fade * self.offered + (1 - fade) * bool(draft.tokens)
        if not draft.tokens:
            self.n_empty += 1
            if every_ask:
                self.evidence.learn(0, 0, 1)
            return
        self.n_empty = 0
        prior = self._prior
        said = bool(draft.chances)
        if said != self.claims:
            self.claims, self._stale, self.news = said, True, True
        hits = outcome(draft, path)
        own = self._ranks if said else self._chain
        own.learn(hits)
        if said:
            steps, claimed = claims(draft, path)
            self.trust.learn(len(path), claimed, steps)
            prior.trust.learn(len(path), claimed, steps)
        depth = done.turn.max_depth
        if self.evidence.learn(len(path), len(draft), depth):  # the text changed its kind
            own.shrink(3.0)
            self.trust.shrink()
            self._stale = self.news = True
        prior.learn(hits, len(path), draft, depth)
        self._n_drafts += 1
        if self._n_drafts <= _FEW_DRAFTS:
            self._stale = self.news = True
        elif not self._n_drafts % _FRESH_DRAFTS:
            self._stale = True

    def reading(self, breakeven: float) -> Reading:
        """What its breaker looks at."""
        return Reading(
            lower=self.evidence.lower(), upper=self.evidence.upper(), breakeven=breakeven
        )

    def words(self, n: int, worth: float, *, row_share: float, deepest: int) -> str:
        """Why it may guess so far: the numbers that decided."""
        if self.evidence.guesses:
            kept = f"guesses kept {self.evidence.kept / self.evidence.guesses:.2f} of the time"
        else:
            first = float(self.gains(deepest)[:1].sum())
            kept = f"no data yet, a first guess is taken to hold {first:.2f} of the time"
        row = f"a row costs {100 * row_share:.1f} % of a pass"
        if self.claims:
            return f"up to {n} guesses likelier than {worth:.2f}: {kept}, {row}"
        return f"depth {n} of {deepest}: {kept}, {row}"

    def opened(self) -> None:
        """The breaker opened: probes must be able to outweigh what led to it."""
        self.evidence.shrink(4.0)
        self._chain.shrink(4.0)
        self._ranks.shrink(4.0)
        self._stale = True


class Plan:
    """How many guesses each sequence is granted, and what one is worth, for the next few rounds."""

    __slots__ = ("_left", "_size", "n_guesses", "worth")

    def __init__(self, views: Seq[View], n_guesses: Seq[int], worth: float) -> None:
        self.n_guesses = {v.key: n for v, n in zip(views, n_guesses, strict=True)}
        self.worth = worth
        self._size = len(views)
        self._left = PLAN_ROUNDS if len(views) < _MANY else 2 * PLAN_ROUNDS

    def holds(self, views: Seq[View], records: Seq[Record]) -> bool:
        """Whether it answers for these sequences, one round later: they are hardly other ones,
        and nothing was learned that cannot wait. Those that came since are left out of it."""
        self._left -= 1
        return (
            self._left > 0
            and 8 * abs(len(views) - self._size) <= self._size
            and not any(r.news for r in records)
        )
