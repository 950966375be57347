"""The form of `/v1/completions`: plain text, after its prompt where that is wanted."""

from collections.abc import Sequence as Seq
from typing import Any

from outpace.core.score import TokenLogprobs
from outpace.server.answer.choice import Answer, Piece
from outpace.server.answer.logprobs import CompletionScribe, Speller
from outpace.server.ask.job import Job
from outpace.server.wire.responses import Choice, CompletionLogprobs
from outpace.text.tokenizer import Tokenizer


class CompletionForm:
    """Plain text. One per response: offsets run through all chunks of an answer."""

    whole = "text_completion"
    chunk = "text_completion"

    def __init__(self, job: Job, speller: Speller, tokenizer: Tokenizer) -> None:
        self._job = job
        self._speller = speller
        self._tokenizer = tokenizer
        self._scribes: dict[int, CompletionScribe] = {}

    def choice(self, answer: Answer, pieces: Seq[Piece]) -> Choice:
        """The whole text."""
        echo, job = self._job.show.echo, self._job
        text = self._echo(answer) if echo else ""
        tokens = [token for piece in pieces for token in piece.tokens]
        reports: list[TokenLogprobs | None] = [r for piece in pieces for r in piece.logprobs]
        told_ids, told = tokens, reports
        if echo:
            told_ids, told = [*answer.prompt, *tokens], [*self._prompt_reports(answer), *reports]
        fields = answer.beside(pieces)
        if job.show.token_ids:
            fields["prompt_token_ids"] = list(answer.prompt)
        if job.show.prompt_logprobs:
            known = answer.stream.sequence.prompt_logprobs
            fields["prompt_logprobs"] = self._speller.prompt(answer.prompt, known)
        return Choice(
            index=answer.index,
            text=text + "".join(piece.text for piece in pieces),
            logprobs=self._logprobs(answer, told_ids, told),
            finish_reason=answer.reason(),
            stop_reason=answer.stop_reason(),
            **fields,
        )

    def first(self, answer: Answer) -> Choice | None:
        """The prompt, where it is wanted."""
        show = self._job.show
        if not show.echo and not show.token_ids:
            return None
        more: dict[str, Any] = {"prompt_token_ids": list(answer.prompt)} if show.token_ids else {}
        logprobs = None
        if show.echo:
            logprobs = self._logprobs(answer, answer.prompt, self._prompt_reports(answer))
        text = self._echo(answer) if show.echo else ""
        return Choice(
            index=answer.index, text=text, logprobs=logprobs, finish_reason=None, **more
        )  # fmt: skip

    def delta(self, answer: Answer, piece: Piece) -> Choice | None:
        """The next words."""
        ended = piece.finish is not None
        more = answer.beside([piece])
        if not (piece.text or ended or piece.logprobs or more):
            return None
        if ended:
            more["stop_reason"] = answer.stop_reason()
        return Choice(
            index=answer.index,
            text=piece.text,
            logprobs=self._logprobs(answer, piece.tokens, piece.logprobs),
            finish_reason=answer.reason() if ended else None,
            **more,
        )

    def extras(self, answers: Seq[Answer]) -> dict[str, Any]:  # noqa: ARG002
        """None: what is told of a prompt stands in its choices."""
        return {}

    def _echo(self, answer: Answer) -> str:
        return self._tokenizer.decode(
            answer.prompt, skip_special=not self._job.show.special
        )  # fmt: skip

    def _prompt_reports(self, answer: Answer) -> list[TokenLogprobs | None]:
        if self._job.sampling.logprobs is None:
            return []
        return [None, *answer.stream.sequence.prompt_logprobs]

    def _logprobs(
        self, answer: Answer, tokens: Seq[int], reports: Seq[TokenLogprobs | None]
    ) -> CompletionLogprobs | None:
        n_top = self._job.sampling.logprobs
        if n_top is None:
            return None
        scribe = self._scribes.setdefault(
            answer.index, CompletionScribe(self._speller, self._tokenizer, self._job.show)
        )
        return scribe.write(tokens, reports, n_top)
