"""The waist of the native runtime: one pass is one call, whoever computes it.

`runtime.py` above knows sequences, pages and prefixes; a `Decoder` below knows weights and
arithmetic. Between them goes a `Pass`: plain integer arrays, the same for torch and for the
compiled kernels.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Int32 = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Rows of S sequences, those of one sequence side by side, parents before children.

    tokens_R, positions_R: token ids and absolute positions (tokens before the row in its text).
    parents_R: the row (index into this pass) whose token comes before this one; -1 = the last
        cached token of the sequence, or nothing at position 0.
    starts_S1: sequence s has rows starts[s] to starts[s + 1].
    n_cached_S: keys of each sequence that earlier passes left. Row j of sequence s writes its
        key and value at the sequence's logical slot n_cached[s] + j, whatever its position.
    tables_SP: page numbers; logical slot i is in page tables[s, i // page_size]. Unused = -1.
    asked_A: rows (ascending) whose result is wanted.
    logits: whether whole logit rows are wanted, or only argmax ids.

    A row sees its sequence's cached keys, its ancestors in the pass and itself, visited in order
    of position, in fixed blocks of positions: its result is bit-equal however the text before it
    came to be computed.
    """

    tokens_R: Int32
    positions_R: Int32
    parents_R: Int32
    starts_S1: Int32
    n_cached_S: Int32
    tables_SP: Int32
    asked_A: Int32
    logits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """logits_AV: fp32. best_A: argmax ids, lowest id on a tie. hidden_RH: fp32, all rows."""

    logits_AV: Tensor | None = None
    best_A: Seq[int] | None = None
    hidden_RH: Tensor | None = None


class Decoder(Protocol):
    """Weights, a pool of K/V pages, and the arithmetic between them."""

    page_size: int
    n_pages: int
    row_invariant: bool

    def forward(self, rows: Pass) -> PassResult:
        """Compute the pass; keys and values of every row are written to the pool."""

    def copy_slots(self, sources: Int32, targets: Int32) -> None:
        """Copy K/V between physical slots (page * page_size + offset), in the order given."""

    def close(self) -> None:
        """Free the weights and the pool."""
