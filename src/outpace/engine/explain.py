"""Read a trace backward: why this token, why this round was slow, what a request came to.

The answers are plain sentences with the recorded numbers, and the same as data. They trust the
trace; whether its numbers lead to its decisions is `replay`'s question.
"""

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from outpace.engine.explaining.brief import Brief, Outline, full_rounds, outline
from outpace.engine.explaining.cost import slowest as slowest_rounds
from outpace.engine.explaining.summary import request_summary
from outpace.engine.explaining.token import TokenStory
from outpace.engine.explaining.words import Passage, Spell, Words
from outpace.errors import TraceError

if TYPE_CHECKING:
    from outpace.engine.tracing.lines import Round

_SHOWN_REQUESTS = 20
_SHOWN_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer to one question about a trace. notes: what to know before trusting it."""

    path: str
    question: str
    passages: tuple[Passage, ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The explanation for --json."""
        return asdict(self)

    def text(self) -> str:
        """The explanation for people."""
        told = [f"note: {note}" for note in self.notes]
        for passage in self.passages:
            place = f" (line {passage.line})" if passage.line is not None else ""
            told.append(f"{passage.title}{place}")
            told.extend(f"  {sentence}" for sentence in passage.sentences)
        return "\n".join(told)


def explain(
    path: str | os.PathLike[str],
    *,
    slowest: int | None = None,
    request: int | None = None,
    token: int | None = None,
    spell: Spell | None = None,
) -> Explanation:
    """Explain a trace, from a result backward.

    slowest: the n slowest rounds (of one request, if named). request: one request; with token,
    its token-th token, counted from 1. None of them: every request, and the slowest rounds.
    spell: token id -> text, if a tokenizer is at hand.

    Raises:
        TraceError: not a trace, damaged, or nothing in it by that number.
    """
    found = outline(path)
    changed = ", ".join(map(str, found.changed[:10]))
    notes = (
        (f"lines {changed} were changed after they were written; replay says what no longer holds",)
        if found.changed
        else ()
    )
    if token is not None:
        passages = [_token(found, _only(found, request), token, Words(spell))]
        question = f"token {token} of request {passages[0].request}"
    elif slowest is not None:
        if slowest < 1:
            raise TraceError(f"slowest is {slowest}; allowed: 1 or more rounds")
        rounds = found.rounds if request is None else found.of(request)
        passages = slowest_rounds(rounds, slowest)
        question = f"the {slowest} slowest rounds"
    elif request is not None:
        passages = [request_summary(found, request)]
        passages += slowest_rounds(found.of(request), _SHOWN_ROUNDS)
        question = f"request {request}"
    else:
        passages = [request_summary(found, r) for r in sorted(found.requests)[:_SHOWN_REQUESTS]]
        passages += slowest_rounds(found.rounds, _SHOWN_ROUNDS)
        question = "the whole trace"
    return Explanation(
        path=str(path), question=question, passages=tuple(passages), notes=notes
    )  # fmt: skip


def _only(found: Outline, request: int | None) -> int:
    if request is not None:
        found.of(request)
        return request
    if len(found.requests) != 1:
        raise TraceError(
            f"{found.path}: has {len(found.requests)} requests; say which one the token is of"
        )
    return next(iter(found.requests))


def _token(found: Outline, request: int, token: int, words: Words) -> Passage:
    rounds = found.of(request)
    n_tokens = sum(brief.emitted for brief in rounds)
    if not 1 <= token <= n_tokens:
        raise TraceError(
            f"{found.path}: no token {token}; request {request} has {n_tokens}, counted from 1"
        )
    before: list[Brief] = []
    n_before = 0
    for brief in rounds:
        before.append(brief)
        if n_before + brief.emitted >= token:
            break
        n_before += brief.emitted
    text, line = _text_before(found, request, before)
    story = TokenStory(line, token - 1 - n_before, words, text, before)
    return story.tell(request=request, number_in_text=token, line_number=before[-1].line)


def _text_before(found: Outline, request: int, before: list[Brief]) -> tuple[list[int], "Round"]:
    """The text up to the last of these rounds, as far as the trace knows it, and that round."""
    text = list(found.requests[request].prompt_ids or ())
    wanted = {brief.line for brief in before if brief.emitted}
    for number, line in full_rounds(found.path, wanted):
        if number == before[-1].line:
            return text, line
        text.extend(line.repeat.output.emitted)
    raise TraceError(f"{found.path}: changed while it was read; run it again")
