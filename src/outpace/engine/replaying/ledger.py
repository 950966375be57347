"""The recorded numbers of one round, as a rule uses them up while it is walked again.

The laws are replaced by their recorded entries, which the recorded steps change as guesses are
lost. Arithmetic is done in the laws' own precision, so that equal means equal.
"""

from collections import deque
from typing import Any

import numpy as np

from outpace.core.coins import Purpose, toss
from outpace.core.draft import ROOT
from outpace.engine.replaying.audit import Audit
from outpace.engine.tracing import lines, stage
from outpace.engine.tracing.course import Course

# How far two sums of the same terms, or a law and its logits, may differ by rounding.
LOOSE = {"float32": 1e-4, "float64": 1e-10}
_FLOATS: dict[str, type[np.floating[Any]]] = {"float32": np.float32, "float64": np.float64}


class Ledger:
    """The recorded numbers of one round, as the rule uses them up."""

    def __init__(
        self, line: lines.Round, accept: stage.Accept, course: Course, audit: Audit
    ) -> None:
        self.audit = audit
        self.course = course
        self.line = line
        self.tokens = line.draft.output.tokens
        self.rows = {row.row: row for row in line.score.output.rows}
        self.loose = LOOSE.get(line.score.output.dtype, 0.0)
        self._children: list[list[int]] = [[] for _ in range(len(self.tokens) + 1)]
        self.depths: list[int] = []
        for node, parent in enumerate(line.draft.output.parents):
            self._children[parent + 1].append(node)
            self.depths.append(1 if parent == ROOT else self.depths[parent] + 1)
        self._float = _FLOATS.get(line.score.output.dtype, np.float64)
        self._judged = deque(accept.input.judged)
        self._steps = deque(accept.input.steps)
        self._p = {row: self._first_p(row) for row in self.rows}

    def _first_p(self, row: int) -> dict[int, float]:
        found = self.rows[row]
        if self.course.greedy:  # the law is one-hot; `p` says how it would be at temperature 1
            return {token: float(token == found.choice) for token in found.tokens}
        return dict(zip(found.tokens, found.p, strict=False))

    def children(self, node: int) -> list[int]:
        """The guesses after `node`; none where no token may follow it."""
        row = self.rows.get(node + 1)
        return [] if row is not None and not row.tokens else self._children[node + 1]

    def row(self, row: int) -> stage.Row:
        """A recorded row."""
        if row not in self.rows:
            raise self.audit.missing(f"row {row} was read")
        return self.rows[row]

    def p(self, row: int, token: int) -> float:
        """What is left of the law at `row` for `token`, after the guesses lost there."""
        if token not in self._p.get(row, {}):
            raise self.audit.missing(f"p of token {token} at row {row} was read")
        return self._p[row][token]

    def q(self, node: int) -> float:
        """The guess's probability in the law it was drawn from; 1 for a chosen guess."""
        laws = self.line.draft.output.q
        if laws is None:
            return 1.0
        q = laws[node] if node < len(laws) else None
        if q is None:
            raise self.audit.missing(f"q of guess {node} was read")
        return q

    def coin(self, node: int) -> float:
        """The uniform that decides about a guess."""
        start = self.line.start
        position = start + self.depths[node] - 1
        return toss(self.course.request.seed, Purpose.ACCEPT, start, position, node)

    def judge(self, node: int, expected: stage.Judged) -> None:
        """The next recorded judgement must be this one, bit by bit."""
        if not self._judged:
            raise self.audit.missing(f"guess {node} was judged")
        found = self._judged.popleft()
        for name in ("node", "token", "p", "q", "weight", "mass", "a", "u", "kept"):
            says = f"guess {node}, {name}"
            self.audit.same(says, getattr(found, name), getattr(expected, name))

    def weigh(
        self, node: int, *, p: float, q: float, a: float, weight: float = 1.0, mass: float = 0.0
    ) -> bool:
        """Judge a guess by its coin: kept where u < a."""
        u = self.coin(node)
        expected = stage.Judged(
            node=node, token=self.tokens[node], p=p, q=q, weight=weight, mass=mass, a=a,
            u=u, kept=u < a,
        )  # fmt: skip
        self.judge(node, expected)
        return u < a

    def take(self, row: int, child: int, scale: float) -> float:
        """Take a lost guess out of its row's law, as the next step must; returns its mass."""
        says = f"residual at row {row} after guess {child}"
        if not self._steps:
            raise self.audit.missing(says)
        step = self._steps.popleft()
        for name, value in (("row", row), ("child", child), ("scale", scale)):
            self.audit.same(f"{says}, {name}", getattr(step, name), value)
        self.audit.near(f"{says}, left", step.left, step.mass, rel=self.loose, least=1e-300)
        tokens = self.row(row).tokens
        if not len(tokens) == len(step.q) == len(step.p):
            raise self.audit.missing(f"{says} at every recorded token")
        after = dict(zip(tokens, step.p, strict=True))
        for token, q, found in zip(tokens, step.q, step.p, strict=True):
            expected = self._residual(row, token, scale, q, step.left)
            self.audit.same(f"{says}, p of token {token}", found, expected)
            if token == self.tokens[child] and q is not None:
                self.audit.same(f"{says}, q of the guess", q, self.q(child))
        self._p[row] = after
        return step.mass

    def _residual(self, row: int, token: int, scale: float, q: float | None, left: float) -> float:
        p = self.p(row, token)
        if left <= 0:
            return p
        if q is None:
            return 0.0
        kind = self._float
        with np.errstate(all="ignore"):  # a changed number may be out of range; it just differs
            rest = kind(scale) * kind(p) - kind(q)
            return float(rest / kind(left)) if rest > 0 else 0.0

    def finish(self) -> None:
        """Nothing may be recorded that no decision read."""
        self.audit.same("judgements beyond the last decision", len(self._judged), 0)
        self.audit.same("residuals beyond the last decision", len(self._steps), 0)
