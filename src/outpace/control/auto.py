"""The control that measures: how far each sequence guesses, from costs and acceptance alone.

Each round it asks what a second is worth (the tokens it brings elsewhere), lets the sequences bid
with the chances of their guesses (`depth.py`), and stops those that lose (`breaker.py`). What it
may know of the coming round is a `View`; drawn ids reach it only when their round is over.
"""

import time
from collections.abc import Callable
from collections.abc import Sequence as Seq

from outpace.control.acceptance import Prior
from outpace.control.cost import CostTable, RoundCosts, load_of, plain_load
from outpace.control.depth import Bid, Market, Prices, search, worth_of
from outpace.control.limits import AutoConfig, Limits, View
from outpace.control.record import Plan, Record
from outpace.control.snapshot import Snapshot, Source, count, snapshot
from outpace.core.draft import Style
from outpace.core.repeat import Round
from outpace.events import ControlSwitched

# An ask that costs less than this many tokens is free: its being empty is no failure.
FREE_ASK = 0.01
# Probes may cost this share of the tokens on average, and go this deep.
PROBE_BUDGET, PROBE_DEPTH = 0.015, 4
# Rounds after which the plain pass is measured again, and so many at first; asks without guesses
# that are taken for too little trust.
LOOK_BACK, FIRST_LOOK_BACK, TOO_QUIET = 128, 12, 32
# In small batches probes go together every so many rounds: they share the draft's passes, and a
# kernel's cliff. In large ones that would make single rounds long.
FEW_SEQUENCES, PROBES_TOGETHER = 8, 8
_SAME_WORDS_ROUNDS = 16
# A sequence that reads more rows than this reads its prompt, and most likely brings no token.
_READING_ROWS = 64

_NO_BID = Bid(gains=())
_PLAIN = Limits(max_nodes=0, max_depth=0, reason="looking again at what a plain pass costs")

Tell = Callable[[ControlSwitched], None]
Clock = Callable[[], float]


class AutoControl:
    """Guesses as far as it pays, for each sequence apart.

    costs: from `profile`, or empty. drafter: its name, for events. clock: bounds switches a minute.
    """

    def __init__(
        self,
        costs: CostTable | None = None,
        config: AutoConfig | None = None,
        *,
        drafter: str = "drafter",
        clock: Clock = time.monotonic,
    ) -> None:
        self.config = config or AutoConfig()
        self.costs = RoundCosts(costs or CostTable())
        self.tell: Tell | None = None
        self._drafter, self._clock = drafter, clock
        self._records: dict[int, Record] = {}
        self._priors: dict[Style, Prior] = {}
        self._sources: dict[str, Source] = {}
        self._market = Market()
        self._n_plain: dict[int, int] = {}  # passes without guesses, by the batch's size in bits
        self._claims = False
        self._plan = Plan((), (), 0.0)
        self._n_decided = self._n_switches = self._since_plain = 0

    def report_to(self, tell: Tell) -> None:
        self.tell = tell

    def decide(self, views: Seq[View]) -> list[Limits]:
        """How far each may guess; every answer says why."""
        if not views:
            return []
        records = [self._records.get(v.key) or self._begin(v) for v in views]
        self._n_decided += 1
        together = len(views) > FEW_SEQUENCES or not self._n_decided % PROBES_TOGETHER
        n_guessing = 0
        for record in records:
            record.turn = record.breaker.turn(together=together)
            n_guessing += record.turn == "guess"
        fresh = not self._plan.holds(views, records)
        if fresh:
            self._plan = self._work_out(views, records, n_guessing)
        known = self._n_plain.get(len(views).bit_length(), 0) >= 3
        if n_guessing and self._since_plain >= (LOOK_BACK if known else FIRST_LOOK_BACK):
            return [_PLAIN] * len(views)
        planned = self._plan.n_guesses
        return [
            self._granted(r, planned.get(v.key, 0), fresh=fresh, together=together)
            if r.turn == "guess"
            else self._held(r)
            for v, r in zip(views, records, strict=True)
        ]

    def _work_out(self, views: Seq[View], records: Seq[Record], n_guessing: int) -> Plan:
        """Let all bid; the plan holds while nothing happens that changes it much."""
        prices = self._prices(views)
        # Those that rest bid too: what a guess costs depends on how many would share the pass.
        bids = [self._bid(r, n_guessing) for r in records]
        wanted = search(bids, prices).n_guesses
        n_granted, n_asked = sum(wanted), sum(n > 0 for n in wanted)
        extra_s = max(self.costs.per_guess(r.style) for r in records)
        self._market.post(prices, n_granted, n_asked or len(views), extra_s)
        if any(n and r.turn != "guess" for n, r in zip(wanted, records, strict=True)):
            pairs = zip(bids, records, strict=True)
            closed = [bid if r.turn == "guess" else _NO_BID for bid, r in pairs]
            wanted = search(closed, prices).n_guesses
        for record in records:
            record.news = False
        return Plan(views, wanted, worth_of(prices, n_granted, n_asked))

    def learn(self, rounds: Seq[Round]) -> None:
        """What one shared pass brought and cost."""
        bill = self.costs.learn(rounds)
        self._since_plain += 1
        if not bill.guesses and bill.emitting == len(rounds):
            size = len(rounds).bit_length()
            self._since_plain, self._n_plain[size] = 0, self._n_plain.get(size, 0) + 1
        # What guessing cost this round, in tokens that plain decoding would have brought.
        cost = bill.emitting * (bill.pass_s + bill.other_s - bill.plain_s) / bill.plain_s
        if bill.emitting and not bill.reading:
            self._market.learn(bill.tokens, bill.emitting + cost)
        cost /= max(sum(bool(done.draft.tokens) for done in rounds), 1)
        every_ask = self._market.ask >= FREE_ASK
        n_asked, began = 0, self._clock()
        for done in rounds:
            turn, draft = done.turn, done.draft
            record = self._records.get(turn.sequence.key)
            if record is None or done.verdict is None or turn.max_nodes < 1:
                continue
            n_asked += 1
            record.learn(done, every_ask=every_ask)
            if draft.tokens:
                self._claims = record.claims
                count(self._sources, draft, done.verdict.path, self._drafter)
            if draft.tokens or every_ask:
                self._judge(record, done, cost)
        self.costs.learn_own(n_asked, self._clock() - began)

    def forget(self, key: int) -> None:
        """A sequence ended; what it taught the prior stays."""
        self._records.pop(key, None)

    def snapshot(self) -> Snapshot:
        """The state, for metrics and people; None stands for "no data"."""
        return snapshot(
            self._drafter,
            self.config.breaker,
            records=self._records,
            priors=self._priors.values(),
            sources=self._sources,
            market=self._market,
            n_passes=self.costs.table.n_passes,
            n_switches=self._n_switches,
        )

    def _begin(self, view: View) -> Record:
        prior = self._priors.setdefault(view.style, Prior())
        record = self._records[view.key] = Record(
            view,
            prior,
            self.config.breaker,
            claims=self._claims,
            breakeven=self._market.breakeven(prior.evidence.size),
        )
        return record

    def _prices(self, views: Seq[View]) -> Prices:
        load = load_of(views)
        most = min(self.config.max_guesses, self.config.max_nodes * len(views))
        pass_s = self.costs.table.curve(load, most, load.keys / load.sequences)
        # Reading prompts has to be done anyway; a guess saves its share of a pass without that.
        writing = [v for v in views if v.catch_up <= _READING_ROWS] or views
        plain_s = self.costs.table.seconds(plain_load(writing))
        return Prices(
            tokens_per_s=len(writing) / plain_s * self._market.speedup,
            pass_s=pass_s,
            ask_s=self.costs.draft.a,
            depth_s=self.costs.draft.b,
            draft_share=self.config.draft_share,
        )

    def _bid(self, record: Record, n_guessing: int) -> Bid:
        config = self.config
        most = config.max_nodes if record.claims else min(config.max_nodes, config.max_depth)
        return Bid(
            gains=record.gains(most),
            # In a small batch a draft comes whole or not at all, and cliffs must be seen whole.
            share=max(record.offered, 0.05) if n_guessing >= 4 else 1.0,
            extra_s=self.costs.per_guess(record.style),
        )

    def _granted(self, record: Record, n: int, *, fresh: bool, together: bool) -> Limits:
        """What a sequence may guess: where drafts say how sure they are, that decides."""
        config, worth = self.config, self._plan.worth
        quiet = record.n_empty and not record.n_empty % TOO_QUIET
        if record.limits is not None and not fresh and not quiet and (n or record.claims):
            return record.limits
        if record.claims:
            n, depth = min(max(n, 2), config.max_nodes), config.max_depth
            if quiet:
                n, worth = min(n, PROBE_DEPTH), min(worth, 1.0)  # perhaps it is trusted too little
                record.news = True  # once
            else:
                worth = record.in_claims(worth)
        else:
            if not n:
                if not record.young and not record.breaker.due(together=together):
                    return self._idle(record)
                n, record.turn = (1, "guess") if record.young else (self._probe_depth, "probe")
            depth = n
            worth = 0.0
        last = record.limits
        record.limits_age += 1
        if (
            last is not None
            and record.limits_age < _SAME_WORDS_ROUNDS
            and (last.max_nodes, last.max_depth) == (n, depth)
            and abs(last.worth - worth) <= 0.05 * worth
        ):
            return last
        record.limits_age = 0
        record.limits = Limits(
            max_nodes=n, max_depth=depth, worth=worth, reason=self._why(record, n, worth)
        )
        return record.limits

    def _held(self, record: Record) -> Limits:
        """Nothing, or a probe, of a sequence whose breaker is open."""
        breaker, price = record.breaker, self._market.guess
        if record.turn == "rest" or price >= 1:
            why = breaker.reason if price < 1 else "a guess costs more than a token"
            if record.rest is None or record.rest[0] is not why:
                record.rest = why, Limits(max_nodes=0, max_depth=0, reason=f"resting: {why}")
            record.limits = record.rest[1]
            return record.limits
        depth = self._probe_depth
        worth = min(price, 1.0) if record.claims else 0.0
        record.limits = Limits(
            max_nodes=depth, max_depth=depth, worth=worth, reason=f"a probe: {breaker.reason}"
        )
        return record.limits

    @property
    def _probe_depth(self) -> int:
        """As deep as a third of a token pays for."""
        most = min(PROBE_DEPTH, self.config.max_nodes, self.config.max_depth)
        return max(1, min(most, int(0.34 / max(self._market.guess, 0.01))))

    def _why(self, record: Record, n: int, worth: float) -> str:
        return record.words(
            n, worth, row_share=self._market.row_share or 0.0, deepest=self.config.max_depth
        )

    def _idle(self, record: Record) -> Limits:
        """The breaker is closed, but no depth pays now."""
        if record.limits is None or record.limits.max_nodes or record.limits_age:
            record.limits_age = 0
            record.limits = Limits(max_nodes=0, max_depth=0, reason=self._why(record, 0, 0.0))
        return record.limits

    def _judge(self, record: Record, done: Round, cost: float) -> None:
        """Let the breaker look at the new evidence."""
        size, market, breaker = record.evidence.size, self._market, record.breaker
        breakeven = market.breakeven(size)
        if record.turn == "probe":
            asked = market.ask + market.guess * len(done.draft)
            breaker.probed(paid=done.n_kept > asked, least_wait=int(cost / PROBE_BUDGET))
        elif breaker.state == "closed" and record.evidence.paid(breakeven):
            return
        if breaker.judge(record.reading(breakeven), self._clock()):
            self._tell_switch(done.turn.sequence.key, record)

    def _tell_switch(self, key: int, record: Record) -> None:
        self._n_switches += 1
        record.news = True
        breaker = record.breaker
        reading = record.reading(self._market.breakeven(record.evidence.size))
        if breaker.state == "open":
            record.opened()
        if self.tell is None:
            return
        config = self.config.breaker
        self.tell(
            ControlSwitched(
                key=key,
                drafter=self._drafter,
                state=breaker.state,
                reason=breaker.reason,
                lower=reading.lower,
                upper=reading.upper,
                breakeven=reading.breakeven,
                owner=config.owner,
                severity=config.severity,
            )
        )
