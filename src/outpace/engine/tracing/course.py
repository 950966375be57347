"""A request between its rounds: what the next line of its trace must continue.

The writer and replay keep one each, from the same lines, so that a total or a position in a
trace is never written from anything replay could not count itself.
"""

import json
from collections.abc import Sequence as Seq

from outpace.core.coins import Purpose, toss
from outpace.core.sequence import Finish
from outpace.engine.tracing import lines
from outpace.engine.tracing.codec import digest, plain


def identity(target: lines.Target, prompt_ids: Seq[int] | None, asked: lines.Asked,
             seed: int) -> str:  # fmt: skip
    """Digest of what a request's text depends on, as far as its trace says (no grammar)."""
    model = [target.digest, target.vocab_size, target.context_tokens, list(target.eos_ids)]
    return digest(json.dumps([model, prompt_ids, plain(asked), seed]))


def text_digest(tokens: Seq[int]) -> str:
    """Digest of token ids: equal for equal texts."""
    return digest(json.dumps(list(tokens)))


def first_coin(seed: int) -> float:
    """A coin no round tosses; ties a seed that decided nothing to its trace."""
    return toss(seed, Purpose.DRAFT, 0, 0)


class Course:
    """Where one request stands: its text, how far the runtime has read it, and its totals."""

    def __init__(self, header: lines.Header, request: lines.Request) -> None:
        self.header = header
        self.request = request
        self.asked = request.sampling
        self.output: list[int] = []
        self.n_computed = request.known_tokens
        self.n_rounds = 0
        self.finish: Finish | None = None
        self.error: str | None = None
        self._seconds = dict.fromkeys(("draft", "score", "accept", "resample", "repeat"), 0.0)
        self._counts = dict.fromkeys(("rows", "allowed", "drafted", "judged", "kept"), 0)
        self._sources: dict[str, list[int]] = {}

    @property
    def n_text(self) -> int:
        """Tokens of prompt and completion."""
        return self.request.prompt_tokens + len(self.output)

    @property
    def room(self) -> int:
        """Most tokens that may still be committed."""
        room = self.header.target.context_tokens - self.n_text
        if self.asked.max_tokens is not None:
            room = min(room, self.asked.max_tokens - len(self.output))
        return room

    @property
    def last_token(self) -> int | None:
        """The last committed token; None while it is a prompt token that was not recorded."""
        if self.output:
            return self.output[-1]
        ids = self.request.prompt_ids
        return ids[-1] if ids else None

    @property
    def greedy(self) -> bool:
        """Whether the request's law is one-hot."""
        return self.asked.temperature == 0

    def end_after(
        self, emitted: Seq[int], *, stop_string_last: bool
    ) -> tuple[tuple[int, ...], Finish | None]:
        """`emitted` up to the earliest end, and that end.

        stop_string_last: whether the trace says that the last token completes a stop string.
        """
        asked, target = self.asked, self.header.target
        for i, token in enumerate(emitted):
            n_out = len(self.output) + i + 1
            found: Finish | None = None
            if n_out >= asked.min_tokens and token in target.eos_ids and not asked.ignore_eos:
                found = "eos"
            elif n_out >= asked.min_tokens and token in asked.stop_token_ids:
                found = "stop_token"
            elif stop_string_last and i == len(emitted) - 1:
                found = "stop_string"
            elif asked.max_tokens is not None and n_out >= asked.max_tokens:
                found = "length"
            elif self.request.prompt_tokens + n_out >= target.context_tokens:
                found = "context"
            if found is not None:
                return tuple(emitted[: i + 1]), found
        return tuple(emitted), None

    def advance(self, line: lines.Round) -> None:
        """Take a round into the text and the totals."""
        path = line.accept.output.path if line.accept else ()
        judged = {j.node for j in line.accept.input.judged} if line.accept else set[int]()
        self.output.extend(line.repeat.output.emitted)
        self.n_computed = line.score.input.first + line.score.input.catch_up + len(path)
        self.n_rounds += 1
        self.finish, self.error = line.repeat.output.finish, line.repeat.output.error
        for name in self._seconds:
            stage = getattr(line, name)
            self._seconds[name] += stage.seconds if stage is not None else 0.0
        n_drafted = len(line.draft.output.tokens)
        counts = (line.score.input.n_rows, line.control.max_nodes, n_drafted, len(judged))
        for name, n in zip(self._counts, (*counts, len(path)), strict=True):
            self._counts[name] += n
        for node, name in enumerate(line.draft.output.sources):
            record = self._sources.setdefault(name, [0, 0, 0])
            for i, counted in enumerate((True, node in judged, node in path)):
                record[i] += counted

    def totals(self) -> lines.Totals:
        """The funnel and the cost so far."""
        return lines.Totals(
            rounds=self.n_rounds,
            **self._counts,
            seconds=lines.Seconds(**self._seconds),
            sources=tuple(
                lines.Source(name=name, drafted=n[0], judged=n[1], kept=n[2])
                for name, n in sorted(self._sources.items())
            ),
        )

    def end(self, finish: Finish, error: str | None) -> lines.End:
        """The request's last line."""
        return lines.End(
            request=self.request.request,
            finish=finish,
            error=error,
            prompt_tokens=self.request.prompt_tokens,
            completion_tokens=len(self.output),
            text_digest=text_digest(self.output),
            totals=self.totals(),
        )
