"""The Python API: a `Model` answers prompts; a `Generation` is one answer as it grows."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from typing import TypedDict, Unpack

from outpace.completion import Completion, Meter, promise
from outpace.control.limits import OFF, Control, Limits
from outpace.core.draft import Drafter
from outpace.core.repeat import Round
from outpace.core.sampling import Rule, Sampling
from outpace.core.score import Runtime
from outpace.core.sequence import Sequence
from outpace.engine.engine import Engine
from outpace.engine.service import Service
from outpace.engine.trace import TraceWriter
from outpace.errors import ConfigError, RequestError
from outpace.text.stream import StopWatch, TextStream
from outpace.text.template import ChatTemplate
from outpace.text.tokenizer import Tokenizer

Message = Mapping[str, object]
# A chat turn as text, a whole conversation, or token ids.
Prompt = str | Seq[Message] | Seq[int]
# A drafter's name, and limits in place of what a control would decide -> its control.
MakeControl = Callable[[str, Limits | None], Control]


class SamplingOptions(TypedDict, total=False):
    """The fields of `Sampling`, as keywords of `generate` and `stream`."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    banned: tuple[tuple[int, ...], ...]
    forced: tuple[int, ...]
    min_tokens: int
    max_tokens: int | None
    stop: tuple[str, ...]
    stop_token_ids: frozenset[int]
    ignore_eos: bool
    seed: int | None
    rule: Rule | None


class Model:
    """A target model with a drafter, ready to answer.

    Built by `outpace.load` or `outpace.wrap`. One generation advances at a time; several may be
    open. `close` frees the model's memory; a `with` block does it for you.
    """

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        drafter: Drafter,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        make_control: MakeControl,
        load_s: float = 0.0,
        make_drafter: Callable[[str], Drafter] | None = None,
    ) -> None:
        self.name = name
        self.runtime = runtime
        self.tokenizer = tokenizer
        self.template = template
        self.load_s = load_s
        self.engine = Engine(runtime, drafter, control=make_control(drafter.name, None))
        self._make_control, self._make_drafter = make_control, make_drafter
        self._service: Service | None = None

    @property
    def drafter(self) -> Drafter:
        """What guesses for this model."""
        return self.engine.drafter

    def encode(self, prompt: Prompt, *, raw: bool = False, system: str | None = None) -> list[int]:
        """Token ids of a prompt: through the chat template, or as plain text with raw=True.

        Raises:
            RequestError: an empty prompt, or no chat template where one is needed.
        """
        if isinstance(prompt, str):
            if not prompt:
                raise RequestError("the prompt is empty; give at least one character")
            if raw:
                return self.tokenizer.encode(prompt, special=True)
            turns: list[Message] = [{"role": "user", "content": prompt}]
            return self._encode_chat(turns, system)
        if all(isinstance(item, int) for item in prompt):
            return [int(item) for item in prompt if isinstance(item, int)]
        return self._encode_chat([turn for turn in prompt if isinstance(turn, Mapping)], system)

    def _encode_chat(self, turns: list[Message], system: str | None) -> list[int]:
        if self.template is None:
            raise RequestError(
                f"{self.name} has no chat template; pass raw=True (--raw) and write the whole "
                "prompt yourself"
            )
        if system is not None:
            turns = [{"role": "system", "content": system}, *turns]
        text = self.template.render(turns, add_generation_prompt=True)
        return self.tokenizer.encode(text, special=True)

    def start(
        self,
        prompt: Prompt,
        sampling: Sampling,
        *,
        raw: bool = False,
        system: str | None = None,
        limits: Limits | None = None,
        trace: TraceWriter | None = None,
    ) -> "Generation":
        """Begin an answer; iterate over it for text, then ask it for its `completion()`."""
        if self._service is not None and self._service.health().state in ("running", "draining"):
            raise RequestError(
                f"{self.name} is being served by a thread of its own; submit to that service, or "
                "shut it down first"
            )
        ids = self.encode(prompt, raw=raw, system=system)
        return Generation(self, ids, sampling, limits=limits, trace=trace)

    def generate(
        self,
        prompt: Prompt,
        *,
        raw: bool = False,
        system: str | None = None,
        speculate: bool = True,
        **options: Unpack[SamplingOptions],
    ) -> Completion:
        """Answer a prompt. Options are the fields of `outpace.Sampling`.

        speculate: False decodes plainly; the text (or its law) is the same.

        Raises:
            RequestError: this request cannot be run; the model is unharmed.
        """
        limits = None if speculate else OFF
        generation = self.start(prompt, Sampling(**options), raw=raw, system=system, limits=limits)
        for _ in generation:
            pass
        return generation.completion()

    def stream(
        self,
        prompt: Prompt,
        *,
        raw: bool = False,
        system: str | None = None,
        speculate: bool = True,
        **options: Unpack[SamplingOptions],
    ) -> Iterator[str]:
        """Like `generate`, but yields the text piece by piece, in whole characters."""
        limits = None if speculate else OFF
        yield from self.start(prompt, Sampling(**options), raw=raw, system=system, limits=limits)

    def engine_with(self, drafter: str, limits: Limits | None = None) -> Engine:
        """Another engine on these weights, for comparisons: its drafter is new, and what was
        computed for earlier texts is forgotten. One engine may be at work at a time."""
        if self._make_drafter is None:
            raise ConfigError(f"{self.name} was made without a way to make drafters")
        getattr(self.runtime, "forget_beginnings", lambda: None)()
        return Engine(
            self.runtime,
            self._make_drafter(drafter),
            control=self._make_control(drafter, limits),
        )

    def serve(self, *, check_when_idle: bool = False) -> Service:
        """Put the engine on a thread of its own: many requests at once, from any thread or loop.

        Until that service is shut down the engine is its alone, and `start` refuses. The service
        takes token ids (`encode`) and gives them; `TextStream` and `StopWatch` are its text.
        """
        if self._service is None or self._service.health().state in ("stopped", "dead"):
            self._service = Service(self.engine, check_when_idle=check_when_idle)
        return self._service

    def close(self) -> None:
        """Free the model. Generations still open end."""
        if self._service is not None:
            self._service.shutdown(0.0)
        close = getattr(self.runtime, "shutdown", None)
        if close is not None:
            close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Generation:
    """One answer as it grows: an iterator of text pieces. `close` it to stop early."""

    def __init__(
        self,
        model: Model,
        prompt_ids: list[int],
        sampling: Sampling,
        *,
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
