"""The Python API: a `Model` answers prompts; a `Generation` is one answer as it grows."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, TypedDict, Unpack

from outpace.completion import Completion
from outpace.control.limits import OFF, Control, Limits
from outpace.core.draft import Drafter
from outpace.core.sampling import Rule, Sampling
from outpace.core.score import Runtime
from outpace.engine.engine import Engine
from outpace.engine.service import Service
from outpace.engine.trace import TraceWriter
from outpace.errors import ConfigError, RequestError
from outpace.generation import Generation
from outpace.text.grammar.spec import GrammarSpec
from outpace.text.template import ChatTemplate
from outpace.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from outpace.text.grammar.compile import Grammars

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
        self._grammars: Grammars | None = None

    @property
    def drafter(self) -> Drafter:
        """What guesses for this model."""
        return self.engine.drafter

    @property
    def grammars(self) -> "Grammars":
        """Makes masks for structured outputs; `mask` may take long, and any thread may call it."""
        if self._grammars is None:
            from outpace.text.grammar.compile import Grammars

            traits = self.runtime.traits
            self._grammars = Grammars(
                self.tokenizer, vocab_size=traits.vocab_size, eos_ids=traits.eos_ids
            )
        return self._grammars

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
        grammar: GrammarSpec | None = None,
        limits: Limits | None = None,
        trace: TraceWriter | None = None,
    ) -> Generation:
        """Begin an answer; iterate over it for text, then ask it for its `completion()`.

        grammar: what the answer must be (`outpace.text.grammar.spec`).
        """
        if self._service is not None and self._service.health().state in ("running", "draining"):
            raise RequestError(
                f"{self.name} is being served by a thread of its own; submit to that service, or "
                "shut it down first"
            )
        ids = self.encode(prompt, raw=raw, system=system)
        mask = None
        if grammar is not None:
            mask = self.grammars.mask(grammar, stop_token_ids=sampling.stop_token_ids)
        return Generation(self, ids, sampling, mask=mask, limits=limits, trace=trace)

    def generate(
        self,
        prompt: Prompt,
        *,
        raw: bool = False,
        system: str | None = None,
        grammar: GrammarSpec | None = None,
        speculate: bool = True,
        **options: Unpack[SamplingOptions],
    ) -> Completion:
        """Answer a prompt. Options are the fields of `outpace.Sampling`.

        grammar: what the answer must be (`outpace.text.grammar.spec`). speculate: False decodes
        plainly; the text (or its law) is the same.

        Raises:
            RequestError: this request cannot be run; the model is unharmed.
        """
        limits = None if speculate else OFF
        generation = self.start(
            prompt, Sampling(**options), raw=raw, system=system, grammar=grammar, limits=limits
        )
        for _ in generation:
            pass
        return generation.completion()

    def stream(
        self,
        prompt: Prompt,
        *,
        raw: bool = False,
        system: str | None = None,
        grammar: GrammarSpec | None = None,
        speculate: bool = True,
        **options: Unpack[SamplingOptions],
    ) -> Iterator[str]:
        """Like `generate`, but yields the text piece by piece, in whole characters."""
        limits = None if speculate else OFF
        yield from self.start(
            prompt, Sampling(**options), raw=raw, system=system, grammar=grammar, limits=limits
        )

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
