"""A model that is a table: exact, tiny, and without weights. For tests, yours included.

`TableRuntime` answers like any runtime, and checks its caller more strictly than a real one: a
row computed twice, a path that is not one, or rows beyond the reserved room are errors.
"""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import torch
from torch import Tensor

from outpace.core.score import Rows, Scores, Traits
from outpace.errors import CapacityError, ContractError

# Text so far -> logits [V] (float64), as plain Python decides.
Table = Callable[[tuple[int, ...]], Tensor]


def random_table(vocab_size: int, *, seed: int, memory: int = 2, sharpness: float = 1.5) -> Table:
    """A model whose next token depends on the last `memory` tokens only, drawn from a seed."""
    cache: dict[tuple[int, ...], Tensor] = {}

    def table(text: tuple[int, ...]) -> Tensor:
        tail = text[-memory:] if memory else ()
        if tail not in cache:
            mixed = seed
            for token in (len(tail), *tail):
                mixed = (mixed * 1_000_003 + token + 1) % (2**63 - 1)
            generator = torch.Generator().manual_seed(mixed)
            cache[tail] = sharpness * torch.randn(
                vocab_size, generator=generator, dtype=torch.float64
            )
        return cache[tail]

    return table


@dataclass(slots=True)
class _Kept:
    tokens: list[int] = field(default_factory=list)
    n_reserved: int = 0
    rows: Rows | None = None


class TableRuntime:
    """A runtime over a `Table`, in exact float64.

    max_tokens: total tokens it holds over all sequences, to exercise CapacityError.
    """

    def __init__(
        self,
        table: Table,
        *,
        vocab_size: int,
        context_tokens: int = 4096,
        eos_ids: frozenset[int] = frozenset(),
        trees: bool = True,
        max_tokens: int | None = None,
    ) -> None:
        self.traits = Traits(
            name="toy",
            vocab_size=vocab_size,
            context_tokens=context_tokens,
            eos_ids=eos_ids,
            trees=trees,
            row_invariant=True,
            digest=f"toy-{vocab_size}",
        )
        self.n_passes = 0
        self._table = table
        self._max_tokens = max_tokens
        self._kept: dict[int, _Kept] = {}

    def open(self, key: int, tokens: Seq[int]) -> int:
        if key in self._kept:
            raise ContractError(f"sequence {key} is already open")
        if len(tokens) > self.traits.context_tokens:
            raise ContractError(f"{len(tokens)} tokens exceed the context")
        self._kept[key] = _Kept()
        return 0

    def reserve(self, key: int, n_rows: int) -> None:
        kept = self._kept[key]
        others = sum(len(k.tokens) + k.n_reserved for q, k in self._kept.items() if q != key)
        if self._max_tokens is not None and (others + len(kept.tokens) + n_rows > self._max_tokens):
            raise CapacityError(f"no room for {n_rows} more rows; {self._max_tokens} in all")
        kept.n_reserved = n_rows

    def extend(self, batch: Seq[Rows]) -> list[Scores]:
        self.n_passes += 1
        return [self._extend(rows) for rows in batch]

    def _extend(self, rows: Rows) -> Scores:
        kept = self._kept[rows.key]
        if kept.rows is not None:
            raise ContractError(f"sequence {rows.key}: extend without keep")
        if len(rows.tokens) > kept.n_reserved:
            raise ContractError(f"sequence {rows.key}: {len(rows.tokens)} rows, not reserved")
        texts: list[tuple[int, ...]] = []
        for token, parent in zip(rows.tokens, rows.parents, strict=True):
            before = tuple(kept.tokens) if parent == -1 else texts[parent]
            texts.append((*before, token))
            if len(texts[-1]) > self.traits.context_tokens:
                raise ContractError(f"sequence {rows.key}: a row beyond the context")
        kept.rows = rows
        if not rows.asked:
            return Scores()
        logits_AV = torch.stack([self._table(texts[row]) for row in rows.asked])
        return Scores(
            logits_AV=logits_AV if rows.logits else None,
            best_A=None if rows.logits else logits_AV.argmax(-1).tolist(),
        )

    def keep(self, key: int, rows: Seq[int]) -> None:
        kept = self._kept[key]
        if kept.rows is None:
            raise ContractError(f"sequence {key}: keep without extend")
        last = -1
        for row in rows:
            if kept.rows.parents[row] != last:
                raise ContractError(f"sequence {key}: rows {list(rows)} are not a path")
            last = row
            kept.tokens.append(kept.rows.tokens[row])
        kept.rows, kept.n_reserved = None, 0

    def close(self, key: int) -> None:
        self._kept.pop(key, None)

    def check_integrity(self) -> None:
        """Raise ContractError unless every sequence was closed."""
        if self._kept:
            raise ContractError(f"sequences {sorted(self._kept)} are still open")
