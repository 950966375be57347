"""Guess with a smaller model, through any runtime.

The model keeps only committed text. A guess is read provisionally: every pass carries the last
committed token and the whole path guessed so far, and nothing of that is kept. So nothing is ever
rolled back, whatever the target keeps; and after full acceptance no token is missing from the
model's memory (the bug that makes acceptance decay along a text), because the last guess is
simply one more committed token to catch up with. The few rows read again cost little: a small
model's pass is bound by reading its weights.

How guesses are picked follows the request:

    chosen   the likeliest token; optionally a tree of the likeliest few
    coupled  the model's own law under the same processors, and the position's shared noise: the
             guess equals the target's token as often as both laws allow (2408.07978)
    drawn    a draw from that law, which is reported exactly as it was drawn from

The laws span the target's vocabulary (`translate`): ids the model does not have get probability
0. Where the model's own context or memory ends it stops guessing, and the request goes on.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import torch
from torch import Tensor

from outpace.core.coins import Purpose
from outpace.core.draft import NO_GUESS, ROOT, Ask, Draft, Seen
from outpace.core.law import History, Laws
from outpace.core.score import Rows, Runtime, Scores
from outpace.drafters.translate import Dictionary
from outpace.errors import CapacityError, ConfigError, ContractError, RequestError

# Tokens read per pass while the model catches up with a prompt.
CATCH_UP_TOKENS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """What a user can turn.

    width: children a node may have where trees are taken and guesses are chosen; 1 = chains.
    floor: picked guesses on paths less likely than this are left out. eos_ids: the *target's*
    ends of a text, which min_tokens holds back.
    """

    width: int = 1
    floor: float = 0.0
    eos_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.width < 1 or not 0 <= self.floor < 1:
            raise ConfigError(
                f"a draft of width {self.width} and floor {self.floor}; allowed: a width of at "
                "least 1, a floor from 0 to less than 1"
            )


@dataclass(slots=True)
class _Reader:
    """One sequence in the model's runtime: what it must have read, and how far it is."""

    words: list[int] = field(default_factory=list)  # in the model's ids
    n_tokens: int = 0  # of the target's text that `words` covers
    n_kept: int = 0
    opened: bool = False


@dataclass(slots=True)
class _Growth:
    """A draft in the making."""

    ask: Ask
    reader: _Reader
    max_depth: int
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)  # the same guesses in the model's ids
    chances: list[float] = field(default_factory=list)
    laws: list[Tensor] = field(default_factory=list)
    leaves: list[int] = field(default_factory=lambda: [ROOT])  # nodes that may get children

    @property
    def history(self) -> History:
        """The text as penalties and bans read it."""
        s, tokens, n = self.ask.sampling, self.ask.tokens, self.ask.n_prompt
        if not (s.penalises or s.restricts):
            return History(())
        return History(tokens[:n], list(tokens[n:]))

    def path(self, node: int) -> list[int]:
        """Guesses from below the root down to `node`."""
        path: list[int] = []
        while node != ROOT:
            path.append(self.tokens[node])
            node = self.parents[node]
        return path[::-1]

    def draft(self, source: str) -> Draft:
        """What has grown so far."""
        n = len(self.tokens)
        if not n:
            return NO_GUESS
        return Draft(
            tokens=tuple(self.tokens),
            parents=tuple(self.parents),
            laws_LV=torch.stack(self.laws) if self.laws else None,
            law_rows=tuple(range(n)) if self.laws else (),
            sources=(source,) * n,
            chances=tuple(self.chances) if self.ask.style == "chosen" else (),
        )


class ModelDrafter:
    """Guesses of a smaller model, for all sequences at once: one pass per depth."""

    def __init__(
        self,
        runtime: Runtime,
        dictionary: Dictionary,
        config: ModelConfig | None = None,
        *,
        name: str = "model",
    ) -> None:
        self.name = name
        self._runtime = runtime
        self._dictionary = dictionary
        self._config = config or ModelConfig()
        self._readers: dict[int, _Reader] = {}

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        growths = [self._begin(ask) for ask in asks]
        live = self._catch_up([g for g in growths if g is not None and g.max_depth > 0])
        depth = 0
        while live:
            depth += 1
            live = [g for g, s in self._pass(live) if self._grow(g, s) and depth < g.max_depth]
        return [NO_GUESS if g is None else g.draft(self.name) for g in growths]

    def observe(self, seen: Seq[Seen]) -> None:
        """Nothing: committed text is read from the next ask, in one pass with its first guess."""

    def forget(self, key: int) -> None:
        reader = self._readers.pop(key, None)
        if reader is not None and reader.opened:
            self._runtime.close(key)

    def _begin(self, ask: Ask) -> _Growth | None:
        """Bring the sequence's words up to date; None where the model cannot guess."""
        reader = self._readers.get(ask.key)
        if reader is None or reader.n_tokens > len(ask.tokens):
            self.forget(ask.key)
            reader = self._readers[ask.key] = _Reader()
        if reader.n_tokens < len(ask.tokens):
            reader.words.extend(self._dictionary.read(ask.tokens[reader.n_tokens :]))
            reader.n_tokens = len(ask.tokens)
        # The last guess is never read, so it may be one beyond the context.
        room = self._runtime.traits.context_tokens - len(reader.words) + 1
        if room < 1 or not reader.words:
            if reader.opened:  # it will never guess for this text again
                self._runtime.close(ask.key)
                reader.opened, reader.n_kept = False, 0
            return None
        if not reader.opened:
            try:
                reader.n_kept = self._runtime.open(ask.key, reader.words)
            except CapacityError:
                return None
            reader.opened = True
        return _Growth(ask=ask, reader=reader, max_depth=min(ask.max_depth, ask.max_nodes, room))

    def _catch_up(self, live: list[_Growth]) -> list[_Growth]:
        """Read all but the last stretch of what the model is behind."""
        while True:
            behind = [
                (g, g.reader.words[g.reader.n_kept : g.reader.n_kept + CATCH_UP_TOKENS])
                for g in live
                if len(g.reader.words) - g.reader.n_kept > CATCH_UP_TOKENS
            ]
            if not behind:
                return live
            rows = [
                Rows(key=g.ask.key, tokens=w, parents=range(-1, len(w) - 1), asked=())
                for g, w in behind
            ]
            full = {row.key for row in rows if not self._reserved(row)}
            rows = [row for row in rows if row.key not in full]
            live = [g for g in live if g.ask.key not in full]
            if rows:
                self._runtime.extend(rows)
            for row in rows:
                self._runtime.keep(row.key, range(len(row.tokens)))
                self._readers[row.key].n_kept += len(row.tokens)

    def _reserved(self, rows: Rows) -> bool:
        try:
            self._runtime.reserve(rows.key, len(rows.tokens))
        except CapacityError:
            return False
        return True

    def _pass(self, live: list[_Growth]) -> list[tuple[_Growth, Scores]]:
        """One pass for all: what each is behind, and the guesses so far.

        Kept is what it was behind, except the last word: its row is where the next pass asks, and
        a sequence asked twice without a new token must have it again.
        """
        batch: list[tuple[_Growth, Rows]] = []
        for g in live:
            words = g.reader.words[g.reader.n_kept :]
            last = len(words) - 1
            rows = Rows(
                key=g.ask.key,
                tokens=[*words, *g.words],
                parents=[*range(-1, last), *(last + 1 + parent for parent in g.parents)],
                asked=[last + 1 + leaf for leaf in g.leaves],
            )
            if self._reserved(rows):
                batch.append((g, rows))
        scores = self._runtime.extend([rows for _, rows in batch]) if batch else []
        for g, rows in batch:
            n = len(rows.tokens) - len(g.words) - 1
            self._runtime.keep(g.ask.key, range(n))
            g.reader.n_kept += n
        return [(g, s) for (g, _), s in zip(batch, scores, strict=True)]

    def _grow(self, g: _Growth, scores: Scores) -> bool:
        """Add the children of the leaves; whether the draft can grow further."""
        if scores.logits_AV is None:
            raise ContractError("the draft model's runtime returned no logits")
        laws = Laws(
            sampling=g.ask.sampling,
            history=g.history,
            paths=[g.path(leaf) for leaf in g.leaves],
            logits_AV=torch.stack([self._dictionary.widen(row_D) for row_D in scores.logits_AV]),
            mask=g.ask.mask,
            eos_ids=self._config.eos_ids,
        )
        try:
            found = self._drawn(g, laws) if g.ask.style == "drawn" else self._picked(g, laws)
        except RequestError:  # no token is allowed next; the target will say so itself
            return False
        g.leaves = []
        for chance, token, parent in found:
            if len(g.tokens) == g.ask.max_nodes:
                break
            words = self._dictionary.read([token])
            if len(words) == 1:  # else the model cannot read its own guess, and stops at it
                g.leaves.append(len(g.tokens))
            g.words.append(words[0] if words else 0)
            g.tokens.append(token)
            g.parents.append(parent)
            g.chances.append(chance)
        return bool(g.leaves) and len(g.tokens) < g.ask.max_nodes

    def _drawn(self, g: _Growth, laws: Laws) -> list[tuple[float, int, int]]:
        """One draw from the law that is reported."""
        law_V = laws.law(0)
        g.laws.append(law_V)
        token = g.ask.coins.categorical(law_V, Purpose.DRAFT, len(g.ask.tokens) + len(g.tokens))
        return [(1.0, token, g.leaves[0])]

    def _picked(self, g: _Growth, laws: Laws) -> list[tuple[float, int, int]]:
        """The likeliest few children of all leaves: chance of the path, token, parent.

        For coupled guesses the likeliest are those with the largest log q + noise.
        """
        width = self._config.width if g.ask.trees else 1
        floor = g.ask.worth or self._config.floor
        found: list[tuple[float, int, int]] = []
        coupled = g.ask.style == "coupled" and not g.ask.sampling.greedy
        for row, leaf in enumerate(g.leaves):
            position = len(g.ask.tokens) + len(g.path(leaf))
            above = 1.0 if leaf == ROOT else g.chances[leaf]
            scores_V = laws.coupled_scores(row) if coupled else laws.scores(row)
            law_V = scores_V.softmax(0)
            for _ in range(width):
                if coupled:
                    token = g.ask.coins.coupled(scores_V, position)
                else:
                    token = int(scores_V.argmax())
                if scores_V[token] == -torch.inf:
                    break
                chance = above * float(law_V[token])
                if chance >= floor:
                    found.append((chance, token, leaf))
                if width > 1:
                    scores_V = scores_V.index_fill(0, torch.tensor([token]), -torch.inf)
        found.sort(key=lambda child: -child[0])
        return found[:width]
