"""A decoder that is a table: paging without weights. For tests, yours included.

What a real decoder keeps of a token, a key and a value, is here the token itself and its
position, in the slot where the page tables say. Each row's text is then read back the way
attention would: cached slots, ancestors, itself. A page freed too early, a slot copied to the
wrong place or a stale table shows up as another text, hence other logits, or as an error that
names the slot.
"""

import numpy as np
import torch

from outpace.errors import ContractError
from outpace.runtimes.native.passes import Int32, Pass, PassResult
from outpace.runtimes.toy import Table

_EMPTY = -1


class TableDecoder:
    """A decoder over a `Table`; its logits are those of a `TableRuntime` over the same table.

    n_rows_computed: rows of all passes so far, to see what a known beginning saved.
    """

    def __init__(self, table: Table, *, n_pages: int, page_size: int) -> None:
        self.page_size = page_size
        self.n_pages = n_pages
        self.row_invariant = True
        self.n_rows_computed = 0
        self._table = table
        self._tokens = np.full(n_pages * page_size, _EMPTY, np.int64)
        self._positions = np.full(n_pages * page_size, _EMPTY, np.int64)

    def forward(self, rows: Pass) -> PassResult:
        texts: list[tuple[int, ...]] = []
        for s, n_cached in enumerate(rows.n_cached_S.tolist()):
            start, end = rows.starts_S1[s : s + 2].tolist()
            slots = self._slots(rows.tables_SP[s], n_cached + end - start)
            cached = self._read(slots[:n_cached], s)
            for row in range(start, end):
                parent = int(rows.parents_R[row])
                if not (parent == -1 or start <= parent < row):
                    raise ContractError(f"row {row} has parent {parent}, not before it")
                text = (*(cached if parent == -1 else texts[parent]), int(rows.tokens_R[row]))
                if rows.positions_R[row] != len(text) - 1:
                    raise ContractError(f"row {row} is at {rows.positions_R[row]}, {len(text) - 1}")
                texts.append(text)
            self._tokens[slots[n_cached:]] = rows.tokens_R[start:end]
            self._positions[slots[n_cached:]] = rows.positions_R[start:end]
        self.n_rows_computed += len(texts)
        if not len(rows.asked_A):
            return PassResult()
        logits_AV = torch.stack([self._table(texts[row]) for row in rows.asked_A.tolist()])
        best_A = logits_AV.argmax(-1).tolist()
        return PassResult(logits_AV=logits_AV if rows.logits else None, best_A=best_A)

    def copy_slots(self, sources: Int32, targets: Int32) -> None:
        for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
            self._tokens[target] = self._tokens[source]
            self._positions[target] = self._positions[source]

    def close(self) -> None:
        self._tokens = self._positions = np.empty(0, np.int64)

    def _slots(self, table_P: Int32, n: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        logical = np.arange(n)
        pages = table_P[logical // self.page_size].astype(np.int64)
        if (pages < 0).any():
            raise ContractError(f"{n} slots are needed; the page table ends before: {table_P}")
        return pages * self.page_size + logical % self.page_size

    def _read(
        self, slots: np.ndarray[tuple[int], np.dtype[np.int64]], s: int
    ) -> tuple[int, ...]:  # fmt: skip
        wrong = self._positions[slots] != np.arange(len(slots))
        if wrong.any():
            slot = int(slots[wrong][0])
            raise ContractError(
                f"sequence {s} of the pass reads slot {slot}, which holds position "
                f"{self._positions[slot]}, as position {int(np.flatnonzero(wrong)[0])}"
            )
        return tuple(self._tokens[slots].tolist())
