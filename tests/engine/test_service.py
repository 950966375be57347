"""The engine on a thread: the same texts, every answer given, and nobody waits for a reader."""

import asyncio
import gc
import random
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from itertools import pairwise
from queue import SimpleQueue
from statistics import median

import pytest

from engine.test_engine import LIMITS, TABLE, VOCAB, Guessing, alone, requests
from outpace.core.sampling import Sampling
from outpace.core.score import Rows, Scores
from outpace.engine.engine import Engine
from outpace.engine.schedule import Budget
from outpace.engine.service import Service
from outpace.engine.stream import Stream
from outpace.errors import CapacityError, ContractError, RequestError
from outpace.events import Event, RoundsDone
from outpace.runtimes.toy import TableRuntime

WAIT_S = 60.0


class Paced(TableRuntime):
    """A toy that takes its time, waits at a gate, or breaks at a given pass."""

    def __init__(self, *, pass_s: float = 0.0, breaks_at: int = 0, room: int | None = None) -> None:
        super().__init__(TABLE, vocab_size=VOCAB, max_tokens=room)
        self.gate = threading.Event()
        self.gate.set()
        self._pass_s, self._breaks_at = pass_s, breaks_at

    def extend(self, batch: Seq[Rows]) -> list[Scores]:
        self.gate.wait(WAIT_S)
        time.sleep(self._pass_s)
        if self._breaks_at and self.n_passes + 1 >= self._breaks_at:
            raise OSError("the machine is on fire")
        return super().extend(batch)


def service_of(runtime: TableRuntime, budget: Budget | None = None) -> Service:
    return Service(Engine(runtime, Guessing(), limits=LIMITS, budget=budget), check_when_idle=True)


def read(stream: Stream) -> list[int]:
    return [token for chunk in stream for token in chunk.tokens]


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s, "it did not come to that in time"
        time.sleep(0.001)


@pytest.mark.parametrize("room", [None, 150])
def test_texts_do_not_depend_on_company(room: int | None) -> None:
    jobs = requests(32)
    random.Random(1).shuffle(jobs)
    texts: dict[int, list[int]] = {}

    def ask(i: int) -> None:
        stream = service.submit(*jobs[i], seed=0)
        if i % 5 == 4:
            for _ in zip(range(2), stream, strict=False):
                pass  # leaving the loop is leaving the request
        else:
            texts[i] = read(stream)

    runtime = Paced(room=room)
    runtime.gate.clear()
    with service_of(runtime, Budget(rows=17, sequences=16)) as service:
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(jobs))]
        for thread in threads:
            thread.start()
        until(lambda: len(service._boxes) == len(jobs))  # so that there is company, and no room
        runtime.gate.set()
        for thread in threads:
            thread.join(WAIT_S)
        stats = service.stats()
    assert (stats.preempted > 0) == (room is not None)
    assert service.health().state == "stopped"
    assert len(texts) == 32 - 6
    for i, text in texts.items():
        assert text == alone(*jobs[i])


def test_nobody_starves_where_the_passes_are_too_small_for_all() -> None:
    passes: list[set[int]] = []

    def note(event: Event) -> None:
        if isinstance(event, RoundsDone):
            passes.append({done.turn.sequence.key for done in event.rounds})

    runtime = Paced()
    engine = Engine(runtime, Guessing(), limits=LIMITS, budget=Budget(rows=8, sequences=32))
    engine.listeners.append(note)
    runtime.gate.clear()
    with Service(engine) as service:
        streams = [service.submit([1, 2], Sampling(max_tokens=20)) for _ in range(32)]
        runtime.gate.set()
        for stream in streams:
            stream.wait(WAIT_S)
    for stream in streams:
        turns = [i for i, keys in enumerate(passes) if stream.sequence.key in keys]
        assert max(b - a for a, b in pairwise(turns)) <= 8, "32 take turns, 6 to 8 at a time"


def test_a_slow_reader_slows_nobody_and_misses_nothing() -> None:
    with service_of(Paced()) as service:
        slow = service.submit([1], Sampling(max_tokens=200, ignore_eos=True))
        first = next(iter_once := iter(slow))
        quick = service.submit([2], Sampling(max_tokens=50))
        quick.wait(WAIT_S)
        slow.wait(WAIT_S)
        chunks = [first, *iter_once]
        assert len(chunks) <= 3, "what waited comes in one piece"
        tokens = [token for chunk in chunks for token in chunk.tokens]
    assert tokens == alone([1], Sampling(max_tokens=200, ignore_eos=True))


def test_a_dropped_stream_ends_its_request() -> None:
    runtime = Paced(pass_s=0.001)
    with service_of(runtime) as service:
        stream = service.submit([1], Sampling(max_tokens=4000))
        sequence = stream.sequence
        next(iter(stream))
        kept = service.submit([1], Sampling(max_tokens=4000))
        kept.read(WAIT_S)
        runtime.gate.clear()  # neither may come to its own end meanwhile
        del stream
        gc.collect()
        kept.close()
        kept.close()
        runtime.gate.set()
        kept.wait(WAIT_S)
    assert (sequence.finish, kept.finish) == ("abort", "abort")
    runtime.check_integrity()


def test_a_waiting_request_can_be_left() -> None:
    runtime = Paced()
    with service_of(runtime, Budget(sequences=1)) as service:
        runtime.gate.clear()
        first = service.submit([1], Sampling(max_tokens=3))
        second = service.submit([2], Sampling(max_tokens=3))
        second.close()
        runtime.gate.set()
        assert first.wait(WAIT_S) == "length"
        assert second.wait(WAIT_S) == "abort"
        assert read(second) == []


def test_a_broken_runtime_answers_everybody_with_its_error() -> None:
    runtime = Paced(breaks_at=10)
    runtime.gate.clear()
    service = service_of(runtime, Budget(sequences=2))
    streams = [service.submit([1], Sampling(max_tokens=50)) for _ in range(6)]
    runtime.gate.set()
    for stream in streams:
        with pytest.raises(ContractError, match="on fire"):
            read(stream)
        with pytest.raises(ContractError, match="not finished"):
            stream.wait(WAIT_S)
    assert len(streams[0].sequence.output) > 3, "it broke in the middle"
    health = service.health()
    assert (health.state, "on fire" in health.reason) == ("dead", True)
    with pytest.raises(ContractError, match="restart"):
        service.submit([1], Sampling(max_tokens=3))
    assert service.shutdown(0.0) is True, "nothing was left to cut off"


def test_a_drain_finishes_what_was_accepted_and_takes_no_more() -> None:
    runtime = Paced()
    service = service_of(runtime, Budget(sequences=2))
    runtime.gate.clear()
    streams = [service.submit([i], Sampling(max_tokens=9)) for i in range(5)]
    ending = threading.Thread(target=service.shutdown)
    ending.start()
    until(lambda: service.health().state != "running")
    assert service.health().state == "draining"
    with pytest.raises(CapacityError, match="shutting down"):
        service.submit([1], Sampling(max_tokens=3))
    runtime.gate.set()
    ending.join(WAIT_S)
    assert [stream.finish for stream in streams] == ["length"] * 5


def test_the_deadline_of_a_drain_aborts_what_is_left() -> None:
    runtime = Paced(pass_s=0.001)
    service = service_of(runtime, Budget(sequences=2))
    streams = [service.submit([i], Sampling(max_tokens=4000)) for i in range(5)]
    streams[0].read(WAIT_S)
    assert service.shutdown(0.02) is False
    assert [stream.finish for stream in streams] == ["abort"] * 5
    runtime.check_integrity()
    assert service.shutdown() is True


def test_a_full_service_says_when_to_come_back() -> None:
    runtime = Paced()
    runtime.gate.clear()
    with service_of(runtime, Budget(sequences=1, waiting=2)) as service:
        streams = [service.submit([1], Sampling(max_tokens=3)) for _ in range(3)]
        with pytest.raises(CapacityError, match="try again in") as caught:
            service.submit([1], Sampling(max_tokens=3))
        assert caught.value.retry_after_s is not None
        runtime.gate.set()
        for stream in streams:
            stream.wait(WAIT_S)
        assert service.submit([1], Sampling(max_tokens=3)).wait(WAIT_S) == "length"


def test_a_wrong_request_is_refused_at_once_and_one_too_large_alone() -> None:
    with service_of(Paced(room=50)) as service:
        with pytest.raises(RequestError, match="empty"):
            service.submit([], Sampling())
        with pytest.raises(RequestError, match="token ids"):
            service.submit([VOCAB], Sampling())
        big = service.submit([1] * 60, Sampling(max_tokens=3))
        with pytest.raises(RequestError, match="memory"):
            read(big)
        assert service.submit([1], Sampling(max_tokens=3)).wait(WAIT_S) == "length"
        assert service.health().state == "running"


def test_streams_are_read_in_any_event_loop() -> None:
    jobs = requests(12)

    async def text(service: Service, i: int) -> list[int]:
        tokens: list[int] = []
        async for chunk in service.submit(*jobs[i], seed=0):
            tokens.extend(chunk.tokens)
        return tokens

    async def all_of(service: Service) -> list[list[int]]:
        return await asyncio.gather(*[text(service, i) for i in range(len(jobs))])

    with service_of(Paced()) as service:
        for _ in range(2):  # two loops, one after the other
            texts = asyncio.run(all_of(service))
            assert texts == [alone(*job) for job in jobs]


def test_a_cancelled_task_and_a_closed_loop_end_their_requests() -> None:
    runtime = Paced(pass_s=0.001)

    async def leave(service: Service) -> Stream:
        stream = service.submit([1], Sampling(max_tokens=4000))

        begun = asyncio.Event()

        async def follow() -> None:
            async for _ in stream:
                runtime.gate.clear()
                begun.set()

        task = asyncio.create_task(follow())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        runtime.gate.set()
        return stream

    with service_of(runtime) as service:
        cancelled = asyncio.run(leave(service))
        assert cancelled.wait(WAIT_S) == "abort"


@pytest.mark.parametrize("rung", [False, True], ids=("asleep", "called-but-not-awake"))
def test_a_loop_that_closed_under_its_reader_ends_the_request(rung: bool) -> None:
    """Also when the loop had the news already, and closed before it could tell its reader."""
    runtime = Paced(pass_s=0.001)
    runtime.gate.clear()
    with service_of(runtime) as service:
        stream = service.submit([1], Sampling(max_tokens=4000))
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)  # it would log the task it lost

        async def follow() -> None:
            async for _ in stream:
                pass

        task = loop.create_task(follow())
        loop.run_until_complete(asyncio.sleep(0.01))
        if rung:
            runtime.gate.set()
            until(lambda: bool(stream.sequence.output))
        loop.close()
        runtime.gate.set()
        assert stream.wait(WAIT_S) == "abort"
        del task


class Inbox(SimpleQueue[Callable[[], None]]):
    """Notes when its reader looks, and that it never looks for a while only."""

    made: "list[Inbox]"

    def __init__(self) -> None:
        self.n_looks, self.n_sleeps = 0, 0
        self.made.append(self)

    def get_nowait(self) -> Callable[[], None]:
        self.n_looks += 1
        return super().get_nowait()

    def get(self, block: bool = True, timeout: float | None = None) -> Callable[[], None]:
        assert block
        assert timeout is None
        self.n_sleeps += 1
        return super().get()


def test_an_idle_service_sleeps_until_it_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Inbox, "made", [], raising=False)
    monkeypatch.setattr("outpace.engine.service.SimpleQueue", Inbox)
    with service_of(Paced()) as service:
        (inbox,) = Inbox.made
        until(lambda: inbox.n_sleeps == 1)
        for n in range(2, 5):
            service.submit([1], Sampling(max_tokens=1)).wait(WAIT_S)
            until(lambda n=n: inbox.n_sleeps == n)  # type: ignore[misc]
            looks = inbox.n_looks
            time.sleep(0.05)
            assert (inbox.n_looks, inbox.n_sleeps) == (looks, n), "it woke, and nobody called"
    assert service.health().state == "stopped"


def test_an_idle_service_answers_as_fast_as_a_thread_can_wake() -> None:
    """Beside what waking a thread costs here and now; a look now and then would show."""
    bell: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def wake() -> None:
        while (call := bell.get()) is not None:
            call()

    sleeper = threading.Thread(target=wake)
    sleeper.start()
    tries = []
    with service_of(Paced()) as service:
        for _ in range(5):
            ours, theirs = [], []
            for _ in range(30):
                stream = service.submit([1], Sampling(max_tokens=1))
                stream.wait(WAIT_S)
                ours.append((stream.times.admitted_s or 9e9) - stream.times.submitted_s)
                awake = threading.Event()
                began_s = time.perf_counter()
                bell.put(awake.set)
                awake.wait(WAIT_S)
                theirs.append(time.perf_counter() - began_s)
            tries.append(median(ours) / median(theirs))
    bell.put(None)
    sleeper.join(WAIT_S)
    assert min(tries) < 10


def test_a_leak_found_when_idle_is_fatal_and_named() -> None:
    runtime = Paced()
    service = service_of(runtime)
    runtime.open(10_000, [1])
    service.submit([1], Sampling(max_tokens=1)).wait(WAIT_S)
    until(lambda: service.health().state == "dead")
    assert "still open" in service.health().reason


def test_stats_add_up() -> None:
    with service_of(Paced()) as service:
        streams = [service.submit([1, 2], Sampling(max_tokens=30), seed=0) for _ in range(4)]
        for stream in streams:
            stream.wait(WAIT_S)
        stats = service.stats()
        assert (stats.running, stats.waiting) == (0, 0)
    meters = [stream.meter for stream in streams]
    assert stats.tokens == sum(len(s.sequence.output) for s in streams) == 120
    assert stats.drafted == sum(m.drafted for m in meters)
    assert stats.kept == sum(kept * n for m in meters for (_, kept), n in m.lengths.items())
    assert stats.rounds == sum(m.rounds for m in meters)
    assert stats.tokens_per_s > 0
    assert dict(stats.finished) == {"length": 4}
    assert all(sum(s.times.chunk_tokens) == 30 for s in streams)
