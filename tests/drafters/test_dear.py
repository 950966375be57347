"""Offers that cost time are asked for while they bring more than their seconds would elsewhere."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from outpace.core.coins import SeededCoins
from outpace.core.draft import Ask, Draft, Seen
from outpace.core.sampling import Sampling
from outpace.drafters.mix.dear import TRY_AGAIN, DearRecord, Rate
from outpace.drafters.mix.drafter import MixDrafter
from outpace.drafters.tree import Offer


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Dear:
    """Takes `seconds` per ask and offers one token with one chance; counts its asks."""

    clock: Clock
    seconds: float
    chance: float
    name: str = "dear"
    asked: list[int] = field(default_factory=list)

    def offers(self, asks: Seq[Ask]) -> list[Offer]:
        self.asked.append(len(asks))
        self.clock.now += self.seconds * len(asks)
        return [self.offer(ask) for ask in asks]

    def offer(self, ask: Ask) -> Offer:
        if self.chance < ask.worth:
            return Offer()
        return Offer(tokens=[7], parents=[-1], chances=[self.chance], sources=[self.name])

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return [offer.draft() for offer in self.offers(asks)]

    def observe(self, seen: Seq[Seen]) -> None:
        pass

    def forget(self, key: int) -> None:
        pass


PASS_S = 0.01


def asks(n: int, worth: float) -> list[Ask]:
    return [
        Ask(
            key=key, tokens=[1, 2], n_prompt=1, max_nodes=4, max_depth=4, trees=True,
            style="chosen", sampling=Sampling(temperature=0), coins=SeededCoins(0, key),
            worth=worth,
        )
        for key in range(n)
    ]  # fmt: skip


def rounds(mix: MixDrafter, dear: Dear, n: int, worth: float, *, times: int) -> int:
    """Rounds of `n` texts whose next token is always 7; how often the source was asked."""
    before = len(dear.asked)
    for _ in range(times):
        mix.propose(asks(n, worth))
        dear.clock.now += PASS_S
        mix.observe([Seen(key=key, start=2, tokens=[7]) for key in range(n)])
    return len(dear.asked) - before


def made(*, seconds: float, chance: float) -> tuple[MixDrafter, Dear]:
    clock = Clock()
    dear = Dear(clock, seconds, chance)
    return MixDrafter([dear], rate=Rate(clock)), dear


def test_asking_goes_on_while_it_pays() -> None:
    # 100 tokens/s at best, so an ask takes .1 tokens; its guess brings at least .5 - .2.
    mix, dear = made(seconds=0.001, chance=0.5)
    assert rounds(mix, dear, 1, 0.2, times=300) == 300


def test_asking_stops_where_rows_are_dear_and_is_tried_again() -> None:
    # 16 texts: some 1,000 tokens/s, an ask takes a third of a token, its guess brings at most .2.
    mix, dear = made(seconds=0.00033, chance=0.9)
    early = rounds(mix, dear, 16, 0.8, times=20)
    assert early < 20
    late = rounds(mix, dear, 16, 0.8, times=10 * TRY_AGAIN)
    assert 8 <= late <= 12
    # Few texts are another matter, of which nothing bad is known.
    assert rounds(mix, dear, 1, 0.1, times=50) == 50


def test_an_ask_that_became_cheap_is_found_again() -> None:
    mix, dear = made(seconds=0.00033, chance=0.9)
    rounds(mix, dear, 16, 0.8, times=40)
    dear.seconds = 0.0
    rounds(mix, dear, 16, 0.8, times=20 * TRY_AGAIN)
    assert rounds(mix, dear, 16, 0.8, times=50) == 50


def test_where_nobody_counts_what_a_row_costs_it_is_always_asked() -> None:
    mix, dear = made(seconds=1.0, chance=0.01)
    assert rounds(mix, dear, 4, 0.0, times=100) == 100


def test_the_rate_is_of_rounds_not_of_what_lies_between_them() -> None:
    clock = Clock()
    rate = Rate(clock)
    rate.end(3)  # nothing began
    assert rate.tokens_per_s == 0
    for _ in range(100):
        rate.begin()
        clock.now += 0.5
        rate.end(2)
        clock.now += 100.0
    assert abs(rate.tokens_per_s - 4) < 1e-9


def test_a_record_starts_in_favour_of_asking() -> None:
    record = DearRecord()
    assert record.pays(0.9, 1e9)
    record.took(0.9, 1, 1.0)
    assert not record.pays(0.9, 1e9)
    assert record.pays(0.0, 1e9)
