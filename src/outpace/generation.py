"""One answer as it grows: pieces of text while the engine writes, and what it cost at the end."""

import secrets
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from outpace.completion import Completion, Meter, promise
from outpace.control.limits import Limits
from outpace.core.law import TokenMask
from outpace.core.repeat import Round
from outpace.core.sampling import Sampling
from outpace.core.sequence import Sequence
from outpace.engine.trace import TraceWriter
from outpace.text.stream import StopWatch, TextStream

if TYPE_CHECKING:
    from outpace.api import Model


class Generation:
    """One answer as it grows: an iterator of text pieces. `close` it to stop early."""

    def __init__(
        self,
        model: "Model",
        prompt_ids: list[int],
        sampling: Sampling,
        *,
        mask: TokenMask | None,
        limits: Limits | None,
        trace: TraceWriter | None,
    ) -> None:
        self._model = model
        self._meter = Meter(load_s=model.load_s)
        self._trace = trace
        self._text: list[str] = []
        self._fresh: list[str] = []
        self._n_rounds = 0
        self._stream = TextStream(model.tokenizer, stop=sampling.stop)
        self._total_s = 0.0
        self._guesses = limits is None or limits.max_nodes > 0
        self.sequence: Sequence = model.engine.add(
            prompt_ids,
            sampling,
            seed=secrets.randbits(63),
            limits=limits,
            stops=StopWatch(model.tokenizer, sampling.stop) if sampling.stop else None,
            mask=mask,
            traced=trace is not None,
            sink=self._take,
        )

    def __iter__(self) -> Iterator[str]:
        try:
            while self.sequence.finish is None or self._fresh:
                piece = self._step()
                if piece:
                    yield piece
        finally:
            self.close()

    def _step(self) -> str:
        """Advance the engine (and every answer open on it) until this one has news."""
        began = time.perf_counter()
        n_before = self._n_rounds
        while self._n_rounds == n_before and self.sequence.finish is None:
            self._model.engine.step()
        pieces, self._fresh = "".join(self._fresh), []
        self._total_s += time.perf_counter() - began
        if self.sequence.error is not None:
            raise self.sequence.error
        return pieces

    def _take(self, done: Round) -> None:
        """The engine's word of one round; may come while another answer is being read."""
        self._n_rounds += 1
        self._meter.add(done)
        if self._trace is not None:
            self._trace.round(done)
        piece = self._stream.push(done.emitted)
        if done.finish is not None:
            piece += self._stream.flush()
        self._text.append(piece)
        self._fresh.append(piece)

    def close(self) -> None:
        """Stop here and free what the answer held; what was written stays."""
        self._text.append(self._stream.flush())
        self._model.engine.abort(self.sequence)
        if self._trace is not None:
            self._trace.end(self.sequence)

    @property
    def text(self) -> str:
        """The text so far, in whole characters."""
        return "".join(self._text)

    def completion(self) -> Completion:
        """What was written so far, and what it cost."""
        seq, model = self.sequence, self._model
        return Completion(
            text=self.text,
            token_ids=tuple(seq.output),
            finish_reason=seq.finish or "abort",
            prompt_tokens=seq.n_prompt,
            model=model.name,
            runtime=model.runtime.traits.name,
            drafter=model.drafter.name if self._guesses else "none",
            rule=self._meter.rule(),
            seed=seq.seed,
            promise=promise(
                same_text=seq.sampling.same_text,
                row_invariant=model.runtime.traits.row_invariant,
            ),
            stats=self._meter.stats(self._total_s),
        )
