"""A drafter that draws, chooses or couples its guesses from a law of its own, in a given tree."""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Literal

import torch
from torch import Tensor

from outpace.core.coins import Purpose
from outpace.core.draft import ROOT, Ask, Draft, Seen

# Text after the prompt, guesses included -> law of the next guess [V], float64; all zero = guess
# no further.
GuessLaw = Callable[[tuple[int, ...]], Tensor]
Pick = Literal["chosen", "coupled", "with", "without"]
# Trees by the parents of their nodes.
CHAIN, FORK, ELBOW, LATE = (-1, 0), (-1, -1), (-1, -1, 0), (-1, 0, 0)


class Guesser:
    """Grows the tree `shape` from `law`, as deep as it is asked.

    pick: the likeliest tokens; coupled by the position's noise, siblings being the next best; drawn
    with or without replacement. later: another tree once something was written; None = the same.
    """

    name = "guesser"

    def __init__(
        self,
        law: GuessLaw,
        shape: tuple[int, ...],
        pick: Pick,
        *,
        later: tuple[int, ...] | None = None,
    ) -> None:
        self.law, self._pick = law, pick
        self._shape, self._later = shape, shape if later is None else later

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return [self.guess(ask) for ask in asks]

    def observe(self, seen: Seq[Seen]) -> None:
        pass

    def forget(self, key: int) -> None:
        pass

    def guess(self, ask: Ask) -> Draft:
        """One draft for one ask."""
        output = tuple(ask.tokens[ask.n_prompt :])
        tree = _Tree()
        place = {ROOT: ROOT}  # node of the shape -> node of the draft
        for node, above in enumerate(self._later if output else self._shape):
            if above not in place:
                continue
            parent = place[above]
            depth = tree.depth(parent)
            if depth >= ask.max_depth or len(tree.tokens) >= ask.max_nodes:
                continue
            row = tree.row(parent, self.law, output)
            elder = [t for t, p in zip(tree.tokens, tree.parents, strict=True) if p == parent]
            token = self.pick(ask, tree.laws[row], elder, len(ask.tokens) + depth, len(tree.tokens))
            if token is not None:
                tree.add(token, parent, row)
                place[node] = len(tree.tokens) - 1
        drawn = self._pick in ("with", "without")
        return Draft(
            tokens=tuple(tree.tokens),
            parents=tuple(tree.parents),
            laws_LV=torch.stack(tree.laws) if drawn and tree.tokens else None,
            law_rows=tuple(tree.law_rows) if drawn else (),
            replacement=self._pick == "with",
        )

    def pick(
        self, ask: Ask, q_V: Tensor, elder: Seq[int], position: int, branch: int
    ) -> int | None:
        """One guess from the law, or none where nothing is left."""
        left_V = q_V.clone()
        if self._pick != "with":
            left_V[list(elder)] = 0
        if not left_V.sum() > 0:
            return None
        if self._pick == "chosen":
            return int(left_V.argmax())
        if self._pick == "coupled":
            return ask.coins.coupled(left_V.log(), position)
        return ask.coins.categorical(left_V, Purpose.DRAFT, position, branch)


class _Tree:
    """A draft as it grows, and the laws its guesses came from."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.law_rows: list[int] = []
        self.laws: list[Tensor] = []
        self._rows: dict[int, int] = {}

    def add(self, token: int, parent: int, row: int) -> None:
        self.tokens.append(token)
        self.parents.append(parent)
        self.law_rows.append(row)

    def depth(self, node: int) -> int:
        return len(self._path(node))

    def row(self, parent: int, law: GuessLaw, output: tuple[int, ...]) -> int:
        """The law below a node, as an index into `laws`."""
        if parent not in self._rows:
            self._rows[parent] = len(self.laws)
            self.laws.append(law((*output, *self._path(parent))))
        return self._rows[parent]

    def _path(self, node: int) -> tuple[int, ...]:
        path: list[int] = []
        while node != ROOT:
            path.append(self.tokens[node])
            node = self.parents[node]
        return tuple(reversed(path))
