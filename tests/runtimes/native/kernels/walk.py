"""Random ways through known texts: any chunks, batches, trees and pages, row by row compared.

The reference computes every text alone, token by token, on one thread. A walk then computes the
same texts some other way. Whatever the way, a row that continues a known text must have the
reference's bits.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outpace.runtimes.native.kernels import KernelDecoder, ModelSpec
from outpace.runtimes.native.passes import Pass
from runtimes.native.kernels.tiny import chain

Array = NDArray[Any]


def reference(spec: ModelSpec, texts: list[Array]) -> list[Array]:
    """Logits of every row of every text, computed one token at a time, as bits."""
    decoder = KernelDecoder(spec, n_pages=64, page_size=16, n_threads=1)
    rows = []
    for text in texts:
        one_by_one = [
            decoder.forward(chain(text[i : i + 1], cached=i)).logits_AV for i in range(len(text))
        ]
        rows.append(np.concatenate([row.numpy() for row in one_by_one if row is not None]))
    decoder.close()
    return [row.view(np.int32) for row in rows]


@dataclass(slots=True)
class Rows:
    """The rows one sequence brings to a pass. `known`: the position in its text, or -1."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    known: list[int] = field(default_factory=list)


class Walk:
    """Sequences over known texts, on pages in random order, in one decoder."""

    def __init__(
        self,
        decoder: KernelDecoder,
        texts: list[Array],
        want: list[Array],
        rng: np.random.Generator,
    ) -> None:
        self.decoder, self.texts, self.want, self.rng = decoder, texts, want, rng
        self.cached = [0] * len(texts)
        self.n_compared = 0
        free = rng.permutation(decoder.n_pages)
        room = [-(-(len(t) + 80) // decoder.page_size) for t in texts]
        ends = np.cumsum(room)
        self.tables = [free[end - n : end] for end, n in zip(ends, room, strict=True)]
        assert ends[-1] <= decoder.n_pages

    @property
    def finished(self) -> bool:
        """Are all texts computed?"""
        return all(c == len(t) for c, t in zip(self.cached, self.texts, strict=True))

    def step(self) -> None:
        """One pass over some sequences; every row with a known text is compared."""
        behind = [s for s, text in enumerate(self.texts) if self.cached[s] < len(text)]
        n = int(self.rng.integers(1, len(behind) + 1))
        chosen = [int(s) for s in self.rng.permutation(behind)[:n]]
        brought = [self._chunk(s) if self.rng.random() < 0.5 else self._tree(s) for s in chosen]
        rows = self._assemble(chosen, brought)
        logits_AV = self.decoder.forward(rows).logits_AV
        assert logits_AV is not None
        got = dict(zip(rows.asked_A.tolist(), logits_AV.numpy().view(np.int32), strict=True))
        for s, some, start in zip(chosen, brought, rows.starts_S1.tolist(), strict=False):
            for row, position in enumerate(some.known):
                if position >= 0 and start + row in got:
                    assert np.array_equal(got[start + row], self.want[s][position])
                    self.n_compared += 1
            self._keep(s, some)

    def _left(self, s: int, most: int) -> int:
        few = 1 + int(self.rng.exponential(6)) if self.rng.random() < 0.7 else most
        return min(len(self.texts[s]) - self.cached[s], int(self.rng.integers(1, few + 1)))

    def _chunk(self, s: int) -> Rows:
        n, at = self._left(s, 200), self.cached[s]
        return Rows(
            tokens=self.texts[s][at : at + n].tolist(),
            parents=list(range(-1, n - 1)),
            known=list(range(at, at + n)),
        )

    def _tree(self, s: int) -> Rows:
        """The true text somewhere in a tree of wrong guesses, at most 64 rows."""
        n, at, rows = self._left(s, 40), self.cached[s], Rows()
        last = -1
        for position in range(at, at + n):
            for _ in range(min(int(self.rng.geometric(0.6)) - 1, 64 - n - len(rows.tokens))):
                rows.parents.append(int(self.rng.integers(-1, len(rows.tokens))))
                rows.tokens.append(int(self.rng.integers(0, self.decoder.spec.vocab)))
                rows.known.append(-1)
            rows.parents.append(last)
            last = len(rows.tokens)
            rows.tokens.append(int(self.texts[s][position]))
            rows.known.append(position)
        return rows

    def _assemble(self, chosen: list[int], brought: list[Rows]) -> Pass:
        sizes = [len(rows.tokens) for rows in brought]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        parents, positions = [], []
        for s, rows, start in zip(chosen, brought, starts.tolist(), strict=False):
            at: list[int] = []
            for parent in rows.parents:
                at.append(self.cached[s] if parent < 0 else at[parent] + 1)
                parents.append(parent if parent < 0 else start + parent)
            positions += at
        tables = np.full((len(chosen), max(len(self.tables[s]) for s in chosen)), -1, np.int32)
        for row, s in zip(tables, chosen, strict=True):
            row[: len(self.tables[s])] = self.tables[s]
        n_rows = int(starts[-1])
        asked = np.flatnonzero(self.rng.random(n_rows) < self.rng.choice([0.3, 1.0]))
        return Pass(
            tokens_R=np.array([t for rows in brought for t in rows.tokens], np.int32),
            positions_R=np.array(positions, np.int32),
            parents_R=np.array(parents, np.int32),
            starts_S1=starts,
            n_cached_S=np.array([self.cached[s] for s in chosen], np.int32),
            tables_SP=tables,
            asked_A=(asked if len(asked) else np.array([n_rows - 1])).astype(np.int32),
            logits=True,
        )

    def _keep(self, s: int, rows: Rows) -> None:
        """Compact a random part of the known path to follow the cached text."""
        path = [row for row, position in enumerate(rows.known) if position >= 0]
        path = path[: int(self.rng.integers(1, len(path) + 1))]
        sources = self._slots(s, [self.cached[s] + row for row in path])
        targets = self._slots(s, [self.cached[s] + i for i in range(len(path))])
        moved = sources != targets
        self.decoder.copy_slots(sources[moved], targets[moved])
        self.cached[s] += len(path)

    def _slots(self, s: int, logical: list[int]) -> Array:
        at, size = np.array(logical), self.decoder.page_size
        slots: Array = (self.tables[s][at // size] * size + at % size).astype(np.int32)
        return slots
