"""The trace: what every stage of every round decided and on which numbers, one JSON line each.

`TraceWriter` is given rounds as the engine finishes them and writes each at once, so that a
killed process leaves whole lines. `replay.py` re-derives every decision from them, `explain.py`
reads them backward; `tracing/lines.py` is the format.

What a trace contains of a request: its sampling (stop strings included), its seed, and token
ids; the prompt's unless told otherwise, the completion's always. Ids are text to whoever has
the tokenizer: keep a trace as you would keep the conversation. Prompt *text* is written only
when asked for. Environment, paths and keys are never written.
"""

import os
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, fields
from io import RawIOBase
from pathlib import Path
from types import TracebackType

from outpace.core.repeat import Clock, Round
from outpace.core.sampling import Sampling
from outpace.core.score import Traits
from outpace.core.sequence import Sequence
from outpace.engine.tracing import lines
from outpace.engine.tracing.codec import GENESIS, seal
from outpace.engine.tracing.course import Course, first_coin, identity
from outpace.engine.tracing.stages import round_line
from outpace.errors import ConfigError
from outpace.events import Event, RequestDone, RoundsDone


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a trace says of the process that wrote it.

    outpace: the version. model, drafter: as the user named them. started_at: the time, in any
    format; the trace reads no clock for it. prompt_ids: whether prompts' token ids are written.
    """

    outpace: str
    model: str
    traits: Traits
    drafter: str
    started_at: str
    prompt_ids: bool = True

    def header(self) -> lines.Header:
        """The trace's first line."""
        t = self.traits
        return lines.Header(
            outpace=self.outpace,
            model=self.model,
            drafter=self.drafter,
            started_at=self.started_at,
            target=lines.Target(
                name=t.name,
                digest=t.digest,
                vocab_size=t.vocab_size,
                context_tokens=t.context_tokens,
                eos_ids=tuple(sorted(t.eos_ids)),
                trees=t.trees,
                row_invariant=t.row_invariant,
            ),
        )


class TraceWriter:
    """Writes a trace file; an existing file of that name is replaced.

    Rounds of sequences that are not `traced` are counted as part of their pass and not written.
    clock: gives each line the seconds since the writer was opened; none is written without one.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(
        self, path: str | os.PathLike[str], about: About, *, clock: Clock | None = None
    ) -> None:
        self.path = Path(path)
        self._about = about
        self._header = about.header()
        self._clock = clock
        self._opened_s = clock() if clock else 0.0
        self._sealed = GENESIS
        self._n_passes = 0
        self._courses: dict[int, Course] = {}
        self._prompt_texts: dict[int, str] = {}
        try:
            # Unbuffered: a line is on disk once written, and a full disk leaves nothing to flush.
            self._file: RawIOBase = self.path.open("wb", buffering=0)
        except OSError as error:
            raise self._unwritable(error) from None
        self._write(self._header)

    def listen(self, event: Event) -> None:
        """Take the engine's events: add this to its listeners and nothing else is needed."""
        match event:
            case RoundsDone():
                self.rounds(event.rounds)
            case RequestDone():
                self.end(event.sequence)
            case _:
                pass  # a request's first line is written by its first round

    def prompt_text(self, sequence: Sequence, text: str) -> None:
        """Record the prompt's text too, before its first round; only if the user asked for it."""
        self._prompt_texts[sequence.key] = text

    def round(self, done: Round) -> None:
        """Write the round of a pass that had one sequence."""
        self.rounds([done])

    def rounds(self, done: Seq[Round]) -> None:
        """Write all rounds of one pass, straight after it, and the last lines of those ended."""
        traced = [one for one in done if one.turn.traced]
        batch = lines.Batch(
            index=self._n_passes,
            sequences=len(done),
            traced=len(traced),
            rows=sum(one.n_rows for one in done),
        )
        self._n_passes += 1
        at_s = self._clock() - self._opened_s if self._clock else None
        for one in traced:
            course = self._course(one)
            line = round_line(one, course, batch, at_s)
            self._write(line)
            course.advance(line)
        for one in traced:
            if one.finish is not None:
                self.end(one.turn.sequence)

    def end(self, sequence: Sequence) -> None:
        """Write a request's last line, if it has none: for one ended outside a round.

        Called by `listen`; calling it again, or for a request that was not traced, does nothing.
        """
        course = self._courses.pop(sequence.key, None)
        if course is None:
            return
        error = course.error
        if error is None and sequence.finish == "error":
            error = str(sequence.error)
        self._write(course.end(sequence.finish or "abort", error))

    def close(self) -> None:
        """Close the file; requests still open have no last line, and replay says so."""
        self._file.close()

    def __enter__(self) -> "TraceWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    def _course(self, done: Round) -> Course:
        seq = done.turn.sequence
        if seq.key not in self._courses:
            read = done.turn.catch_up + done.n_kept
            self._begin(seq, known_tokens=seq.n_computed - read)
        return self._courses[seq.key]

    def _begin(self, seq: Sequence, *, known_tokens: int) -> None:
        asked = asked_of(seq.sampling)
        ids = tuple(seq.tokens[: seq.n_prompt]) if self._about.prompt_ids else None
        request = lines.Request(
            request=seq.key,
            prompt_tokens=seq.n_prompt,
            known_tokens=known_tokens,
            prompt_ids=ids,
            prompt_text=self._prompt_texts.pop(seq.key, None),
            seed=seq.seed,
            first_coin=first_coin(seq.seed),
            masked=seq.mask is not None,
            sampling=asked,
            identity=identity(self._header.target, ids, asked, seq.seed),
        )
        self._write(request)
        self._courses[seq.key] = Course(self._header, request)

    def _write(self, line: lines.Line) -> None:
        text, self._sealed = seal(line, self._sealed)
        rest = f"{text}\n".encode("ascii")
        try:
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
        except OSError as error:
            self._file.close()
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"the trace {self.path} cannot be written: {error.strerror}; "
            f"name a file in an existing folder with room that you may write to"
        )


def asked_of(sampling: Sampling) -> lines.Asked:
    """A sampling as a trace records it."""
    # What shapes the text; reports of log-probabilities do not.
    values = {field.name: getattr(sampling, field.name) for field in fields(lines.Asked)}
    values["logit_bias"] = _biases(sampling.logit_bias.items())
    values["banned"] = tuple(tuple(words) for words in sampling.banned)
    values["forced"] = tuple(sampling.forced)
    values["stop"] = tuple(sampling.stop)
    values["stop_token_ids"] = tuple(sorted(sampling.stop_token_ids))
    for name in ("temperature", "top_p", "min_p", "repetition_penalty"):
        values[name] = float(values[name])
    for name in ("presence_penalty", "frequency_penalty"):
        values[name] = float(values[name])
    return lines.Asked(**values)


def _biases(items: Iterable[tuple[int, float]]) -> tuple[tuple[int, float | None], ...]:
    return tuple((token, float(b) if b > float("-inf") else None) for token, b in sorted(items))
