"""Why a token is what it is: the guess that was kept or lost there, and what allowed the guess."""

import math
from collections.abc import Sequence as Seq

from outpace.core.draft import ROOT
from outpace.engine.explaining.brief import Brief
from outpace.engine.explaining.cost import control_sentence
from outpace.engine.explaining.words import Passage, Words, count, number
from outpace.engine.tracing import lines, stage

# n-grams longer than this need no longer memory to be convincing.
_MAX_MATCH = 64


class TokenStory:
    """One emitted token of one round, told backward.

    text: the committed tokens before the round, from as far back as the trace knows.
    before: the request's rounds up to this one.
    """

    def __init__(
        self, line: lines.Round, index: int, words: Words, text: Seq[int], before: Seq[Brief]
    ) -> None:
        self.line = line
        self.index = index
        self.words = words
        self.text = text
        self.before = before
        self.token = line.repeat.output.emitted[index]
        self.path = line.accept.output.path if line.accept else ()
        self.rows = {row.row: row for row in line.score.output.rows}

    def tell(self, *, request: int, number_in_text: int, line_number: int) -> Passage:
        """All of it."""
        kept = self.index < len(self.path)
        sentences = [
            f"It came with round {self.line.round}, as {self.index + 1} of the "
            f"{count(len(self.line.repeat.output.emitted), 'token')} that round gave.",
            *(self._kept() if kept else self._chosen()),
            *self._surprise(),
            *self._allowed(),
        ]
        return Passage(
            title=f"Token {number_in_text} of request {request}: {self.words.token(self.token)}",
            sentences=tuple(sentences),
            line=line_number,
            request=request,
            round=self.line.round,
            facts=self._facts(number_in_text, kept=kept),
        )

    def _kept(self) -> list[str]:
        """A guess that survived."""
        node = self.path[self.index]
        judged = self._judged(node)
        source = self.line.draft.output.sources[node]
        told = [f"It was guessed by drafter {source}, and kept."]
        rule = self.line.accept.input.rule if self.line.accept else ""
        if rule == "match":
            told.append("The target's own choice there was the same token.")
        elif judged is None or not judged.kept:
            told.append(
                f"It was kept because a guess further down the same path was: rule {rule} judges "
                f"from the last guess backward."
            )
        else:
            told.append(self._coin(judged))
        return [*told, *self._origin(node)]

    def _coin(self, judged: stage.Judged) -> str:
        u = judged.u if judged.u is not None else 0.0
        verdict = f"u={number(u)} {'<' if judged.kept else '≥'} a={number(judged.a)}"
        said = (
            f"The drafter gave {self.words.token(judged.token)} q={number(judged.q)}, the target "
            f"p={number(judged.p)}"
        )
        if judged.weight != 1:
            said += f", the path down to it weighed {number(judged.weight)}"
        return f"{said}; its coin was {verdict}, so it was {'kept' if judged.kept else 'lost'}."

    def _chosen(self) -> list[str]:
        """The token the target chose itself: after a lost guess, after all guesses, or without."""
        line, n_guesses = self.line, len(self.line.draft.output.tokens)
        lost = self._lost_here()
        if lost:
            told = [self._losing(judged) for judged in lost]
            for judged in lost[:1]:
                told += self._origin(judged.node)
        elif n_guesses and self.path:
            told = [
                f"All {count(len(self.path), 'guess')} on the path were kept, and none had been "
                f"offered beyond, so the target chose this one itself."
            ]
        elif n_guesses:
            told = ["No guess was left to judge here, so the target chose this token itself."]
        else:
            told = [self._no_guess()]
        return [*told, *self._draw(lost=bool(lost))] if line.resample else told

    def _lost_here(self) -> list[stage.Judged]:
        """The guesses lost at the place of this token."""
        if self.line.accept is None:
            return []
        above = self.path[-1] if self.path else ROOT
        parents = self.line.draft.output.parents
        return [
            judged
            for judged in self.line.accept.input.judged
            if parents[judged.node] == above and judged.node not in self.path
        ]

    def _losing(self, judged: stage.Judged) -> str:
        source = self.line.draft.output.sources[judged.node]
        if judged.u is None:
            p = self._p(self.path[-1] + 1 if self.path else 0, judged.token)
            known = f" (which the target gave p={number(p)})" if p is not None else ""
            return (
                f"Drafter {source} had guessed {self.words.token(judged.token)}{known}; the "
                f"target's own choice was another, so the guess was lost."
            )
        guess = self.words.token(judged.token)
        return f"Drafter {source} had guessed {guess}. {self._coin(judged)}"

    def _no_guess(self) -> str:
        asked, control = self.line.draft.input.asked, self.line.control
        if asked:
            return (
                f"Nothing was guessed here: drafter {self.line.draft.owner} was asked for up to "
                f"{count(control.max_nodes, 'guess')} and offered none."
            )
        if control.max_nodes and control.max_depth:
            return "Nothing was guessed here: there was room for one more token only."
        return "Nothing was guessed here."

    def _draw(self, *, lost: bool) -> list[str]:
        resample = self.line.resample
        if resample is None:
            return []
        draw, row = resample.output.draw, self.rows.get(resample.input.row)
        if draw is None or row is None:
            how = "the largest score" if resample.input.how == "argmax" else (
                "the largest sum of log-probability and the position's shared noise"
            )  # fmt: skip
            return [f"It is the target's own choice: {how}."]
        what = "what was left of the target's law" if lost else "the target's law"
        others = ", ".join(
            f"{self.words.token(token)} {number(weight / draw.total)}"
            for token, weight in resample.rejected
        )
        against = f" (the likeliest others: {others})" if others else ""
        return [
            f"It was drawn from {what}, in which it had {number(draw.weight / draw.total)}"
            f"{against}; the coin was u={number(draw.u)}."
        ]

    def _surprise(self) -> list[str]:
        row = self._row()
        p = self._p(row, self.token)
        found = self.rows.get(row)
        if p is None or found is None or p <= 0:
            return []
        unsure = dict(
            zip(self.rows, self.line.score.uncertainty, strict=False)
        ).get(row)  # fmt: skip
        best, best_p = max(zip(found.tokens, found.p, strict=True), key=lambda pair: pair[1])
        said = f"The target gave it p={number(p)} ({number(-math.log(p))} nats of surprise"
        if unsure is not None:
            said += f"; its law had {number(unsure.entropy_p)} nats of uncertainty"
        said += ")"
        if best != self.token:
            said += f"; its likeliest was {self.words.token(best)} with p={number(best_p)}"
        return [f"{said}."]

    def _allowed(self) -> list[str]:
        """The earlier decisions: the control's, and the record that may have led to it."""
        told: list[str] = []
        if self.before:
            told.append(control_sentence(self.before[-1]))
        earlier = self.before[:-1]
        drafted, kept = sum(b.drafted for b in earlier), sum(b.kept for b in earlier)
        if drafted:
            told.append(
                f"In the {count(len(earlier), 'round')} before, {kept} of "
                f"{count(drafted, 'guess')} had been kept."
            )
        return told

    def _origin(self, node: int) -> list[str]:
        """Where the text had the guess before: the longest earlier match that ends in it."""
        out = self.line.draft.output
        guess, above = out.tokens[node], out.parents[node]
        tail: list[int] = []
        while above != ROOT:
            tail.insert(0, out.tokens[above])
            above = out.parents[above]
        text = [*self.text, *tail]
        length, at = _longest_match(text, guess)
        if length == 0:
            return []
        return [
            f"The {count(length, 'token')} before it had occurred earlier in the text, followed "
            f"by this guess, {len(text) - at} tokens back."
        ]

    def _judged(self, node: int) -> stage.Judged | None:
        judged = self.line.accept.input.judged if self.line.accept else ()
        return next((j for j in judged if j.node == node), None)

    def _row(self) -> int:
        return self.path[self.index - 1] + 1 if self.index else 0

    def _p(self, row: int, token: int) -> float | None:
        found = self.rows.get(row)
        if found is None or token not in found.tokens:
            return None
        return found.p[found.tokens.index(token)]

    def _facts(self, number_in_text: int, *, kept: bool) -> dict[str, object]:
        out, resample = self.line.draft.output, self.line.resample
        node = self.path[self.index] if kept else None
        draw = resample.output.draw if resample and not kept else None
        return {
            "token": self.token,
            "number": number_in_text,
            "position": self.line.start + self.index,
            "kept_guess": kept,
            "source": out.sources[node] if node is not None else None,
            "rule": self.line.accept.input.rule if self.line.accept else None,
            "p": self._p(self._row(), self.token),
            "weight": draw.weight / draw.total if draw else None,
            "u": draw.u if draw else None,
            "lost": [
                {"token": j.token, "source": out.sources[j.node], "p": j.p, "q": j.q, "a": j.a,
                 "u": j.u}
                for j in (() if kept else self._lost_here())
            ],
            "allowed_guesses": self.line.control.max_nodes,
            "allowed_depth": self.line.control.max_depth,
            "reason": self.line.control.reason,
        }  # fmt: skip


def _longest_match(text: Seq[int], guess: int) -> tuple[int, int]:
    """The longest suffix of `text` found earlier before `guess`: its length, the guess's place."""
    best, place = 0, 0
    for at in range(len(text) - 1, 0, -1):
        if text[at] != guess:
            continue
        n = 0
        while n < _MAX_MATCH and n < at and text[at - 1 - n] == text[len(text) - 1 - n]:
            n += 1
        if n > best:
            best, place = n, at
    return best, place
