"""What each round of an answer guessed and kept: `return_rounds`.

The engine's thread writes down, the answer's reader takes away. Ids only: spelling them is the
reader's time, and nothing of it happens for answers that did not ask.
"""

from collections import deque
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from outpace.core.repeat import Round
from outpace.server.wire.responses import Guess, RoundReport
from outpace.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guessed:
    """A round's guesses, as in `core.draft.Draft`. path: those kept. n_tokens: what it gave."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    sources: tuple[str, ...]
    path: tuple[int, ...]
    n_tokens: int


class RoundLog:
    """The rounds of one answer that are not told yet.

    all_texts: spell rejected guesses too. Drafters remember other requests' answers, so such a
    guess may be what another caller was told; kept ones are this answer's own words.
    """

    def __init__(self, tokenizer: Tokenizer, *, all_texts: bool) -> None:
        self._tokenizer = tokenizer
        self._all_texts = all_texts
        self._rounds: deque[_Guessed] = deque()

    def add(self, done: Round) -> None:
        """From the engine's thread, before the round's tokens can be read."""
        if not done.emitted:
            return
        draft = done.draft
        self._rounds.append(
            _Guessed(
                tokens=draft.tokens,
                parents=draft.parents,
                sources=draft.sources,
                path=done.verdict.path if done.verdict else (),
                n_tokens=len(done.emitted),
            )
        )

    def take(self, texts: Seq[str]) -> tuple[RoundReport, ...]:
        """The rounds that gave the next tokens, whose texts these are: always whole ones."""
        found: list[RoundReport] = []
        at = 0
        while at < len(texts):
            guessed = self._rounds.popleft()
            found.append(self._report(guessed, texts[at : at + guessed.n_tokens]))
            at += guessed.n_tokens
        return tuple(found)

    def _report(self, guessed: _Guessed, texts: Seq[str]) -> RoundReport:
        # A text may end inside the kept path: what would have followed is no part of it.
        path = guessed.path[: guessed.n_tokens]
        names = guessed.sources or (None,) * len(guessed.tokens)
        return RoundReport(
            texts=list(texts),
            kept=len(path),
            guesses=[
                Guess(
                    text=self._spell(token) if self._all_texts or node in path else None,
                    parent=parent,
                    kept=node in path,
                    drafter=name,
                )
                for node, (token, parent, name) in enumerate(
                    zip(guessed.tokens, guessed.parents, names, strict=True)
                )
            ],
        )

    def _spell(self, token: int) -> str:
        return self._tokenizer.token_bytes(token).decode("utf-8", "replace")
