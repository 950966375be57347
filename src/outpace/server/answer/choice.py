"""One answer as it grows: a stream of token ids becomes pieces of text with what belongs to them.

Text, ids and log-probabilities all end at the same token; the text alone is cut before a stop
string that this token completed.
"""

import asyncio
from collections.abc import AsyncGenerator
from collections.abc import Sequence as Seq
from contextlib import aclosing, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from outpace.core.score import TokenLogprobs
from outpace.core.sequence import Finish
from outpace.engine.stream import Stream
from outpace.server.answer.rounds import RoundLog
from outpace.server.ask.job import Job
from outpace.server.ask.translate import samplings
from outpace.server.served import Served
from outpace.server.wire.responses import RoundReport
from outpace.text.stream import StopWatch, TextStream
from outpace.text.tokenizer import Tokenizer

# Pieces of several answers that may wait for a slow reader; their streams gather the rest.
_WAITING_PIECES = 16
_REASONS: dict[Finish, str] = {
    "eos": "stop",
    "stop_token": "stop",
    "stop_string": "stop",
    "length": "length",
    "context": "length",
    "abort": "abort",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What came since the last one; with `finish`, the answer is complete.

    rounds: what each round guessed and gave, where that was asked.
    """

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...]
    finish: Finish | None
    rounds: tuple[RoundReport, ...] = ()


class Answer:
    """One choice of a response. Close it, whatever happens; the request ends with it."""

    def __init__(
        self,
        index: int,
        job: Job,
        stream: Stream,
        tokenizer: Tokenizer,
        log: RoundLog | None = None,
    ) -> None:
        self.index = index
        self.job = job
        self.stream = stream
        self.n_tokens = 0
        self._log = log
        self.finish: Finish | None = None
        self._tokenizer = tokenizer
        self._text = self._new_text(job.sampling.stop)

    @property
    def prompt(self) -> Seq[int]:
        """Its prompt's ids."""
        sequence = self.stream.sequence
        return sequence.tokens[: sequence.n_prompt]

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """The answer, piece by piece, or at once if it is not streamed.

        Every waking takes time from the model's threads, so pieces keep a distance: what comes
        faster than anybody reads is one piece. Raises what ended the answer if that was an error.
        """
        nothing = self.job.show.nothing_new
        if not self.job.stream:
            await self.stream.ended()
        async for chunk in self.stream:
            apart = [chunk.tokens] if self._log is None else [(t,) for t in chunk.tokens]
            texts, rest = [self._text.push(tokens) for tokens in apart], ""
            if chunk.finish is not None:
                rest = self._text.flush()
                self.finish = chunk.finish
            if texts:
                texts[-1] += rest
            at = self.n_tokens
            self.n_tokens += len(chunk.tokens)
            if nothing:
                yield Piece(text="", tokens=(), logprobs=(), finish=chunk.finish)
                continue
            sent_s = monotonic()
            reports = self.stream.sequence.logprobs[at : self.n_tokens]
            yield Piece(
                text="".join(texts) or rest,
                tokens=chunk.tokens,
                logprobs=tuple(reports),
                finish=chunk.finish,
                rounds=self._log.take(texts) if self._log is not None else (),
            )
            if chunk.finish is None:
                with suppress(TimeoutError):  # an end does not wait
                    async with asyncio.timeout(sent_s + self.job.piece_s - monotonic()):
                        await self.stream.ended()

    @property
    def n_shown(self) -> int:
        """Tokens of the answer that the client gets, and pays for."""
        return 0 if self.job.show.nothing_new else self.n_tokens

    def beside(self, pieces: Seq[Piece]) -> dict[str, Any]:
        """What is told of some pieces beside their text: ids and rounds, as asked."""
        told: dict[str, Any] = {}
        if self.job.show.token_ids:
            told["token_ids"] = [token for piece in pieces for token in piece.tokens]
        if self.job.show.rounds:
            told["rounds"] = [report for piece in pieces for report in piece.rounds]
        return told

    def reason(self) -> str | None:
        """`finish_reason`, None while it grows."""
        return None if self.finish is None else _REASONS.get(self.finish, "error")

    def stop_reason(self) -> int | str | None:
        """The stop string or token id that ended it."""
        if self.finish == "stop_token":
            return self.stream.sequence.output[-1]
        if self.finish != "stop_string":
            return None
        whole = self._new_text(())
        text = whole.push(self.stream.sequence.output) + whole.flush()
        cut = self._new_text(self.job.sampling.stop)
        at = len(cut.push(self.stream.sequence.output))
        words = [word for word in self.job.sampling.stop if text.startswith(word, at)]
        return max(words, key=len, default=None)

    def close(self) -> None:
        """End the request if it runs still."""
        self.stream.close()

    def _new_text(self, stop: Seq[str]) -> TextStream:
        show = self.job.show
        return TextStream(
            self._tokenizer, stop, continues=show.continues, show_special=show.special
        )


def start(job: Job, served: Served) -> list[Answer]:
    """Submit every answer of a job, or none of them.

    Raises:
        OutpaceError: one of them was refused; those before it are ended.
    """
    tokenizer, answers = served.model.tokenizer, list[Answer]()
    show, stop = job.show, job.sampling.stop
    try:
        for index, (prompt, sampling, seed) in enumerate(samplings(job)):
            watch = StopWatch(
                tokenizer, stop, continues=show.continues, show_special=show.special
            )  # fmt: skip
            log = None
            if show.rounds:
                log = RoundLog(tokenizer, all_texts=served.settings.one_tenant)
            stream = served.service.submit(
                prompt,
                sampling,
                seed=seed,
                limits=job.limits,
                stops=watch if stop else None,
                mask=job.make_mask() if job.make_mask is not None else None,
                sink=log.add if log is not None else None,
            )
            answers.append(Answer(index, job, stream, tokenizer, log))
    except BaseException:
        end(answers, served)
        raise
    return answers


def end(answers: Seq[Answer], served: Served) -> None:
    """Close all answers and count them."""
    for answer in answers:
        answer.close()
        served.meters.finished(answer.stream, answer.job.n)


async def together(answers: Seq[Answer]) -> AsyncGenerator[tuple[Answer, Piece], None]:
    """The pieces of all answers as they come; an error of one is raised and ends the others."""
    if len(answers) == 1:
        async with aclosing(answers[0].pieces()) as pieces:
            async for piece in pieces:
                yield answers[0], piece
        return
    queue: asyncio.Queue[tuple[Answer, Piece | BaseException | None]] = asyncio.Queue(
        _WAITING_PIECES
    )
    tasks = [asyncio.create_task(_forward(answer, queue)) for answer in answers]
    try:
        left = len(answers)
        while left:
            answer, found = await queue.get()
            if isinstance(found, BaseException):
                raise found
            if found is None:
                left -= 1
            else:
                yield answer, found
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


async def _forward(
    answer: Answer, queue: "asyncio.Queue[tuple[Answer, Piece | BaseException | None]]"
) -> None:
    try:
        async with aclosing(answer.pieces()) as pieces:
            async for piece in pieces:
                await queue.put((answer, piece))
    except Exception as error:  # raised again where the pieces are read
        await queue.put((answer, error))
    else:
        await queue.put((answer, None))
