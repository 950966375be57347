"""Stage 1, guess: a `Draft` is a tree of guesses and the laws they were drawn from.

A chain is a tree whose nodes have one child each; no guesses at all is the empty tree. Parents
come before their children, so index order is a valid order of evaluation everywhere.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Literal, Protocol

from torch import Tensor

from outpace.core.coins import Coins
from outpace.core.law import TokenMask
from outpace.core.sampling import Sampling
from outpace.errors import ContractError

# How a drafter may pick its guesses, and what verification then needs from it:
#   chosen   any deterministic choice, no law reported
#   coupled  argmax of log q + the position's shared noise (seeded requests), no law reported
#   drawn    drawn from q, and q is reported
Style = Literal["chosen", "coupled", "drawn"]
ROOT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Guesses below the committed text.

    tokens: N token ids.
    parents: N indices of earlier nodes; ROOT (-1) = directly after the committed text.
    laws_LV: for drawn guesses, the laws they were **actually** drawn from, [L, V], each summing
        to 1; None for chosen or coupled guesses (each then counts as a one-hot law).
    law_rows: N indices into laws_LV; siblings share one.
    replacement: whether drawn siblings were drawn independently (True) or without replacement.
    sources: N names of the drafter each guess came from, for records and controls.
    chances: N estimates, made before any draw, of how likely each guess is to be kept (its whole
        path); controls learn from them how far to trust the drafter.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    laws_LV: Tensor | None = None
    law_rows: tuple[int, ...] = ()
    replacement: bool = False
    sources: tuple[str, ...] = ()
    chances: tuple[float, ...] = ()
    children: tuple[tuple[int, ...], ...] = field(init=False)  # by parent + 1
    depths: tuple[int, ...] = field(init=False)  # 1 = directly after the committed text

    def __post_init__(self) -> None:
        n = len(self.tokens)
        notes = (self.sources, self.chances)
        if len(self.parents) != n or any(note and len(note) != n for note in notes):
            raise ContractError(f"a draft of {n} tokens needs as many parents, sources and chances")
        if (self.laws_LV is not None) != bool(self.law_rows) and n:
            raise ContractError("drawn guesses need a law row each; chosen ones have none")
        if self.laws_LV is not None and len(self.law_rows) != n:
            raise ContractError(f"{n} drawn guesses came with {len(self.law_rows)} law rows")
        children: list[list[int]] = [[] for _ in range(n + 1)]
        depths: list[int] = []
        for node, parent in enumerate(self.parents):
            if not ROOT <= parent < node:
                raise ContractError(f"guess {node} has parent {parent}; parents come first")
            children[parent + 1].append(node)
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        object.__setattr__(self, "children", tuple(tuple(c) for c in children))
        object.__setattr__(self, "depths", tuple(depths))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def drawn(self) -> bool:
        """Whether the guesses were drawn from reported laws."""
        return self.laws_LV is not None

    @property
    def is_chain(self) -> bool:
        """Whether every node has at most one child."""
        return all(len(c) <= 1 for c in self.children)

    @property
    def depth(self) -> int:
        """Length of the longest path, in tokens."""
        return max(self.depths, default=0)

    def path(self, node: int) -> tuple[int, ...]:
        """Nodes from below the root down to `node`, both included; empty for ROOT."""
        path: list[int] = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return tuple(reversed(path))

    def guesses(self, node: int) -> tuple[int, ...]:
        """Tokens from below the root down to `node`."""
        return tuple(self.tokens[i] for i in self.path(node))

    def law(self, node: int) -> Tensor:
        """The law `node` was drawn from, [V]."""
        if self.laws_LV is None:
            raise ContractError("chosen guesses have no law")
        return self.laws_LV[self.law_rows[node]]


NO_GUESS = Draft()


def chain(tokens: Seq[int], *, laws_LV: Tensor | None = None, source: str = "") -> Draft:
    """A draft that is one chain; `laws_LV` has one row per token when they were drawn."""
    n = len(tokens)
    return Draft(
        tokens=tuple(tokens),
        parents=tuple(range(-1, n - 1)),
        laws_LV=laws_LV,
        law_rows=tuple(range(n)) if laws_LV is not None else (),
        sources=(source,) * n if source else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What one sequence wants guessed this round.

    key: which sequence; the same for its whole life.
    tokens: the committed text, prompt included (read only).
    max_nodes: most guesses in the tree; max_depth: longest path. Both may be 0.
    worth: the least chance of being kept for which a guess pays for its row; a drafter that can
        estimate chances leaves out less likely *chosen* guesses.
    trees: whether a node may have several children.
    style: how to pick guesses; a drafter may always answer `drawn` with a `chosen` draft.
    sampling, coins, mask, n_prompt: the request's own, for drafters that shape or draw from q.
    """

    key: int
    tokens: Seq[int]
    n_prompt: int
    max_nodes: int
    max_depth: int
    trees: bool
    style: Style
    sampling: Sampling
    coins: Coins
    mask: TokenMask | None = None
    worth: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was just committed to one sequence: its prompt first, then each round's tokens.

    start: absolute position of the first of `tokens`. hidden_RH: the target's hidden states of
    the rows before them, when the drafter asked the runtime for them.
    """

    key: int
    start: int
    tokens: Seq[int]
    hidden_RH: Tensor | None = None


class Drafter(Protocol):
    """Anything that guesses. It may be wrong as often as it likes; it may not peek at its draws.

    Which guesses enter a draft may depend on anything known before they were drawn, never on a
    drawn guess's own value (exact only for chosen guesses). `propose` answers every ask, in
    order; an empty draft is always allowed. `observe` is told of every committed token, at depth
    0 too. `forget` ends a sequence and frees what was kept for it.
    """

    name: str

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        """One draft per ask, at most `max_nodes` guesses and `max_depth` deep each."""

    def observe(self, seen: Seq[Seen]) -> None:
        """Learn what was committed."""

    def forget(self, key: int) -> None:
        """Drop all that was kept for this sequence; unknown keys are fine."""
