"""Guess that the text repeats itself: what followed the same words before may follow them again.

Prompt lookup (Saxena 2023; LLMA 2304.04487) with an index instead of a scan. As in LZ77
compressors, every position is chained to the previous one with the same last one, two and three
tokens, so that adding a token costs three dict entries, and the earlier occurrences of what the
text ends with are found by following links, newest first, without a search. Each occurrence is
extended backward to its true match length.

The longer the match, the likelier its continuation: `CONFIDENCE` is that curve, measured on
answers to Spec-Bench prompts. It alone decides how deep a match is
followed and how the continuations of several matches share a tree.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from outpace.core.draft import Ask, Draft, Seen
from outpace.drafters.tree import NO_OFFER, Offer, grow

# Probability that the token after a match of this many tokens is the text's next one.
CONFIDENCE = (
    0.0, 0.32, 0.63, 0.73, 0.78, 0.83, 0.85, 0.88, 0.89,
    0.90, 0.90, 0.91, 0.92, 0.94, 0.95, 0.96, 0.97,
)  # fmt: skip
MAX_MATCH = len(CONFIDENCE) - 1
# Paths less likely than this are not offered.
FLOOR = 0.02
# Occurrences looked at, newest first, of the last three, two and one tokens.
MAX_LOOKS = (12, 6, 3)

_BITS = 20
_PAIR = (1 << 2 * _BITS) - 1
_TRIPLE = (1 << 3 * _BITS) - 1

# An earlier occurrence: where its continuation begins, and how many tokens before that match.
Match = tuple[int, int]
# Matches still alive on a path, best first, and how many tokens long the path is.
Alive = tuple[list[Match], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupConfig:
    """What a user can turn.

    min_match: shortest match that is followed. floor: least path probability that is offered
    where the ask does not say what a row is worth.
    """

    min_match: int = 1
    floor: float = FLOOR


class Text:
    """One sequence's tokens, each position chained to earlier ones with the same last tokens."""

    __slots__ = ("_grams", "_key", "before", "tokens")

    def __init__(self) -> None:
        self.tokens: list[int] = []
        # before[n - 1][i]: the last j < i whose n tokens before j equal those before i; 0 = none.
        self.before: tuple[list[int], list[int], list[int]] = ([0], [0], [0])
        self._grams: tuple[dict[int, int], ...] = ({}, {}, {})
        self._key = 0  # the last tokens, packed; wrong keys only make wrong guesses

    def extend(self, tokens: Seq[int]) -> None:
        """Append committed tokens."""
        one, two, three = self._grams
        before1, before2, before3 = self.before
        key, end = self._key, len(self.tokens)
        for token in tokens:
            end += 1
            key = (key << _BITS | token) & _TRIPLE
            pair = key & _PAIR
            before1.append(one.get(token, 0))
            one[token] = end
            if end > 1:
                before2.append(two.get(pair, 0))
                two[pair] = end
            else:
                before2.append(0)
            if end > 2:
                before3.append(three.get(key, 0))
                three[key] = end
            else:
                before3.append(0)
        self._key = key
        self.tokens.extend(tokens)

    def matches(self, min_match: int) -> list[Match]:
        """Earlier occurrences of the text's end: longest match first, then newest."""
        found: list[Match] = []
        known: set[int] = set()
        for n, max_looks in zip((3, 2, 1), MAX_LOOKS, strict=True):
            links = self.before[n - 1]
            at = links[-1]
            for _ in range(max_looks):
                if not at:
                    break
                if at not in known:
                    known.add(at)
                    found.append((at, self._length(at, n) if n == 3 else n))
                at = links[at]
        found.sort(key=_by_length, reverse=True)
        return [m for m in found if m[1] >= min_match]

    def _length(self, at: int, known: int) -> int:
        tokens, end, n = self.tokens, len(self.tokens), known
        limit = min(at, MAX_MATCH)
        while n < limit and tokens[at - n - 1] == tokens[end - n - 1]:
            n += 1
        return n

    def following(self, alive: Alive) -> list[tuple[int, float, Alive]]:
        """The tokens that followed the matches, each with its estimated probability.

        A match that runs into the end of the text goes on with its own beginning: the text is
        then taken to be periodic.
        """
        matches, depth = alive
        tokens, end = self.tokens, len(self.tokens)
        groups: dict[int, list[Match]] = {}
        for match in matches:
            at = match[0] + depth
            if at >= end:
                at = match[0] + depth % (end - match[0])
            groups.setdefault(tokens[at], []).append(match)
        if len(groups) == 1:
            p = CONFIDENCE[min(matches[0][1] + depth, MAX_MATCH)]
            return [(token, p, (group, depth + 1)) for token, group in groups.items()]
        total = sum(_weight(n + depth) for _, n in matches)
        return [
            (
                token,
                CONFIDENCE[min(group[0][1] + depth, MAX_MATCH)]
                * sum(_weight(n + depth) for _, n in group)
                / total,
                (group, depth + 1),
            )
            for token, group in groups.items()
        ]


def _by_length(match: Match) -> tuple[int, int]:
    return match[1], match[0]


def _weight(length: int) -> float:
    return _WEIGHTS[min(length, MAX_MATCH)]


_WEIGHTS = tuple(c / (1 - c) for c in CONFIDENCE)


class LookupDrafter:
    """Offers what followed earlier occurrences of the text's last tokens, in this text alone."""

    name = "lookup"

    def __init__(self, config: LookupConfig | None = None) -> None:
        self._config = config or LookupConfig()
        self._texts: dict[int, Text] = {}

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return [self.offer(ask).draft() for ask in asks]

    def offer(self, ask: Ask) -> Offer:
        """The guesses with their estimated chances."""
        text = self._texts.get(ask.key)
        if text is None or len(text.tokens) > len(ask.tokens):
            text = self._texts[ask.key] = Text()
        if len(text.tokens) < len(ask.tokens):  # it was not told of everything
            text.extend(ask.tokens[len(text.tokens) :])
        matches = text.matches(self._config.min_match)
        if not matches:
            return NO_OFFER
        return grow(text.following, (matches, 0), ask, floor=self._config.floor, source=self.name)

    def observe(self, seen: Seq[Seen]) -> None:
        """Only a text's beginning is read here: `offer` reads the rest from its ask, when asked."""
        for s in seen:
            if not s.start:
                text = self._texts[s.key] = Text()
                text.extend(s.tokens)

    def forget(self, key: int) -> None:
        self._texts.pop(key, None)
