"""Walks through a plan: blocks of one arm under one load, arms taking turns.

Arms differ in speculation only. They share one loaded model and get the same items in the same
order with the same seeds; each block begins with a drafter that has seen nothing and with no text
already computed, so that neither arm profits from the other's work. The order of arms is reversed
in every second repeat (A B, B A): a machine that slows down slows both.

Items are not repeated within a block where the workload is large enough, since a drafter that
remembers answers would know the second by heart; `Plan.repeats_items` says where they are.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from outpace.bench.arrivals import Closed, Load, Open, by_length
from outpace.bench.client import Answer, Client, Counting, guessed_between
from outpace.bench.record import Block, BlockId, Request, request_of, to_line
from outpace.bench.workload import Item, Workload
from outpace.control.limits import Limits, parse_speculation
from outpace.core.sampling import Sampling
from outpace.errors import ConfigError, RequestError
from outpace.journal import Journal

# Enough streams for each to be seen at work, and for the load to be full most of the time.
REQUESTS_PER_STREAM = 2
_WARM_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A way to speculate. limits None leaves depths to the model's control."""

    name: str
    drafter: str
    limits: Limits | None


def parse_arms(text: str) -> tuple[Arm, ...]:
    """`none,auto,lookup@fixed:4`: drafters, each with a speculation setting if wanted.

    Raises:
        ConfigError: no arms, one twice, or a setting that does not exist.
    """
    arms: list[Arm] = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        drafter, _, speculation = name.partition("@")
        try:
            limits = parse_speculation(speculation or "auto")
        except RequestError as error:
            raise ConfigError(f"arm {name!r}: {error}") from None
        arms.append(Arm(name=name, drafter=drafter, limits=limits))
    if not arms or len({arm.name for arm in arms}) < len(arms):
        raise ConfigError(f"arms are {text!r}; allowed: different names, such as none,auto")
    return tuple(arms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure. requests: at least so many items per block. warm_up: requests before the
    first block of each arm and load. seed: of the sampling, plus the item's place."""

    arms: tuple[Arm, ...]
    loads: tuple[Load, ...]
    workload: Workload
    sampling: Sampling
    requests: int
    repeats: int
    warm_up: int
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("requests", "repeats"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: 1 or more")

    def blocks(self) -> Iterator[tuple[Load, BlockId, Arm]]:
        """In the order they are run."""
        for repeat in range(self.repeats):
            for load in self.loads:
                for arm in self.arms if repeat % 2 == 0 else reversed(self.arms):
                    yield load, BlockId(load=load.name, repeat=repeat, arm=arm.name), arm

    def places(self, load: Load) -> list[int]:
        """Which items a block of this load asks, in their order."""
        n_items = len(self.workload.items)
        if isinstance(load, Open):
            lengths = [sum(len(m["content"]) for m in i.messages) for i in self.workload.items]
            return by_length(load.arrivals, [n // 4 for n in lengths])
        return [i % n_items for i in range(self.n_items(load))]

    def n_items(self, load: Load) -> int:
        """Items a block of this load asks."""
        if isinstance(load, Open):
            return len(load.arrivals)
        return max(self.requests, REQUESTS_PER_STREAM * load.streams)

    def n_requests(self, load: Load) -> int:
        """Requests a block of this load makes: items with several turns count as often."""
        return sum(self.workload.items[i].n_turns for i in self.places(load))

    def repeats_items(self, load: Load) -> bool:
        """Whether some item is asked more than once in a block."""
        places = self.places(load)
        return len(set(places)) < len(places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Progress: one more request of this block ended, or (None) the block began."""

    load: Load
    block: BlockId
    request: Request | None


Clients = Callable[[Arm], AbstractContextManager[Client]]
Tell = Callable[[Step], None]


def run(
    plan: Plan,
    clients: Clients,
    journal: Journal,
    tell: Tell,
    *,
    done: frozenset[BlockId] = frozenset(),
    attempt: int = 0,
) -> None:
    """Measure every block of the plan that is not `done`, writing records as requests end.

    clients: opens an arm from a fresh state. A KeyboardInterrupt leaves the block unfinished and
    everything written.
    """
    warm: set[tuple[str, str]] = set()
    for load, block, arm in plan.blocks():
        if block in done:
            continue
        if (load.name, arm.name) not in warm:
            warm.add((load.name, arm.name))
            with clients(arm) as client:
                _warm_up(plan, client)
        tell(Step(load=load, block=block, request=None))
        with clients(arm) as client:
            work = _Work(plan, load, block, attempt, client, journal, tell)
            try:
                ended = work.run()
            except BaseException:
                work.stop()  # before the client goes, so that what it cuts off is not recorded
                raise
        journal.append(to_line(ended))


def _warm_up(plan: Plan, client: Client) -> None:
    sampling = replace(plan.sampling, max_tokens=_WARM_TOKENS, min_tokens=0)
    for item in plan.workload.items[-plan.warm_up :] if plan.warm_up else ():
        client.ask(item.messages, sampling)


@dataclass(slots=True)
class _Job:
    item: Item
    place: int
    at_s: float | None  # None = as soon as a stream is free
    max_tokens: int | None


class _Work:
    """One block: threads that ask, and what they share."""

    def __init__(
        self, plan: Plan, load: Load, block: BlockId, attempt: int, client: Client,
        journal: Journal, tell: Tell,
    ) -> None:  # fmt: skip
        self._plan, self._load, self._block, self._attempt = plan, load, block, attempt
        self._client, self._journal, self._tell = client, journal, tell
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._requests: list[Request] = []
        self._began_s = 0.0
        self._counted: Mapping[str, float] | None = None
        self._drained_s: float | None = None
        self._jobs = iter(self._all_jobs())

    def run(self) -> Block:
        """Ask everything; returns when the last answer is written."""
        self._counted = self._count()
        self._began_s = time.perf_counter()
        threads: list[threading.Thread] = []
        if isinstance(self._load, Closed):
            threads = [self._thread(self._stream) for _ in range(self._load.streams)]
        else:
            for job in self._jobs:
                wait_s = self._began_s + (job.at_s or 0.0) - time.perf_counter()
                if self._stopped.wait(max(0.0, wait_s)):
                    break
                threads.append(self._thread(self._ask, job))
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure
        return self._ended()

    def stop(self) -> None:
        """Ask and record nothing more."""
        self._stopped.set()

    def _all_jobs(self) -> Iterator[_Job]:
        load, items = self._load, self._plan.workload.items
        for at, place in enumerate(self._plan.places(load)):
            if isinstance(load, Open):
                arrival = load.arrivals[at]
                yield _Job(items[place], place, arrival.at_s, arrival.generated_tokens)
            else:
                yield _Job(items[place], place, None, None)

    def _thread(self, target: Callable[..., None], *args: object) -> threading.Thread:
        def guarded() -> None:
            try:
                target(*args)
            except BaseException as error:  # raised again by the thread that waits
                self._failure = self._failure or error
                self.stop()

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def _stream(self) -> None:
        while not self._stopped.is_set():
            with self._lock:
                job = next(self._jobs, None)
                if job is None:
                    self._drained_s = self._drained_s or time.perf_counter()
                    return
            self._ask(job)

    def _ask(self, job: _Job) -> None:
        """All turns of an item; each is due when the one before it has ended."""
        plan, item = self._plan, job.item
        sampling = plan.sampling
        if job.max_tokens is not None:
            sampling = replace(sampling, max_tokens=job.max_tokens, ignore_eos=True)
        if not sampling.greedy:
            sampling = replace(sampling, seed=plan.seed + job.place)
        messages = list(item.messages)
        due_s = time.perf_counter() if job.at_s is None else self._began_s + job.at_s
        for turn in range(item.n_turns):
            more = turn < len(item.later)
            answer = self._client.ask(messages, sampling, want_text=more)
            if self._stopped.is_set():
                return
            self._note(answer, (item.id, item.category, turn), due_s)
            if not answer.ok:
                return
            if more:
                messages.append({"role": "assistant", "content": answer.text})
                messages.append({"role": "user", "content": item.later[turn]})
            due_s = answer.ended_s

    def _note(self, answer: Answer, place: tuple[str, str, int], due_s: float) -> None:
        record = request_of(
            answer, self._block, attempt=self._attempt, place=place, sched_s=due_s,
            began_s=self._began_s,
        )  # fmt: skip
        self._journal.append(to_line(record))
        with self._lock:
            self._requests.append(record)
        self._tell(Step(load=self._load, block=self._block, request=record))

    def _ended(self) -> Block:
        full_s = self._drained_s - self._began_s if self._drained_s is not None else 0.0
        return Block(
            block=self._block,
            attempt=self._attempt,
            wall_s=max((r.ended_s for r in self._requests), default=0.0),
            full_s=round(full_s, 6),
            full_tokens=_tokens_until(self._requests, full_s),
            requests=len(self._requests),
            speculation=guessed_between(self._counted, self._count()),
        )

    def _count(self) -> Mapping[str, float] | None:
        return self._client.counted() if isinstance(self._client, Counting) else None


def _tokens_until(requests: Seq[Request], at_s: float) -> int:
    return sum(
        n for r in requests for t, n in zip(r.chunks_s, r.chunk_tokens, strict=True) if t <= at_s
    )
