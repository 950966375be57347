"""Phase 1, corpus: the target writes user turns and answers them, many at once.

Every document is a function of the corpus seed and its number: the native runtime's rows do not
depend on their company, so neither batch nor interruption changes a text. Finished documents are
appended to a journal; whoever continues skips those it holds.
"""

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from pathlib import Path

from outpace.api import Model
from outpace.control.limits import OFF
from outpace.core.sampling import Sampling
from outpace.core.sequence import Sequence
from outpace.errors import PromptTooLong
from outpace.journal import Journal
from outpace.train.corpus.documents import Document, Sieve, loops, read_documents
from outpace.train.corpus.prompts import Brief, SeedText, Words, brief, given, prompt_hash

STREAMS = 64
_MARK = "\u2402\u2403"
# Of the user turns that the target grows.
USER_TEMPERATURE = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusPlan:
    """What is written. The documents depend on all of it but the numbers of tokens.

    seed: of the whole corpus. n_tokens: prompts and answers kept at least. max_answer: most
    tokens of a usual answer. prompts: the user's own, in place of turns the target writes.
    excluded: hashes of prompts that must not enter (`prompt_hash`).
    """

    seed: int
    n_tokens: int
    seeds: Seq[SeedText]
    max_answer: int = 256
    prompts: Seq[str] = ()
    excluded: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Flight:
    """A document being written: its user turn first, then its answer."""

    brief: Brief
    sequence: Sequence
    prompt: list[int] = field(default_factory=list)  # of the answer; empty before


class Scribe:
    """Lets a model write documents, from one number on, in as many streams as are allowed."""

    def __init__(self, model: Model, plan: CorpusPlan, *, streams: int = STREAMS) -> None:
        self._model, self._plan, self._streams = model, plan, streams
        self._engine = model.engine_with("none", OFF)
        self._words = Words.of(model.tokenizer.vocabulary())
        self._flights: dict[int, _Flight] = {}

    def write(self, numbers: Iterator[int]) -> Iterator[Document]:
        """Documents of these numbers, as they are finished."""
        while True:
            while len(self._flights) < self._streams:
                number = next(numbers, None)
                if number is None:
                    break
                refused = self._begin(number)
                if refused is not None:
                    yield refused
            if not self._flights:
                return
            for done in self._engine.step():
                if done.finish is not None:
                    ended = self._end(self._flights.pop(done.turn.sequence.key))
                    if ended is not None:
                        yield ended

    def close(self) -> None:
        """Give up what is unfinished."""
        for flight in self._flights.values():
            self._engine.abort(flight.sequence)
        self._flights.clear()

    def _begin(self, number: int) -> Document | None:
        plan = self._plan
        if plan.prompts:
            task = given(plan.seed, number, plan.prompts)
        else:
            task = brief(plan.seed, number, plan.seeds, self._words)
        if not task.grow:
            return self._answer(task, task.start)
        tokens = self._opening(task.start)
        sampling = Sampling(temperature=USER_TEMPERATURE, max_tokens=task.grow, seed=task.seed)
        self._queue(_Flight(task, self._sequence(tokens, sampling, task)))
        return None

    def _end(self, flight: _Flight) -> Document | None:
        task, sequence = flight.brief, flight.sequence
        if sequence.error is not None:
            return _dropped(task, "refused")
        if flight.prompt:
            return Document(
                number=task.number,
                kind=task.kind,
                temperature=task.temperature,
                prompt=tuple(flight.prompt),
                answer=tuple(sequence.output),
            )
        grown = self._model.tokenizer.decode(sequence.output)
        if loops(sequence.output):
            return _dropped(task, "loop")
        text = (task.start + grown).strip()
        return self._answer(task, f"{text}\n{task.end}" if task.end else text)

    def _answer(self, task: Brief, text: str) -> Document | None:
        if not text:
            return _dropped(task, "empty")
        if prompt_hash(text) in self._plan.excluded:
            return _dropped(task, "excluded")
        try:
            prompt = self._model.encode(text, raw=self._model.template is None)
            sampling = Sampling(
                temperature=task.temperature,
                max_tokens=self._plan.max_answer * task.stretch,
                seed=task.seed + 1,
            )
            self._queue(_Flight(task, self._sequence(prompt, sampling, task), prompt))
        except PromptTooLong:
            return _dropped(task, "too long")
        return None

    def _queue(self, flight: _Flight) -> None:
        self._flights[flight.sequence.key] = flight
        self._engine.queue(flight.sequence)

    def _sequence(self, tokens: Seq[int], sampling: Sampling, task: Brief) -> Sequence:
        return self._engine.request(tokens, sampling, seed=task.seed)

    def _opening(self, start: str) -> list[int]:
        """Token ids of an unfinished user turn; of a plain text where there are no turns."""
        if self._model.template is None:
            return self._model.tokenizer.encode(start or "The", special=True)
        turns = [{"role": "user", "content": start + _MARK}]
        whole = self._model.template.render(turns, add_generation_prompt=True)
        return self._model.tokenizer.encode(whole.partition(_MARK)[0], special=True)


def _dropped(task: Brief, why: str) -> Document:
    return Document(
        number=task.number, kind=task.kind, temperature=task.temperature, dropped=why
    )  # fmt: skip


def write_corpus(
    model: Model,
    plan: CorpusPlan,
    path: Path,
    tell: Callable[[int], bool],
    *,
    streams: int = STREAMS,
) -> None:
    """Write documents until `gather` has enough of them, or `tell` says to stop.

    tell: given the tokens that stand without a gap; False = stop, and continue another day.
    """
    waiting = {d.number: d for d in read_documents(path)}
    sieve, at, total = Sieve(), 0, 0
    have = frozenset(waiting)
    numbers = iter(number for number in range(1 << 62) if number not in have)
    scribe, journal = Scribe(model, plan, streams=streams), Journal(path)
    try:
        documents = scribe.write(numbers)
        while True:
            while at in waiting:
                document = waiting.pop(at)
                at += 1
                if not sieve.verdict(document):
                    total += document.n_tokens
            if total >= plan.n_tokens or not tell(total):
                return
            document = next(documents)
            journal.append(document.line())
            waiting[document.number] = document
    finally:
        scribe.close()
        journal.close()
