"""One request as its reader sees it: a `Box` the engine's thread fills, a `Stream` that empties it.

A reader may be slow, gone, or in any event loop, and the engine must never wait for it. So a box
keeps ids, times and counts, never rounds, laws or text: what it holds is bounded by the answer's
length, and turning ids into text is the reader's own time. Dropping a stream ends its request.
"""

import asyncio
import threading
from array import array
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from outpace.completion import Meter
from outpace.core.repeat import Clock, Round
from outpace.core.sequence import Finish, Sequence
from outpace.errors import CapacityError, ContractError, OutpaceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Tokens that came since the last chunk; with `finish`, the answer is complete."""

    tokens: tuple[int, ...]
    finish: Finish | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When things happened, in the service's clock; None = never.

    chunks_s, chunk_tokens: when each round's tokens were there, and how many.
    """

    submitted_s: float
    admitted_s: float | None
    ended_s: float | None
    chunks_s: tuple[float, ...]
    chunk_tokens: tuple[int, ...]


class Box:
    """The engine's side of a stream. `put`, `admitted` and `end` are its thread's alone."""

    def __init__(self, sequence: Sequence, clock: Clock) -> None:
        self.sequence = sequence
        self.meter = Meter()
        self.finish: Finish | None = None
        self.error: OutpaceError | None = None
        self.ended = threading.Event()
        self.cut_off = False  # ended by the service and not by itself or its reader
        self._clock = clock
        self._submitted_s = clock()
        self._admitted_s: float | None = None
        self._ended_s: float | None = None
        self._chunks_s, self._chunk_tokens = array("d"), array("l")
        self._n_ready = 0
        self._changed = threading.Condition()
        self._ring: Callable[[], None] | None = None
        self._ring_at_end = False

    def admitted(self) -> float:
        """The request got memory; returns how long it waited. Later admissions do not count."""
        if self._admitted_s is not None:
            return 0.0
        self._admitted_s = self._clock()
        return self._admitted_s - self._submitted_s

    def put(self, done: Round) -> None:
        """One round of this request."""
        with self._changed:
            self.meter.add(done)
            if not done.emitted:
                return
            self._chunks_s.append(self._clock())
            self._chunk_tokens.append(len(done.emitted))
            self._n_ready += len(done.emitted)
        self._notify()

    def end(self, finish: Finish, error: OutpaceError | None) -> None:
        """Nothing will follow. The first end counts."""
        with self._changed:
            if self.finish is not None:
                return
            self._ended_s = self._clock()
            self.finish, self.error = finish, error
        self.ended.set()
        self._notify()

    def take(self, since: int) -> Chunk | None:
        """Everything after the first `since` tokens; None if nothing new is known."""
        with self._changed:
            if self._n_ready == since and self.finish is None:
                return None
            tokens = tuple(self.sequence.output[since : self._n_ready])
            return Chunk(tokens=tokens, finish=self.finish)

    def wait(self, since: int, timeout_s: float | None) -> bool:
        """Block until there is something after `since`; False = the time is over."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._n_ready > since or self.finish is not None, timeout_s
            )

    def call_on_news(self, ring: Callable[[], None], since: int | None) -> bool:
        """Call `ring` from the engine's thread at any news until the next `ring` takes its place.

        since: tokens that are none; None = only the end is.
        Returns False, and never calls, if news is there already.
        """
        with self._changed:
            if self.finish is not None or (since is not None and self._n_ready > since):
                return False
            self._ring, self._ring_at_end = ring, since is None
            return True

    def times(self) -> Times:
        """A consistent copy of the times so far."""
        with self._changed:
            return Times(
                submitted_s=self._submitted_s,
                admitted_s=self._admitted_s,
                ended_s=self._ended_s,
                chunks_s=tuple(self._chunks_s),
                chunk_tokens=tuple(self._chunk_tokens),
            )

    def _notify(self) -> None:
        with self._changed:
            ring = self._ring if self.finish is not None or not self._ring_at_end else None
            if self.finish is not None:
                self._ring = None
            self._changed.notify_all()
        if ring is not None:
            ring()


class Stream:
    """One answer as it comes: iterate for chunks, with `for` or with `async for`; one reader.

    A stream that is closed, left early or no longer referenced ends its request. Iterating raises
    the request's error after its last tokens: RequestError if it turned out impossible,
    ContractError if the engine died.
    """

    def __init__(self, box: Box, abort: Callable[[Box], None]) -> None:
        self._box = box
        self._abort = abort
        self._n_read = 0

    def __iter__(self) -> Iterator[Chunk]:
        try:
            while True:
                self._box.wait(self._n_read, None)
                chunk = self._next()
                if chunk is None:
                    continue
                yield chunk
                if chunk.finish is not None:
                    return
        finally:
            self.close()

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        try:
            while True:
                chunk = self._next()
                if chunk is None:
                    await self._news(self._n_read)
                    continue
                yield chunk
                if chunk.finish is not None:
                    return
        finally:
            self.close()

    def read(self, timeout_s: float | None = None) -> Chunk | None:
        """The next chunk; None when timeout_s passed without one."""
        self._box.wait(self._n_read, timeout_s)
        return self._next()

    def wait(self, timeout_s: float | None = None) -> Finish:
        """Block until the answer is complete, whatever was read of it; wakes once.

        Raises:
            CapacityError: it is not, after timeout_s.
            OutpaceError: the request's own error.
        """
        if not self._box.ended.wait(timeout_s):
            raise CapacityError(f"no answer within {timeout_s} s; wait longer, or close the stream")
        finish, error = self._box.finish, self._box.error
        if error is not None:
            raise error
        if finish is None:
            raise ContractError("an ended stream has no finish")
        return finish

    async def ended(self) -> None:
        """Return once the answer is complete, whatever was read of it; wakes once."""
        await self._news(None)

    def close(self) -> None:
        """End the request if it runs still; never blocks, and twice is fine."""
        if self._box.finish is None:
            self._abort(self._box)

    def __del__(self) -> None:
        self.close()

    @property
    def sequence(self) -> Sequence:
        """The request; read only. Its output may be ahead of what was read here."""
        return self._box.sequence

    @property
    def finish(self) -> Finish | None:
        """How the answer ended, None while it runs."""
        return self._box.finish

    @property
    def meter(self) -> Meter:
        """Counts of its rounds; complete once `finish` is set."""
        return self._box.meter

    @property
    def times(self) -> Times:
        """When it was submitted and admitted, and when each chunk was there."""
        return self._box.times()

    def _next(self) -> Chunk | None:
        chunk = self._box.take(self._n_read)
        if chunk is None:
            return None
        self._n_read += len(chunk.tokens)
        if chunk.finish is not None and not chunk.tokens and self._box.error is not None:
            raise self._box.error
        if chunk.tokens and self._box.error is not None:
            return Chunk(tokens=chunk.tokens, finish=None)  # the error is raised next
        return chunk

    async def _news(self, since: int | None) -> None:
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()
        box, abort = self._box, self._abort
        rung = False

        def ring() -> None:
            nonlocal rung
            try:
                if not rung:
                    loop.call_soon_threadsafe(_resolve, news)
                    rung = True
                gone = loop.is_closed()  # perhaps between the ring and the reader's waking
            except RuntimeError:
                gone = True
            if gone:  # nobody will read on
                abort(box)

        if box.call_on_news(ring, since):
            await news


def _resolve(news: "asyncio.Future[None]") -> None:
    if not news.done():
        news.set_result(None)
