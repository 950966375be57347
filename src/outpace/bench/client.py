"""Whom a benchmark asks: anything that answers one request at a time per thread.

`Client.ask` blocks until the answer is complete and says when each part of it was there. The one
client here asks an engine in this process. A client of an HTTP server fits the same waist: it
reports what the server's usage and stream say, and None for what they do not.
"""

import hashlib
import time
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from pydantic import JsonValue

from outpace.api import Model
from outpace.core.sampling import Sampling
from outpace.engine.service import Service
from outpace.errors import ContractError, OutpaceError
from outpace.text.stream import StopWatch, TextStream

Messages = Seq[Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Guesses of one answer. lengths: (guesses on the longest path, kept, rounds) each."""

    rounds: int
    drafted: int
    kept: int
    lengths: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one request; times in the clock of `time.perf_counter`.

    completion_tokens: by the one who answered, never re-tokenised text. chunks_s, chunk_tokens:
    when parts were there and how long they were. speculation: None where nobody said. digest:
    equal for equal answers. text: only where it was asked for. tokens, logprobs: the answer's ids
    and the log-probabilities of them, where they are known. counted_by: who counted the tokens;
    the client does only where nobody else did. reported: what was said of this request besides.
    """

    sent_s: float
    ended_s: float
    finish: str
    error: str | None
    prompt_tokens: int
    completion_tokens: int
    chunks_s: tuple[float, ...]
    chunk_tokens: tuple[int, ...]
    speculation: Speculation | None
    digest: str
    text: str
    tokens: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    counted_by: Literal["engine", "server", "client"] = "engine"
    reported: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the answer came to an end of its own."""
        return self.error is None and self.finish != "abort"


class Client(Protocol):
    """Answers requests; called from many threads at once."""

    def ask(self, messages: Messages, sampling: Sampling, *, want_text: bool = False) -> Answer:
        """Send one request and wait for all of its answer; errors are answers too."""


@runtime_checkable
class Counting(Protocol):
    """A client whose server counts, for everybody it serves."""

    def counted(self) -> Mapping[str, float] | None:
        """`tokens`, `drafted` and `kept` so far, as far as they are told; None = nothing is."""


def guessed_between(
    before: Mapping[str, float] | None, after: Mapping[str, float] | None
) -> Speculation | None:
    """What was guessed meanwhile; counters that appear with the first guess began at 0."""
    if before is None or after is None or not {"tokens", "drafted", "kept"} <= set(after):
        return None
    grown = {name: round(after[name] - before.get(name, 0.0)) for name in after}
    return Speculation(
        rounds=max(grown["tokens"] - grown["kept"], 0),
        drafted=grown["drafted"],
        kept=grown["kept"],
        lengths=(),
    )


class InProcess:
    """Asks a model's service. Models without a chat template get the messages' bare text.

    Times are those of the engine's thread: when tokens were there for a reader, whether or not
    one was awake, so that measuring costs the engine no switches between threads.
    """

    def __init__(self, model: Model, service: Service) -> None:
        self._model = model
        self._service = service

    def ask(self, messages: Messages, sampling: Sampling, *, want_text: bool = False) -> Answer:
        sent_s = time.perf_counter()
        model, tokenizer = self._model, self._model.tokenizer
        try:
            ids = encode(model, messages)
            stops = StopWatch(tokenizer, sampling.stop) if sampling.stop else None
            stream = self._service.submit(ids, sampling, stops=stops)
        except ContractError:
            raise  # a bug is no measurement
        except OutpaceError as error:
            return failed(sent_s, error)
        problem: str | None = None
        try:
            stream.wait()
        except ContractError:
            raise
        except OutpaceError as error:
            problem = str(error)
        sequence, meter, times = stream.sequence, stream.meter, stream.times
        text = ""
        if want_text:
            shown = TextStream(tokenizer, sampling.stop)
            text = shown.push(sequence.output) + shown.flush()
        return Answer(
            sent_s=sent_s,
            ended_s=times.ended_s or sent_s,
            finish=stream.finish or "error",
            error=problem,
            prompt_tokens=sequence.n_prompt,
            completion_tokens=len(sequence.output),
            chunks_s=times.chunks_s,
            chunk_tokens=times.chunk_tokens,
            speculation=Speculation(
                rounds=meter.rounds,
                drafted=meter.drafted,
                kept=meter.kept,
                lengths=tuple((depth, kept, n) for (depth, kept), n in meter.lengths.items()),
            ),
            digest=hashlib.sha256(repr(sequence.output).encode()).hexdigest()[:16],
            text=text,
            tokens=tuple(sequence.output),
            logprobs=tuple(found.logprob for found in sequence.logprobs) or None,
        )


def encode(model: Model, messages: Messages) -> list[int]:
    """Token ids of a conversation, or of its bare text where there is no chat template."""
    if model.template is None:
        return model.encode("\n\n".join(message["content"] for message in messages), raw=True)
    return model.encode(list(messages))


def failed(sent_s: float, error: Exception) -> Answer:
    """The answer of a request that was refused."""
    return Answer(
        sent_s=sent_s,
        ended_s=time.perf_counter(),
        finish="error",
        error=str(error),
        prompt_tokens=0,
        completion_tokens=0,
        chunks_s=(),
        chunk_tokens=(),
        speculation=None,
        digest="",
        text="",
    )
