"""Who reads which keys: a pass turned into tiles of rows against fixed blocks of positions.

Key block b is the positions 256 b to 256 b + 255 of a sequence, whatever page or pass they came
from. Rows of a sequence that follow one another ("straight") share blocks, a tile at a time. A row
on a branch shares the blocks that are cached whole; from the first block that is not, it has
blocks of its own, filled by walking its path, so that its keys stand in order of position like
anyone's. What a row reads is then a function of its text alone, and so is its result.

Planning is integer work, done once a pass (once per window) and reused by every layer.

Shapes: R rows of the pass, E entries (a tile against a block), T rows of a tile, B keys of a block,
U tiles of a group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outpace.errors import ContractError
from outpace.runtimes.native.eager.tiles import fitting
from outpace.runtimes.native.passes import Int32, Pass

KEY_BLOCK: Final = 256
_Int = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Entries of one tile height, computed together.

    rows_UT: row of the pass at each place of a tile, the last one repeated as padding.
    tile_E: which tile an entry belongs to. slots_N: physical slots of its keys, E * B of them.
    hidden_ETB: keys a row must not see. steps: (rows, flat places e * T + t), in block order: the
    partial results to fold into those rows; rows None = all rows of the pass, in their order.
    """

    rows_UT: Tensor
    tile_E: Tensor
    slots_N: Tensor
    hidden_ETB: Tensor
    steps: tuple[tuple[Tensor | None, Tensor], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    rows: _Int
    block: int
    slots_B: _Int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What planning must know of the machine: page size, tile heights, entries at once."""

    page_size: int
    heights: tuple[int, ...]
    max_entries: int


def plan(rows: Pass, *, window: int | None, shape: Shape, device: torch.device) -> list[Group]:
    """The groups of a pass, in the order they must be folded."""
    shared: dict[int, list[_Entry]] = {height: [] for height in shape.heights}
    own: list[_Entry] = []
    for s in range(len(rows.n_cached_S)):
        sequence = _Sequence(rows, s, window=window, page_size=shape.page_size)
        for tile in _cut(sequence.straight, shape.heights):
            blocks = sequence.blocks(tile, sequence.last_block(tile[-1]) + 1)
            shared[fitting(len(tile), shape.heights)] += blocks
        for tile in _cut(sequence.branching, shape.heights):
            whole = sequence.n_cached // KEY_BLOCK
            shared[fitting(len(tile), shape.heights)] += sequence.blocks(tile, whole)
        for row in sequence.branching:
            own += sequence.own_blocks(row)
    groups = []
    for height, entries in (*shared.items(), (shape.heights[0], own)):
        for i in range(0, len(entries), shape.max_entries):
            some = entries[i : i + shape.max_entries]
            groups.append(_group(rows, some, height, window, device))
    return groups


def physical_slots(rows: Pass, page_size: int) -> _Int:
    """Where each row writes its key and value: (R,) slots. ContractError where there is no page."""
    n_rows_S = np.diff(rows.starts_S1)
    sequence_R = np.repeat(np.arange(len(n_rows_S)), n_rows_S)
    offset_R = np.arange(len(rows.tokens_R)) - rows.starts_S1[:-1][sequence_R]
    logical_R = rows.n_cached_S[sequence_R] + offset_R
    page_R = rows.tables_SP[sequence_R, logical_R // page_size].astype(np.int64)
    if (page_R < 0).any():
        raise ContractError(f"rows {np.flatnonzero(page_R < 0)} of the pass have no page")
    slots_R: _Int = page_R * page_size + logical_R % page_size
    return slots_R


class _Sequence:
    """One sequence's rows: which are straight, and which slot holds the key of a position."""

    def __init__(self, rows: Pass, s: int, *, window: int | None, page_size: int) -> None:
        self.begin, end = int(rows.starts_S1[s]), int(rows.starts_S1[s + 1])
        self.n_cached = int(rows.n_cached_S[s])
        self.positions_R, self.parents_R = rows.positions_R, rows.parents_R
        self.window, self.page_size = window, page_size
        self.table_P: Int32 = rows.tables_SP[s]
        all_rows = np.arange(self.begin, end)
        previous = np.where(all_rows > self.begin, all_rows - 1, -1)
        follows = self.parents_R[self.begin : end] == previous
        n_straight = len(all_rows) if follows.all() else int(np.argmin(follows))
        self.straight, self.branching = all_rows[:n_straight], all_rows[n_straight:]

    def last_block(self, row: int) -> int:
        return int(self.positions_R[row]) // KEY_BLOCK

    def first_block(self, row: int) -> int:
        if self.window is None:
            return 0
        return max(0, int(self.positions_R[row]) - self.window + 1) // KEY_BLOCK

    def blocks(self, tile: _Int, end_block: int) -> Iterator[_Entry]:
        """Blocks before end_block that some row of the tile sees; slot = position in them."""
        limit = self.n_cached + len(self.straight)
        for block in range(self.first_block(int(tile[0])), end_block):
            logical_B = np.arange(block * KEY_BLOCK, (block + 1) * KEY_BLOCK)
            known_B = np.where(logical_B < limit, logical_B, limit - 1)
            yield _Entry(rows=tile, block=block, slots_B=self._physical(known_B))

    def own_blocks(self, row: int) -> Iterator[_Entry]:
        """A branching row's blocks from the first that is not cached whole."""
        path = []
        at = int(row)
        while at >= 0:
            path.append(self.n_cached + at - self.begin)
            at = int(self.parents_R[at])
        first = max(self.first_block(row), self.n_cached // KEY_BLOCK)
        end = self.last_block(row) + 1
        logical = np.full((end - first) * KEY_BLOCK, path[0], dtype=np.int64)
        begin = first * KEY_BLOCK
        cached = range(begin, max(begin, self.n_cached))
        known = [*cached, *path[::-1][max(0, begin - self.n_cached) :]]
        logical[: len(known)] = known
        for i in range(end - first):
            slots_B = self._physical(logical[i * KEY_BLOCK : (i + 1) * KEY_BLOCK])
            yield _Entry(rows=np.array([row]), block=first + i, slots_B=slots_B)

    def _physical(self, logical_B: _Int) -> _Int:
        """Slots in the pool; pages given up (behind a window) read slot 0, which is masked."""
        page_B = self.table_P[logical_B // self.page_size].astype(np.int64)
        return np.where(page_B < 0, 0, page_B * self.page_size + logical_B % self.page_size)


def _cut(rows: _Int, heights: Sequence[int]) -> Iterator[_Int]:
    for i in range(0, len(rows), heights[-1]):
        yield rows[i : i + heights[-1]]


def _group(
    rows: Pass, entries: list[_Entry], height: int, window: int | None, device: torch.device
) -> Group:
    tiles: dict[int, _Int] = {}
    for entry in entries:
        tiles.setdefault(int(entry.rows[0]), entry.rows)
    places = {first: u for u, first in enumerate(tiles)}
    rows_UT = np.stack(
        [np.pad(tile, (0, height - len(tile)), mode="edge") for tile in tiles.values()]
    )
    tile_E = np.array([places[int(entry.rows[0])] for entry in entries])
    starts_E = np.array([entry.block * KEY_BLOCK for entry in entries])
    position_ET1 = rows.positions_R[rows_UT[tile_E]][:, :, None].astype(np.int64)
    key_E1B = (starts_E[:, None] + np.arange(KEY_BLOCK))[:, None, :]
    hidden_ETB = key_E1B > position_ET1
    if window is not None:
        hidden_ETB |= key_E1B <= position_ET1 - window
    everyone = list(range(len(rows.tokens_R)))
    steps: list[tuple[list[int], list[int]]] = []
    depth: dict[int, int] = {}
    for e, entry in enumerate(entries):
        first = int(entry.rows[0])
        step = depth.get(first, 0)
        depth[first] = step + 1
        if step == len(steps):
            steps.append(([], []))
        steps[step][0].extend(entry.rows.tolist())
        steps[step][1].extend(range(e * height, e * height + len(entry.rows)))
    return Group(
        rows_UT=torch.from_numpy(rows_UT).to(device),
        tile_E=torch.from_numpy(tile_E).to(device),
        slots_N=torch.from_numpy(np.concatenate([e.slots_B for e in entries])).to(device),
        hidden_ETB=torch.from_numpy(hidden_ETB).to(device),
        steps=tuple((None if r == everyone else _on(r, device), _on(f, device)) for r, f in steps),
    )


def _on(values: list[int], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device)
