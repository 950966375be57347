"""Drafters for the laws: any tree, drawn, chosen or coupled, as good or bad as a test wants."""

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

#   chosen    the likeliest tokens of the law, no law reported
#   coupled   argmax of log q + the position's noise; siblings are the next best
#   with      drawn with replacement        without   drawn without replacement
Pick = Literal["chosen", "coupled", "with", "without"]

# Trees by the parents of their nodes.
CHAIN1, CHAIN2, CHAIN3 = (-1,), (-1, 0), (-1, 0, 1)
FORK = (-1, -1)  # two guesses for one place
ELBOW = (-1, -1, 0)  # the elder one goes on
LATE = (-1, 0, 0)  # one guess, then two
BOUGHS = (-1, -1, 0, 1)  # both go on
TRIPLE = (-1, -1, -1)


class Guesser:
    """Grows the tree `shape` from `law`; what is too deep for the ask is left out.

    later: another tree once something was written; None = the same.
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
        self.law = law
        self._shape = shape
        self._later = shape if later is None else later
        self._pick = pick

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return [self.guess(ask) for ask in asks]

    def observe(self, seen: Seq[Seen]) -> None:
        pass

    def forget(self, key: int) -> None:
        pass

    def guess(self, ask: Ask) -> Draft:
        """One draft for one ask."""
        output = tuple(ask.tokens[ask.n_prompt :])
        tokens: list[int] = []
        parents: list[int] = []
        law_rows: list[int] = []
        laws: list[Tensor] = []
        built = {ROOT: (ROOT, 0)}  # node of the shape -> (node of the draft, its depth)
        rows: dict[int, int] = {}
        for node, above in enumerate(self._later if output else self._shape):
            if above not in built or built[above][1] >= ask.max_depth:
                continue
            if len(tokens) >= ask.max_nodes:
                break
            parent, depth = built[above]
            if parent not in rows:
                path, up = list[int](), parent
                while up != ROOT:
                    path.insert(0, tokens[up])
                    up = parents[up]
                rows[parent] = len(laws)
                laws.append(self.law((*output, *path)))
            q_V = laws[rows[parent]]
            elder = [t for t, p in zip(tokens, parents, strict=True) if p == parent]
            token = self.pick(ask, q_V, elder, (len(ask.tokens) + depth, len(tokens)))
            if token is None:
                continue
            tokens.append(token)
            parents.append(parent)
            law_rows.append(rows[parent])
            built[node] = (len(tokens) - 1, depth + 1)
        drawn = self._pick in ("with", "without")
        return Draft(
            tokens=tuple(tokens), parents=tuple(parents),
            laws_LV=torch.stack(laws) if drawn and tokens else None,
            law_rows=tuple(law_rows) if drawn else (), replacement=self._pick == "with",
        )  # fmt: skip

    def pick(self, ask: Ask, q_V: Tensor, elder: Seq[int], where: tuple[int, int]) -> int | None:
        """One guess from the law, or none where nothing is left; where = (position, branch)."""
        left_V = q_V.clone()
        if self._pick != "with":
            left_V[list(elder)] = 0
        if not left_V.sum() > 0:
            return None
        if self._pick == "chosen":
            return int(left_V.argmax())
        if self._pick == "coupled":
            return ask.coins.coupled(left_V.log(), where[0])
        return ask.coins.categorical(left_V, Purpose.DRAFT, *where)
