"""The engine: owns the sequences, runs rounds, and is the only one to change either.

`add` queues a request, `step` runs one round for whoever the schedule picks, `abort` ends one at
any time. Nothing here knows threads; `service.py` gives the engine one of its own.
"""

import itertools
import time
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from outpace.control.limits import Control, FixedControl, Limits, View
from outpace.core.draft import Drafter, Seen
from outpace.core.law import TokenMask
from outpace.core.repeat import Clock, Round, Turn, one_round
from outpace.core.sampling import Sampling
from outpace.core.score import Runtime
from outpace.core.sequence import Sequence, StopScan
from outpace.engine.schedule import Budget, Standing, plan
from outpace.errors import CapacityError, ContractError, RequestError
from outpace.events import Admitted, Event, Listener, Preempted, RequestDone, RoundsDone

PREFILL_CHUNK_TOKENS = 512
# Rows left free for each running sequence when another is let in.
_HEADROOM_ROWS = 16

_FULL = Limits(max_nodes=0, max_depth=0, reason="no room for guesses")

Sink = Callable[[Round], None]


@dataclass(slots=True, eq=False)
class Flight:
    """A request's place in the engine; only the engine changes it.

    limits: in place of the control's decision. sink: told of each of its rounds.
    """

    sequence: Sequence
    limits: Limits | None
    sink: Sink | None
    traced: bool
    last_pass: int = -1
    n_preempted: int = field(default=0)


class Engine:
    """Runs requests together, one round at a time.

    control: how far to guess; or limits: always the same. listeners: told of every event.
    """

    def __init__(
        self,
        runtime: Runtime,
        drafter: Drafter,
        *,
        limits: Limits | None = None,
        control: Control | None = None,
        budget: Budget | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        if (limits is None) == (control is None):
            raise ContractError("an engine takes either limits or a control")
        self.runtime = runtime
        self.drafter = drafter
        self.control: Control = control or FixedControl(limits or Limits(max_nodes=0, max_depth=0))
        self.control.report_to(self._tell)
        self.budget = budget or Budget()
        self.listeners: list[Listener] = []
        self._clock = clock
        self._keys = itertools.count()
        self._n_passes = 0
        self._waiting: deque[Flight] = deque()
        self._running: dict[int, Flight] = {}

    def add(
        self,
        prompt: Seq[int],
        sampling: Sampling,
        *,
        seed: int,
        limits: Limits | None = None,
        stops: StopScan | None = None,
        mask: TokenMask | None = None,
        traced: bool = False,
        sink: Sink | None = None,
    ) -> Sequence:
        """Queue a request; it advances only when stepped.

        seed: used for the coins when the sampling has none. limits: in place of the control's.
        traced: its rounds keep their laws. sink: called with each of its rounds.

        Raises:
            RequestError: the request cannot be run; nothing was kept of it.
            CapacityError: the queue is full.
        """
        if len(self._waiting) >= self.budget.waiting:
            raise CapacityError(
                f"{len(self._waiting)} requests wait, as many as are allowed; try again later",
                retry_after_s=1.0,
            )
        sequence = self.request(prompt, sampling, seed=seed, stops=stops, mask=mask)
        self.queue(sequence, limits=limits, traced=traced, sink=sink)
        return sequence

    def request(
        self,
        prompt: Seq[int],
        sampling: Sampling,
        *,
        seed: int,
        stops: StopScan | None = None,
        mask: TokenMask | None = None,
    ) -> Sequence:
        """A request with a key, checked (RequestError), not queued; any thread may call this."""
        return Sequence(
            key=next(self._keys),
            prompt=prompt,
            sampling=sampling,
            seed=seed,
            traits=self.runtime.traits,
            stops=stops,
            mask=mask,
        )

    def queue(
        self,
        sequence: Sequence,
        *,
        limits: Limits | None = None,
        traced: bool = False,
        sink: Sink | None = None,
    ) -> None:
        """Queue a checked request, however many wait: whoever calls this keeps the bound."""
        self._waiting.append(Flight(sequence, limits, sink, traced))

    @property
    def idle(self) -> bool:
        """Whether no request is waiting or running."""
        return not self._waiting and not self._running

    @property
    def n_running(self) -> int:
        """Requests that hold memory."""
        return len(self._running)

    @property
    def n_waiting(self) -> int:
        """Requests that wait for memory or a place."""
        return len(self._waiting)

    def step(self) -> list[Round]:
        """One round for whoever the schedule picks; an idle engine does nothing.

        Raises:
            ContractError: a runtime or drafter broke its protocol.
        """
        self._admit()
        while self._running:
            standings = [
                Standing(key=k, behind=f.sequence.behind, last_pass=f.last_pass)
                for k, f in self._running.items()
            ]
            chosen = plan(standings, self.budget)
            for guess in (True, False):  # guesses give way before a sequence does
                try:
                    return self._pass(chosen, guess=guess)
                except CapacityError as error:
                    why = str(error)
            self._preempt(why)  # let in again by a later step, when there is room for all
        return []

    def abort(self, sequence: Sequence) -> None:
        """End a request, finished or not, and free what it held. Twice is fine."""
        flight = self._running.get(sequence.key)
        if flight is None:
            flight = next((f for f in self._waiting if f.sequence is sequence), None)
            if flight is None:
                return
            self._waiting.remove(flight)
        if sequence.finish is None:
            sequence.finish = "abort"
        self._retire(flight)

    def check_integrity(self) -> None:
        """When idle, the runtime must hold nothing of any request.

        Raises:
            ContractError: it does, or its books do not balance.
        """
        if not self.idle:
            raise ContractError(f"{self.n_running} running and {self.n_waiting} waiting: not idle")
        check = getattr(self.runtime, "check_integrity", None)
        if check is not None:
            check()

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self.budget.sequences:
            flight = self._waiting[0]
            sequence = flight.sequence
            n_known = self.runtime.open(sequence.key, sequence.may_be_known)
            spare = _HEADROOM_ROWS * len(self._running)  # so that letting one in evicts nobody
            try:
                self.runtime.reserve(sequence.key, len(sequence.tokens) - n_known + spare)
            except CapacityError as error:
                self.runtime.close(sequence.key)
                if self._running:
                    return  # room comes back when one of them ends
                self._waiting.popleft()
                self._refuse(flight, str(error))
                continue
            self._waiting.popleft()
            sequence.n_computed = n_known
            self._running[sequence.key] = flight
            if not flight.n_preempted:
                prompt = tuple(sequence.tokens)
                self.drafter.observe([Seen(key=sequence.key, start=0, tokens=prompt)])
            self._tell(Admitted(sequence, n_known))

    def _pass(self, chosen: Seq[tuple[int, int]], *, guess: bool) -> list[Round]:
        flights = [self._running[key] for key, _ in chosen]
        limits = (
            self._decide(flights, [rows for _, rows in chosen]) if guess else [_FULL] * len(flights)
        )
        turns = [
            Turn(
                sequence=flight.sequence,
                catch_up=rows,
                max_nodes=limit.max_nodes,
                max_depth=limit.max_depth,
                worth=limit.worth,
                reason=limit.reason,
                traced=flight.traced,
            )
            for flight, (_, rows), limit in zip(flights, chosen, limits, strict=True)
        ]
        began = self._clock()
        rounds = one_round(self.runtime, self.drafter, turns, self._clock)
        seconds = self._clock() - began
        self._n_passes += 1
        self.control.learn(rounds)
        self._tell(RoundsDone(tuple(rounds), seconds))
        for flight, done in zip(flights, rounds, strict=True):
            flight.last_pass = self._n_passes
            if flight.sink is not None:
                flight.sink(done)
            if done.finish is not None:
                self._retire(flight)
        return rounds

    def _decide(self, flights: Seq[Flight], rows: Seq[int]) -> list[Limits]:
        free = [i for i, flight in enumerate(flights) if flight.limits is None]
        views = [
            View(
                key=flights[i].sequence.key,
                style=flights[i].sequence.style,
                catch_up=rows[i],
                context_tokens=len(flights[i].sequence.tokens),
            )
            for i in free
        ]
        decided = dict(zip(free, self.control.decide(views), strict=True)) if views else {}
        return [flight.limits or decided[i] for i, flight in enumerate(flights)]

    def _preempt(self, why: str) -> None:
        """Take the memory of whoever came last; it will be recomputed from its own tokens."""
        flight = self._running[max(self._running)]
        sequence = flight.sequence
        self.runtime.close(sequence.key)
        del self._running[sequence.key]
        if not self._running:
            self._refuse(flight, why)
            return
        sequence.n_computed = 0
        flight.n_preempted += 1
        self._waiting.appendleft(flight)
        self._tell(Preempted(sequence, why))

    def _refuse(self, flight: Flight, why: str) -> None:
        """Even alone it does not fit: the request is too large for this runtime's memory."""
        sequence = flight.sequence
        sequence.error = RequestError(f"the request does not fit the model's memory alone: {why}")
        sequence.finish = "error"
        self._retire(flight)

    def _retire(self, flight: Flight) -> None:
        key = flight.sequence.key
        self.runtime.close(key)
        self.drafter.forget(key)
        self.control.forget(key)
        self._running.pop(key, None)
        self._tell(RequestDone(flight.sequence))

    def _tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)
