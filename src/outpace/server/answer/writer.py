"""One response over any number of answers: what whole and streamed, chat and plain share."""

from collections.abc import AsyncGenerator
from collections.abc import Sequence as Seq
from contextlib import aclosing
from typing import Any, Protocol

from outpace.server.answer.choice import Answer, Piece, together
from outpace.server.ask.job import Job
from outpace.server.metrics.request import metrics_of
from outpace.server.wire.responses import Choice, Response, Usage


class Form(Protocol):
    """How one kind of response says things; it lives as long as its response."""

    whole: str
    chunk: str

    def choice(self, answer: Answer, pieces: Seq[Piece]) -> Choice:
        """A complete answer."""

    def first(self, answer: Answer) -> Choice | None:
        """What a stream says before an answer's first piece."""

    def delta(self, answer: Answer, piece: Piece) -> Choice | None:
        """What a piece adds; None = nothing to show yet."""

    def extras(self, answers: Seq[Answer]) -> dict[str, Any]:
        """More fields of the whole response, and of a stream's first chunk."""


class Writer:
    """Writes a job's answers in a form. created: seconds since 1970."""

    def __init__(self, job: Job, form: Form, *, model: str, response_id: str, created: int) -> None:
        self._job = job
        self._form = form
        self._frame: dict[str, Any] = {"id": response_id, "created": created, "model": model}

    async def whole(self, answers: Seq[Answer]) -> Response:
        """The response, once every answer is complete."""
        found: dict[int, list[Piece]] = {answer.index: [] for answer in answers}
        async with aclosing(together(answers)) as pieces:
            async for answer, piece in pieces:
                found[answer.index].append(piece)
        return self._response(
            self._form.whole,
            [self._form.choice(answer, found[answer.index]) for answer in answers],
            usage=self._usage(answers),
            **self._metrics(answers),
            **self._form.extras(answers),
        )

    async def chunks(self, answers: Seq[Answer]) -> AsyncGenerator[Response, None]:
        """The response as it grows."""
        begun: set[int] = set()
        async with aclosing(together(answers)) as pieces:
            async for answer, piece in pieces:
                if answer.index not in begun:
                    first = self._form.first(answer)
                    extras = self._form.extras(answers) if not begun else {}
                    begun.add(answer.index)
                    if first is not None:
                        yield self._chunk([first], answers, **extras)
                choice = self._form.delta(answer, piece)
                if choice is not None:
                    yield self._chunk([choice], answers)
        if self._job.usage:
            usage = self._usage(answers)
            yield self._response(self._form.chunk, [], usage=usage, **self._metrics(answers))

    def _chunk(self, choices: list[Choice], answers: Seq[Answer], **more: Any) -> Response:
        if self._job.running_usage:
            more["usage"] = self._usage(answers)
        elif self._job.usage:
            more["usage"] = None
        return self._response(self._form.chunk, choices, **more)

    def _response(self, kind: str, choices: list[Choice], **more: Any) -> Response:
        return Response(object=kind, choices=choices, **self._frame, **more)

    def _usage(self, answers: Seq[Answer]) -> Usage:
        n_prompt = self._job.n_prompt_tokens
        n_text = sum(answer.n_shown for answer in answers)
        return Usage(
            prompt_tokens=n_prompt, completion_tokens=n_text, total_tokens=n_prompt + n_text
        )

    def _metrics(self, answers: Seq[Answer]) -> dict[str, Any]:
        """Null for several answers: their rounds are not one text's."""
        if self._job.metrics == "none":
            return {}
        one = len(answers) == 1
        return {"metrics": metrics_of(answers[0].stream, self._job.metrics) if one else None}
