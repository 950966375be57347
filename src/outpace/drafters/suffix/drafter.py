"""Guess what usually follows: continuations by frequency, in this text and in earlier answers.

Two trees are read. *This text's* learns every token, prompt included. *The answers'* is shared by
all requests of the process: it learns the tokens that requests were answered with while they are
written, so that siblings of one prompt help each other; prompts never enter it. Requests before
can therefore change how fast a text comes, never what it says; `share_bytes = 0` turns that off.

Learning a token touches a dozen dict entries, a few microseconds that a text which is not guessed
for should not pay. So after the prompt, `observe` only keeps the tokens, and trees are written when
an offer is asked for: with the rest of its text, and with the answers of others, some tokens at a
time. What that costs is then part of what the draft costs, where the control sees it.
"""

from collections import deque
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from outpace.core.draft import Ask, Draft, Seen
from outpace.drafters.suffix.tree import (
    DEPTH,
    LEAST_CHILD,
    MAX_CHILDREN,
    MIB,
    SHARE_TRUST,
    TEXT_TRUST,
    Pen,
    Tail,
    Tree,
    blend,
)
from outpace.drafters.tree import Offer, grow
from outpace.errors import ConfigError

# Tokens of other texts' answers that an offer adds to the shared tree, and ended answers that
# wait for it at most.
SHARE_TOKENS = 32
MOST_WAITING = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class SuffixConfig:
    """What a user can turn.

    text_bytes: most memory for one text's tree. share_bytes: most memory for the tree of all
    answers; 0 = nothing is learned across requests. floor: least path probability offered where
    the ask does not say what a row is worth.
    """

    text_bytes: int = 64 * MIB
    share_bytes: int = 128 * MIB
    floor: float = 0.02

    def __post_init__(self) -> None:
        if self.text_bytes < MIB or (self.share_bytes and self.share_bytes < MIB):
            raise ConfigError(
                f"suffix trees of {self.text_bytes} and {self.share_bytes} bytes; allowed: at "
                f"least {MIB} for a text, and 0 (off) or at least {MIB} shared"
            )


@dataclass(slots=True, eq=False)
class _Text:
    """A text being written. Its first n_own tokens are in its own tree, its answer's up to
    n_shared in the shared one; waits: whether it is in line for that."""

    tokens: list[int] = field(default_factory=list)
    n_own: int = 0
    own: Pen | None = None
    n_shared: int = 0
    answer: Pen | None = None
    waits: bool = False
    ended: bool = False


class SuffixDrafter:
    """Offers frequent continuations of the text's end, from this text and from past answers."""

    name = "suffix"

    def __init__(self, config: SuffixConfig | None = None) -> None:
        self._config = config or SuffixConfig()
        self.shared = Tree(self._config.share_bytes)
        self._texts: dict[int, _Text] = {}
        self._line: deque[_Text] = deque()  # texts whose answers have tokens to share

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return [self.offer(ask).draft() for ask in asks]

    def offer(self, ask: Ask) -> Offer:
        """The guesses with their estimated chances."""
        text = self._texts.get(ask.key)
        if text is None or len(text.tokens) > len(ask.tokens):
            self.forget(ask.key)
            text = self._texts[ask.key] = _Text()
        if len(text.tokens) < len(ask.tokens):  # what it was not told of, nobody else learns
            text.tokens.extend(ask.tokens[len(text.tokens) :])
        self._share(SHARE_TOKENS)
        pen, shared = self._read(text), self.shared
        own = pen.tree

        def expand(tail: Tail) -> list[tuple[int, float, Tail]]:
            into: dict[int, float] = {}
            left = blend(own.followers(tail), TEXT_TRUST, 1.0, into)
            if left > LEAST_CHILD and shared.nodes:
                blend(shared.followers(tail), SHARE_TRUST, left, into)
            likely = [(p, token) for token, p in into.items() if p >= LEAST_CHILD]
            likely.sort(reverse=True)
            return [(token, p, (token, *tail[: DEPTH - 1])) for p, token in likely[:MAX_CHILDREN]]

        return grow(expand, pen.tail, ask, floor=self._config.floor, source=self.name)

    def observe(self, seen: Seq[Seen]) -> None:
        texts, shares = self._texts, self._config.share_bytes > 0
        for s in seen:
            if s.start == 0:
                self.forget(s.key)
                texts[s.key] = _Text(tokens=list(s.tokens))
                self._read(texts[s.key])
                continue
            text = texts.get(s.key)
            if text is None or s.start != len(text.tokens):
                continue  # `offer` reads what was missed from the ask
            text.tokens.extend(s.tokens)
            if shares and not text.waits and s.tokens:
                text.n_shared = text.n_shared or s.start
                text.waits = True
                self._line.append(text)

    def forget(self, key: int) -> None:
        text = self._texts.pop(key, None)
        if text is None:
            return
        text.ended, text.own = True, None
        if not text.waits and text.answer is not None:
            text.answer.close()
        while len(self._line) > MOST_WAITING:  # one that still runs comes back with its next token
            self._line.popleft().waits = False

    def _read(self, text: _Text) -> Pen:
        """Write what is new of a text into its own tree."""
        pen = text.own
        if pen is None:
            pen = text.own = Pen(Tree(self._config.text_bytes))
        if text.n_own < len(text.tokens):
            pen.write(text.tokens[text.n_own :])
            text.n_own = len(text.tokens)
        return pen

    def _share(self, most: int) -> None:
        """Write so many tokens of the answers in line into the shared tree."""
        while self._line and most > 0:
            text = self._line[0]
            new = text.tokens[text.n_shared : text.n_shared + most]
            if text.answer is None:
                text.answer = Pen(self.shared, text.tokens[: text.n_shared])
            text.answer.write(new)
            most -= len(new)
            text.n_shared += len(new)
            if text.n_shared == len(text.tokens):
                self._line.popleft()
                text.waits = False
                if text.ended:
                    text.answer.close()
