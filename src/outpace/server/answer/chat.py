"""The form of `/v1/chat/completions`: messages, deltas, and the calls found in them."""

import secrets
from collections.abc import Sequence as Seq
from typing import Any

from outpace.core.score import TokenLogprobs
from outpace.server.answer.choice import Answer, Piece
from outpace.server.answer.logprobs import Speller
from outpace.server.answer.tools import Call, ToolParser
from outpace.server.ask.job import Job
from outpace.server.wire.responses import (
    ChatLogprobs,
    ChatMessage,
    Choice,
    FunctionCall,
    ToolCall,
)


class ChatForm:
    """Messages. One per response: it remembers how far each answer's calls were read."""

    whole = "chat.completion"
    chunk = "chat.completion.chunk"

    def __init__(self, job: Job, speller: Speller) -> None:
        self._job = job
        self._speller = speller
        self._parsers: dict[int, ToolParser] = {}

    def choice(self, answer: Answer, pieces: Seq[Piece]) -> Choice:
        """The whole message."""
        text = "".join(piece.text for piece in pieces)
        words, calls = self._read(answer, text, ended=True)
        fields: dict[str, Any] = {"content": words if words or not calls else None}
        if calls:
            fields["tool_calls"] = [_tool_call(call, None) for call in calls]
        return self._finished(
            answer,
            pieces,
            message=ChatMessage(role="assistant", refusal=None, **fields),
            logprobs=self._logprobs([report for piece in pieces for report in piece.logprobs]),
        )

    def first(self, answer: Answer) -> Choice | None:
        """OpenAI's first chunk says who speaks."""
        delta = ChatMessage(role="assistant", content="")
        return Choice(index=answer.index, delta=delta, logprobs=None, finish_reason=None)

    def delta(self, answer: Answer, piece: Piece) -> Choice | None:
        """Words and whole calls."""
        ended = piece.finish is not None
        words, calls = self._read(answer, piece.text, ended=ended)
        n_before = self._n_calls(answer) - len(calls)
        beside = answer.beside([piece])
        if not (words or calls or ended or piece.logprobs or beside):
            return None
        fields: dict[str, Any] = {}
        if words or not (calls or ended):
            fields["content"] = words
        if calls:
            fields["tool_calls"] = [_tool_call(c, n_before + i) for i, c in enumerate(calls)]
        delta, logprobs = ChatMessage(**fields), self._logprobs(piece.logprobs)
        if ended:
            return self._finished(answer, [piece], delta=delta, logprobs=logprobs)
        return Choice(
            index=answer.index, delta=delta, logprobs=logprobs, finish_reason=None, **beside
        )  # fmt: skip

    def extras(self, answers: Seq[Answer]) -> dict[str, Any]:
        """A chat has one prompt: what is told of it belongs to the response."""
        found: dict[str, Any] = {}
        if self._job.show.token_ids:
            found["prompt_token_ids"] = list(answers[0].prompt)
        if self._job.sampling.prompt_logprobs is not None:
            reports = answers[0].stream.sequence.prompt_logprobs
            found["prompt_logprobs"] = self._speller.prompt(answers[0].prompt, reports)
        return found

    def _finished(self, answer: Answer, pieces: Seq[Piece], **fields: Any) -> Choice:
        reason = answer.reason()
        if reason == "stop" and self._n_calls(answer):
            reason = "tool_calls"
        return Choice(
            index=answer.index,
            finish_reason=reason,
            stop_reason=answer.stop_reason(),
            **fields,
            **answer.beside(pieces),
        )

    def _read(self, answer: Answer, text: str, *, ended: bool) -> tuple[str, list[Call]]:
        if self._job.tools is None:
            return text, []
        parser = self._parsers.setdefault(answer.index, ToolParser(self._job.tools))
        parts = parser.push(text)
        if ended:
            parts += parser.end()
        words = "".join(part for part in parts if isinstance(part, str))
        return words, [part for part in parts if isinstance(part, Call)]

    def _n_calls(self, answer: Answer) -> int:
        parser = self._parsers.get(answer.index)
        return parser.n_calls if parser else 0

    def _logprobs(self, reports: Seq[TokenLogprobs]) -> ChatLogprobs | None:
        if self._job.sampling.logprobs is None:
            return None
        return self._speller.chat(reports)


def _tool_call(call: Call, index: int | None) -> ToolCall:
    more = {} if index is None else {"index": index}
    return ToolCall(
        id=f"call_{secrets.token_hex(12)}",
        type="function",
        function=FunctionCall(name=call.name, arguments=call.arguments),
        **more,
    )
