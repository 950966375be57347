"""Open loops: requests are sent when they are due, whether or not earlier ones were answered.

A closed loop waits for the server, and so hides how late it would have been. Here every time
counts from the scheduled arrival.
"""

import threading
import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from pathlib import Path

from outpace.bench.arrivals import Arrival, Closed, Load, Open, by_length, poisson, replay
from outpace.bench.client import Answer
from outpace.core.sampling import Sampling as Request
from outpace.evaluate.arms.arm import OpenArm
from outpace.evaluate.measure.schedule import Ask
from outpace.evaluate.plan.load import Concurrent, Replay, Scenario, Synchronous, Timed


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A request of a scenario. at_s: after the start; None = as soon as a stream is free."""

    ask: Ask
    sampling: Request
    at_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request that ended. due_s: in the clock of `time.perf_counter`."""

    due: Due
    order: int
    due_s: float
    answer: Answer


def load_of(scenario: Scenario, *, seed: int, base: Callable[[str], Path]) -> Load:
    """The arrivals of a scenario. base: a trace's name -> its path."""
    match scenario:
        case Synchronous():
            return Closed(streams=1)
        case Concurrent():
            return Closed(streams=scenario.streams)
        case Timed() if scenario.profile == "poisson":
            return poisson(scenario.min_requests, rate_per_s=scenario.rate_per_s, seed=seed)
        case Timed():
            arrivals = tuple(
                Arrival(at_s=i / scenario.rate_per_s) for i in range(scenario.min_requests)
            )
            return Open(label=f"constant:{scenario.rate_per_s:g}", arrivals=arrivals)
        case Replay():
            return replay(
                base(scenario.trace),
                time_unit=scenario.time_unit, time_scale=scenario.time_scale,
                most=scenario.max_requests,
            )  # fmt: skip


def requests_of(
    scenario: Scenario, load: Load, asks: Seq[tuple[Ask, Request]], lengths: Seq[int]
) -> list[Due]:
    """What is sent: prompts in turn, or of about the length that a trace asks for."""
    if isinstance(load, Closed):
        n = getattr(scenario, "requests", None) or len(asks)
        return [
            Due(ask=asks[i % len(asks)][0], sampling=asks[i % len(asks)][1], at_s=None)
            for i in range(n)
        ]
    found: list[Due] = []
    for arrival, place in zip(load.arrivals, by_length(load.arrivals, lengths), strict=True):
        ask, sampling = asks[place]
        if arrival.generated_tokens is not None:
            sampling = replace(sampling, max_tokens=arrival.generated_tokens, ignore_eos=True)
        found.append(Due(ask=ask, sampling=sampling, at_s=arrival.at_s))
    return found


def send(
    arm: OpenArm, dues: Seq[Due], *, streams: int, keep: Callable[[Sent], None]
) -> tuple[float, float]:
    """Send everything; returns when it began, and how long until the last answer.

    streams: of a closed loop. keep: told of each answer, one at a time.
    """
    work = _Sending(arm, dues, keep)
    threads: list[threading.Thread] = []
    if dues and dues[0].at_s is None:
        threads = [work.thread(work.stream) for _ in range(streams)]
    else:
        for order, due in enumerate(dues):
            wait_s = work.began_s + (due.at_s or 0.0) - time.perf_counter()
            if work.stopped.wait(max(0.0, wait_s)):
                break
            threads.append(work.thread(work.ask, order, due))
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        work.stopped.set()
        raise
    if work.failure is not None:
        raise work.failure
    return work.began_s, time.perf_counter() - work.began_s


class _Sending:
    """What the threads of one scenario share."""

    def __init__(self, arm: OpenArm, dues: Seq[Due], keep: Callable[[Sent], None]) -> None:
        self.stopped = threading.Event()
        self.failure: BaseException | None = None
        self.began_s = time.perf_counter()
        self._arm, self._keep = arm, keep
        self._left = iter(enumerate(dues))
        self._lock = threading.Lock()

    def thread(self, target: Callable[..., None], *args: object) -> threading.Thread:
        """A thread whose failure is that of the whole."""

        def guarded() -> None:
            try:
                target(*args)
            except BaseException as error:  # raised again by the thread that waits
                self.failure = self.failure or error
                self.stopped.set()

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def stream(self) -> None:
        """One stream of a closed loop."""
        while not self.stopped.is_set():
            with self._lock:
                following = next(self._left, None)
            if following is None:
                return
            self.ask(*following)

    def ask(self, order: int, due: Due) -> None:
        """One request; turns after the first are left to closed blocks."""
        due_s = time.perf_counter() if due.at_s is None else self.began_s + due.at_s
        answer = self._arm.ask(due.ask.question.messages, due.sampling, want_text=True)
        if not self.stopped.is_set():
            with self._lock:
                self._keep(Sent(due=due, order=order, due_s=due_s, answer=answer))
