"""Continuations by frequency: which tokens followed which contexts, and how far to believe it.

A suffix tree of bounded depth, stored flat (SuffixDecoding 2411.04975 keeps the same tree in
C++): the node of a context of n tokens, n = 1 .. DEPTH, is one entry of a dict keyed by a hash of
those tokens, and holds how often each token followed. Adding a token touches DEPTH entries;
reading a node's children is one look-up per length, without a walk from the root. A collision can
only cost a wrong guess.

Trees are bounded in bytes and forget their oldest tokens exactly, counting down.

A child's probability blends the lengths from the longest down, as PPM compressors do (Cleary and
Witten 1984): a context seen so often, with so many different continuations, is right with a
probability measured once on Spec-Bench (`TRUST`); what it leaves goes to the next shorter one.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from itertools import chain

import numpy as np

DEPTH = 6
# Tokens that are forgotten together.
SEGMENT_TOKENS = 64
# Measured: a context, more for one that branches, and for each of its children.
ENTRY_BYTES, BRANCH_BYTES, CHILD_BYTES = 120, 200, 40
MIB = 2**20
# A node's children: at most so many, none below this probability.
MAX_CHILDREN = 8
LEAST_CHILD = 0.01

# So many tokens at once are hashed together.
_MANY_TOKENS = 8
_FACTOR = 0x9E3779B1
_MASK = (1 << 60) - 1

# TRUST[n - 1][kind]: how often one of the tokens seen after a context of n tokens is next, given
# that those of longer contexts are not; kinds as in `_kind`. Measured on Spec-Bench prompts.
_Trust = tuple[tuple[float, ...], ...]
TEXT_TRUST: _Trust = (
    (0.21, 0.39, 0.21, 0.59, 0.85, 0.58, 0.46, 0.32),
    (0.36, 0.50, 0.30, 0.61, 0.80, 0.61, 0.51, 0.39),
    (0.42, 0.53, 0.26, 0.61, 0.80, 0.60, 0.48, 0.42),
    (0.43, 0.53, 0.28, 0.60, 0.90, 0.80, 0.60, 0.35),
    (0.46, 0.58, 0.25, 0.70, 0.95, 0.80, 0.60, 0.35),
    (0.87, 0.96, 0.62, 0.99, 0.99, 0.97, 0.91, 0.65),
)
SHARE_TRUST: _Trust = (
    (0.10, 0.13, 0.09, 0.20, 0.20, 0.61, 0.30, 0.15),
    (0.15, 0.19, 0.16, 0.25, 0.35, 0.60, 0.28, 0.10),
    (0.22, 0.34, 0.14, 0.34, 0.75, 0.58, 0.33, 0.11),
    (0.22, 0.30, 0.20, 0.42, 0.65, 0.65, 0.25, 0.08),
    (0.26, 0.33, 0.21, 0.45, 0.60, 0.70, 0.20, 0.06),
    (0.60, 0.88, 0.47, 0.85, 0.85, 0.90, 0.67, 0.16),
)


# What followed a context: one token seen once, or counts by token.
Followers = int | dict[int, int]
# The last DEPTH tokens, newest first.
Tail = tuple[int, ...]


class Tree:
    """Counts of what followed each context of 1 .. DEPTH tokens, within a budget of bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.nodes: dict[int, Followers] = {}
        self.n_bytes = 0
        self._max_bytes = max_bytes
        # Oldest first: tokens, the first few of which are context only.
        self._segments: deque[tuple[list[int], int]] = deque()

    def add(self, text: Seq[int], n_before: int) -> None:
        """Learn text[n_before:], each token after the up to DEPTH before it."""
        nodes, n_bytes = self.nodes, 0
        for key, token in contexts(text, n_before):
            found = nodes.get(key)
            if found is None:
                nodes[key] = token
                n_bytes += ENTRY_BYTES
            elif isinstance(found, int):
                nodes[key] = {found: 2} if found == token else {found: 1, token: 1}
                n_bytes += BRANCH_BYTES + CHILD_BYTES * (1 + (found != token))
            elif token in found:
                found[token] += 1
            else:
                found[token] = 1
                n_bytes += CHILD_BYTES
        self.n_bytes += n_bytes

    def remove(self, text: Seq[int], n_before: int) -> None:
        """Unlearn what `add` learned from the same tokens."""
        nodes, n_bytes = self.nodes, 0
        for key, token in contexts(text, n_before):
            found = nodes[key]
            if isinstance(found, int):
                del nodes[key]
                n_bytes += ENTRY_BYTES
                continue
            found[token] -= 1
            if not found[token]:
                del found[token]
                n_bytes += CHILD_BYTES
            if len(found) == 1 and 1 in found.values():
                nodes[key] = next(iter(found))
                n_bytes += BRANCH_BYTES + CHILD_BYTES
        self.n_bytes -= n_bytes

    def seal(self, text: list[int], n_before: int) -> None:
        """Take a finished segment into the order of forgetting; forget what is too much."""
        self._segments.append((text, n_before))
        while self.n_bytes > self._max_bytes and self._segments:
            self.remove(*self._segments.popleft())

    def followers(self, tail: Tail) -> list[Followers]:
        """What followed the last 1, 2, .. tokens, as far as those were seen."""
        nodes, key = self.nodes, 0
        found: list[Followers] = []
        for token in tail:
            key = (key * _FACTOR + token + 1) & _MASK
            node = nodes.get(key)
            if node is None:  # then no longer context was seen either
                break
            found.append(node)
        return found


def contexts(text: Seq[int], n_before: int) -> Iterable[tuple[int, int]]:
    """For each token of text[n_before:], the keys of the 1 .. DEPTH tokens before it, and it."""
    if len(text) - n_before < _MANY_TOKENS:
        return _contexts(text, n_before)
    text_N = np.array(text, np.uint64)
    key_N = np.zeros(len(text), np.uint64)
    pairs: list[Iterable[tuple[int, int]]] = []
    for n in range(1, DEPTH + 1):  # wraps at 64 bits, which leaves the lower 60 as they are
        key_N[n:] = key_N[n:] * np.uint64(_FACTOR) + text_N[:-n] + np.uint64(1)
        first = max(n_before, n)
        keys = (key_N[first:] & np.uint64(_MASK)).tolist()
        pairs.append(zip(keys, text[first:], strict=True))
    return chain.from_iterable(pairs)


def _contexts(text: Seq[int], n_before: int) -> Iterator[tuple[int, int]]:
    for at in range(n_before, len(text)):
        token, key = text[at], 0
        for back in range(at - 1, max(-1, at - 1 - DEPTH), -1):
            key = (key * _FACTOR + text[back] + 1) & _MASK
            yield key, token


class Pen:
    """Writes one text into a tree, in segments that can be forgotten one by one."""

    __slots__ = ("_n_before", "_open", "tree")

    def __init__(self, tree: Tree, before: Seq[int] = ()) -> None:
        self.tree = tree
        self._open = list(before[-DEPTH:])
        self._n_before = len(self._open)

    def write(self, tokens: Seq[int]) -> None:
        """Append committed tokens."""
        done = 0
        while done < len(tokens):
            room = SEGMENT_TOKENS + self._n_before - len(self._open)
            piece = tokens[done : done + room]
            done += len(piece)
            known = len(self._open)
            self._open.extend(piece)
            self.tree.add(self._open, known)
            if len(piece) == room:
                self._seal()

    def close(self) -> None:
        """End the text; what it taught stays until it is the oldest."""
        if len(self._open) > self._n_before:
            self._seal()

    @property
    def tail(self) -> Tail:
        """The last tokens, newest first."""
        return tuple(self._open[: -DEPTH - 1 : -1])

    def _seal(self) -> None:
        self.tree.seal(self._open, self._n_before)
        self._open = self._open[-DEPTH:]
        self._n_before = len(self._open)


def _kind(node: dict[int, int]) -> int:
    """Which column of a trust table fits counts of two and more."""
    n, total = len(node), sum(node.values())
    if total == 2:
        return n
    if n == 1:
        return 3 if total < 5 else 4
    return 5 if 3 * n <= total else 6 if 3 * n <= 2 * total else 7


def blend(levels: Seq[Followers], trust: _Trust, share: float, into: dict[int, float]) -> float:
    """Divide `share` of the probability among the followers, longest context first.

    Returns the share that is left for tokens nobody saw.
    """
    for n in range(len(levels) - 1, -1, -1):
        node = levels[n]
        if isinstance(node, int):
            p = share * trust[n][0]
            into[node] = into.get(node, 0.0) + p
        else:
            p = share * trust[n][_kind(node)]
            unit = p / sum(node.values())
            for token, count in node.items():
                into[token] = into.get(token, 0.0) + unit * count
        share -= p
        if share < LEAST_CHILD:
            break
    return share
