"""Requests in company: the same text as alone, whatever happens around them."""

import random
from collections.abc import Sequence as Seq

import pytest

from outpace.control.limits import OFF, Limits
from outpace.core.draft import Ask, Draft, Seen, chain
from outpace.core.sampling import Sampling
from outpace.core.sequence import Sequence
from outpace.drafters.none import NoDrafter
from outpace.engine.engine import Engine
from outpace.engine.schedule import Budget
from outpace.errors import CapacityError, ContractError, RequestError
from outpace.events import Admitted, Event, Preempted, RequestDone
from outpace.runtimes.toy import TableRuntime, random_table

VOCAB = 12
TABLE = random_table(VOCAB, seed=5)
LIMITS = Limits(max_nodes=4, max_depth=4)


class Guessing:
    """Half right: the table's likeliest token, or another, by a fixed pattern."""

    name = "guessing"

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return [self._chain(ask) for ask in asks]

    def _chain(self, ask: Ask) -> Draft:
        text = list(ask.tokens)
        for i in range(ask.max_depth):
            best = int(TABLE(tuple(text)).argmax())
            text.append(best if (len(text) + i) % 3 else (best + 1) % VOCAB)
        return chain(text[len(ask.tokens) :])

    def observe(self, seen: Seq[Seen]) -> None:
        pass

    def forget(self, key: int) -> None:
        pass


def requests(n: int) -> list[tuple[list[int], Sampling]]:
    rng = random.Random(3)
    made = []
    for i in range(n):
        prompt = [rng.randrange(VOCAB) for _ in range(rng.randrange(1, 40))]
        n = rng.randrange(1, 60)
        drawn = Sampling(max_tokens=n, temperature=0.8, seed=i)
        made.append((prompt, drawn if i % 2 else Sampling(max_tokens=n)))
    return made


def alone(prompt: list[int], sampling: Sampling) -> list[int]:
    engine = Engine(TableRuntime(TABLE, vocab_size=VOCAB), NoDrafter(), limits=OFF)
    sequence = engine.add(prompt, sampling, seed=0)
    while not engine.idle:
        engine.step()
    return sequence.output


def run(engine: Engine, jobs: list[tuple[list[int], Sampling]]) -> list[Sequence]:
    sequences = [engine.add(prompt, sampling, seed=0) for prompt, sampling in jobs]
    for _ in range(20_000):
        if engine.idle:
            break
        engine.step()
    assert engine.idle
    engine.check_integrity()
    return sequences


@pytest.mark.parametrize("rows", [3, 17, 512])
@pytest.mark.parametrize("room", [None, 150])
def test_texts_do_not_depend_on_company(rows: int, room: int | None) -> None:
    jobs = requests(24)
    runtime = TableRuntime(TABLE, vocab_size=VOCAB, max_tokens=room)
    engine = Engine(runtime, Guessing(), limits=LIMITS, budget=Budget(rows=rows, sequences=16))
    events: list[Event] = []
    engine.listeners.append(events.append)
    for (prompt, sampling), sequence in zip(jobs, run(engine, jobs), strict=True):
        assert sequence.output == alone(prompt, sampling)
    if room is not None:
        assert any(isinstance(e, Preempted) for e in events), "the pool was meant to be too small"
    done = [e.sequence.key for e in events if isinstance(e, RequestDone)]
    assert sorted(done) == list(range(24))


def test_aborting_some_leaves_the_others_alone() -> None:
    jobs = requests(12)
    engine = Engine(TableRuntime(TABLE, vocab_size=VOCAB), Guessing(), limits=LIMITS)
    sequences = [engine.add(prompt, sampling, seed=0) for prompt, sampling in jobs]
    engine.step()
    for sequence in sequences[::3]:
        engine.abort(sequence)
        engine.abort(sequence)
    while not engine.idle:
        engine.step()
    engine.check_integrity()
    for i, (job, sequence) in enumerate(zip(jobs, sequences, strict=True)):
        whole = alone(*job)
        if i % 3:
            assert sequence.output == whole
        else:
            assert sequence.output == whole[: len(sequence.output)]


def test_a_waiting_request_can_be_aborted() -> None:
    engine = Engine(
        TableRuntime(TABLE, vocab_size=VOCAB), NoDrafter(), limits=OFF, budget=Budget(sequences=1)
    )
    first = engine.add([1], Sampling(max_tokens=3), seed=0)
    second = engine.add([2], Sampling(max_tokens=3), seed=0)
    engine.step()
    engine.abort(second)
    while not engine.idle:
        engine.step()
    assert (first.finish, second.finish, second.output) == ("length", "abort", [])


def test_a_full_queue_says_when_to_come_back() -> None:
    engine = Engine(
        TableRuntime(TABLE, vocab_size=VOCAB), NoDrafter(), limits=OFF, budget=Budget(waiting=2)
    )
    for _ in range(2):
        engine.add([1], Sampling(max_tokens=3), seed=0)
    with pytest.raises(CapacityError) as caught:
        engine.add([1], Sampling(max_tokens=3), seed=0)
    assert caught.value.retry_after_s is not None


def test_a_request_too_large_for_the_memory_fails_alone() -> None:
    runtime = TableRuntime(TABLE, vocab_size=VOCAB, max_tokens=50)
    engine = Engine(runtime, NoDrafter(), limits=OFF)
    big = engine.add([1] * 60, Sampling(max_tokens=5), seed=0)
    growing = engine.add([1] * 10, Sampling(max_tokens=500), seed=0)
    small = engine.add([1] * 10, Sampling(max_tokens=5), seed=0)
    while not engine.idle:
        engine.step()
    assert (big.finish, growing.finish, small.finish) == ("error", "error", "length")
    assert isinstance(big.error, RequestError)
    assert len(growing.output) > 30
    engine.check_integrity()


def test_guesses_give_way_before_a_sequence_does() -> None:
    runtime = TableRuntime(TABLE, vocab_size=VOCAB, max_tokens=52)
    engine = Engine(runtime, Guessing(), limits=Limits(max_nodes=30, max_depth=30))
    events: list[Event] = []
    engine.listeners.append(events.append)
    run(engine, [([1] * 10, Sampling(max_tokens=10)), ([2] * 10, Sampling(max_tokens=10))])
    assert not any(isinstance(e, Preempted) for e in events)
    assert sum(isinstance(e, Admitted) for e in events) == 2


def test_integrity_is_refused_while_busy() -> None:
    engine = Engine(TableRuntime(TABLE, vocab_size=VOCAB), NoDrafter(), limits=OFF)
    engine.add([1], Sampling(max_tokens=3), seed=0)
    with pytest.raises(ContractError, match="not idle"):
        engine.check_integrity()
