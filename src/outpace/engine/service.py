"""The engine on a thread of its own: submit from anywhere, read in any thread or event loop.

One thread owns the engine and is the only one to touch it; everyone else puts calls into its
inbox, which it empties between passes. Idle, it sleeps in the inbox, so a submit wakes it at once
and nothing spins. Readers have a `Stream` each and cannot slow it (`stream.py`).

Every accepted request gets its answer: its end, its error, "abort" at the deadline of a shutdown,
or, should the engine's thread die of a bug, a ContractError that names it. A dead service refuses
everything and `health` says so; it is not mended in place, since nobody knows what is broken.
"""

import atexit
import secrets
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Literal

from outpace.control.limits import Limits
from outpace.core.law import TokenMask
from outpace.core.repeat import Clock, Round
from outpace.core.sampling import Sampling
from outpace.core.sequence import StopScan
from outpace.engine.engine import Engine, Sink
from outpace.engine.gauge import Gauge, ServiceStats
from outpace.engine.stream import Box, Stream
from outpace.errors import CapacityError, ContractError
from outpace.events import Admitted, Event, RequestDone

State = Literal["running", "draining", "stopped", "dead"]
DRAIN_S = 30.0
# How long a pass may go on after the deadline before its answers are given up.
_LAST_PASS_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether requests are taken, and why not. Only a running service takes any."""

    state: State
    reason: str = ""


class Service:
    """Runs an engine in a thread, from birth to `shutdown`. A `with` block drains it at the end.

    check_when_idle: verify the runtime's books each time nothing is left to do (tests, soaks).
    While it runs, the engine is the service's alone.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        check_when_idle: bool = False,
        name: str = "outpace-engine",
        clock: Clock = time.perf_counter,
    ) -> None:
        self.engine = engine
        self._gauge = Gauge(clock)
        self._clock = clock
        self._check_when_idle = check_when_idle
        # put() of a SimpleQueue is reentrant: a stream may be finalized in the middle of one.
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._health = Health(state="running")
        self._deadline_s = float("inf")
        self._boxes: dict[int, Box] = {}
        engine.listeners.append(self._listen)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        atexit.register(self.shutdown, 0.0)

    def submit(
        self,
        prompt: Seq[int],
        sampling: Sampling,
        *,
        seed: int | None = None,
        limits: Limits | None = None,
        stops: StopScan | None = None,
        mask: TokenMask | None = None,
        traced: bool = False,
        sink: Sink | None = None,
    ) -> Stream:
        """Queue a request, from any thread; never waits for a pass.

        seed: for the coins where the sampling has none. limits: in place of the control's. sink:
        told of each of its rounds before their tokens can be read. The scan, the mask and the
        sink are called on the engine's thread.

        Raises:
            RequestError: the request cannot be run.
            CapacityError: as many requests are open as are allowed (with a hint when to come
                back), or the service is shutting down.
            ContractError: the service is dead.
        """
        self._refuse_unless_running()
        sequence = self.engine.request(
            prompt,
            sampling,
            seed=secrets.randbits(63) if seed is None else seed,
            stops=stops,
            mask=mask,
        )
        box = Box(sequence, self._clock)
        with self._lock:
            self._refuse_unless_running()
            budget = self.engine.budget
            if len(self._boxes) >= budget.sequences + budget.waiting:
                hint_s = self._gauge.retry_after_s()
                raise CapacityError(
                    f"{len(self._boxes)} requests are open, as many as are allowed "
                    f"({budget.sequences} running, {budget.waiting} waiting); "
                    f"try again in {hint_s:.2g} s",
                    retry_after_s=hint_s,
                )
            self._boxes[sequence.key] = box
            # Inside the lock, so that no call can follow the one that says "stop".
            self._inbox.put(partial(self._queue, box, limits, sink, traced=traced))
        return Stream(box, self._ask_abort)

    def health(self) -> Health:
        """The state, and what led to it."""
        return self._health

    def stats(self) -> ServiceStats:
        """Counts since the start and the speed of the last seconds."""
        running = self.engine.n_running
        return self._gauge.snapshot(running=running, waiting=max(0, len(self._boxes) - running))

    def shutdown(self, deadline_s: float = DRAIN_S) -> bool:
        """Take no more requests, finish those accepted; after deadline_s abort what is left.

        Blocks until the thread has ended; True if every request came to its own end.
        """
        with self._lock:
            if self._health.state == "running":
                self._health = Health(state="draining", reason="the service is shutting down")
            self._deadline_s = min(self._deadline_s, self._clock() + deadline_s)
            accepted = list(self._boxes.values())
            self._inbox.put(self._nothing)
        self._thread.join(deadline_s + _LAST_PASS_S)
        if self._thread.is_alive():
            self._die(TimeoutError(f"a pass did not end within {_LAST_PASS_S:g} s"))
        atexit.unregister(self.shutdown)
        return not any(box.cut_off for box in accepted)

    def __enter__(self) -> "Service":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.shutdown(DRAIN_S if kind is None else 0.0)

    def _refuse_unless_running(self) -> None:
        health = self._health
        if health.state == "dead":
            raise ContractError(f"{health.reason}; restart the service")
        if health.state != "running":
            raise CapacityError("the service is shutting down; send the request elsewhere")

    # From here on: the engine's thread.

    def _run(self) -> None:
        try:
            while self._obey():
                self.engine.step()
                if self._clock() > self._deadline_s:
                    self._abort_all()
        except BaseException as error:  # whatever it is, nobody may wait for ever
            self._die(error)
        else:
            with self._lock:
                if self._health.state != "dead":
                    self._health = Health(state="stopped", reason="the service was shut down")
        finally:
            self.engine.listeners.remove(self._listen)

    def _obey(self) -> bool:
        """Do what the inbox asks, sleeping in it while idle; False = nothing is left to be done."""
        checked = False
        while True:
            try:
                call = self._inbox.get_nowait()
            except Empty:
                if not self.engine.idle:
                    return True
                if self._health.state != "running":
                    return False
                if self._check_when_idle and not checked:
                    self.engine.check_integrity()
                    checked = True
                    continue  # what came meanwhile goes first
                call = self._inbox.get()
            call()
            checked = False

    def _queue(self, box: Box, limits: Limits | None, sink: Sink | None, *, traced: bool) -> None:
        if box.finish is None:
            put = box.put if sink is None else _one_after_the_other(sink, box.put)
            self.engine.queue(box.sequence, limits=limits, traced=traced, sink=put)

    def _ask_abort(self, box: Box) -> None:
        """From any thread, a finalizer included."""
        self._inbox.put(partial(self._abort, box))

    def _abort(self, box: Box) -> None:
        self.engine.abort(box.sequence)

    def _abort_all(self) -> None:
        for box in list(self._boxes.values()):
            box.cut_off = True
            self.engine.abort(box.sequence)

    def _nothing(self) -> None:
        """A call that only wakes the thread."""

    def _listen(self, event: Event) -> None:
        self._gauge.listen(event)
        if isinstance(event, Admitted):
            box = self._boxes.get(event.sequence.key)
            if box is not None:
                self._gauge.waited(box.admitted())
        elif isinstance(event, RequestDone):
            with self._lock:
                box = self._boxes.pop(event.sequence.key, None)
            if box is not None:
                box.end(event.sequence.finish or "abort", event.sequence.error)

    def _die(self, error: BaseException) -> None:
        reason = f"the engine died of {type(error).__name__}: {error}"
        with self._lock:
            self._health = Health(state="dead", reason=reason)
            boxes, self._boxes = self._boxes, {}
        for box in boxes.values():
            box.cut_off = True
            death = ContractError(f"{reason}; this request was not finished")
            death.__cause__ = error
            box.end("error", death)


def _one_after_the_other(first: Sink, then: Sink) -> Sink:
    def both(done: Round) -> None:
        first(done)
        then(done)

    return both
