"""Any causal language model of the transformers library, as a `Runtime`.

From files (`open_runtime`) or from a model object already in memory (`TransformersRuntime.wrap`).
Sequences of one batch are passed one after the other: simple, and honest about what it costs.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Self

import torch

from outpace.core.score import Rows, Scores, Traits
from outpace.errors import CapacityError, ContractError
from outpace.runtimes import transformers_load as loading
from outpace.runtimes.transformers_cache import KeptCache, rounded
from outpace.runtimes.transformers_config import context_tokens, end_ids, read_layout
from outpace.runtimes.transformers_pass import Passer, positions_of


@dataclass(slots=True)
class _Kept:
    """One sequence: its cache, how many of its tokens are kept, and what is in flight."""

    cache: KeptCache
    n_tokens: int = 0
    n_reserved: int = 0
    rows: Rows | None = None


class TransformersRuntime:
    """A decoder of transformers behind the five verbs. Not for several threads at once.

    model: in evaluation mode. digest: identity of its weights. eos_ids: more ids that end a text
    than its configuration lists. cache_bytes: most memory for keys and values; None = no limit.

    Raises:
        ModelUnsupported: a model whose cache cannot forget, with the layer's kind and index.
    """

    def __init__(
        self,
        model: Any,
        *,
        digest: str,
        eos_ids: frozenset[int] = frozenset(),
        cache_bytes: int | None = None,
    ) -> None:
        self._passer = Passer(model, read_layout(model.config))
        self._token_bytes = self._passer.forgets()
        self._cache_bytes = cache_bytes
        self._kept: dict[int, _Kept] = {}
        config = model.config.get_text_config(decoder=True)
        self.traits = Traits(
            name="transformers",
            vocab_size=int(model.get_output_embeddings().weight.shape[0]),
            context_tokens=context_tokens(config),
            eos_ids=eos_ids | end_ids(model),
            trees=self._passer.branches(),
            row_invariant=False,
            digest=digest,
        )

    @classmethod
    def wrap(
        cls,
        model: Any,
        *,
        eos_ids: frozenset[int] = frozenset(),
        cache_bytes: int | None = None,
    ) -> Self:
        """Take over a model object. It is put into evaluation mode: dropout is no target's law."""
        model.eval()
        digest = loading.digest_in_memory(model)
        return cls(model, digest=digest, eos_ids=eos_ids, cache_bytes=cache_bytes)

    def open(self, key: int, tokens: Seq[int]) -> int:
        """Begin a sequence. Nothing is known beforehand: every token needs a pass."""
        if key in self._kept:
            raise ContractError(f"sequence {key} is already open")
        if len(tokens) > self.traits.context_tokens:
            raise ContractError(
                f"sequence {key} begins with {len(tokens)} tokens; the context has "
                f"{self.traits.context_tokens}"
            )
        self._kept[key] = _Kept(KeptCache())
        return 0

    def reserve(self, key: int, n_rows: int) -> None:
        """Set room for `n_rows` rows aside, in whole blocks of the cache."""
        kept = self._find(key)
        if self._cache_bytes is not None:
            held = sum(k.n_tokens + k.n_reserved for q, k in self._kept.items() if q != key)
            others = sum(
                rounded(k.n_tokens + k.n_reserved) for q, k in self._kept.items() if q != key
            )
            n_tokens = others + rounded(kept.n_tokens + n_rows)
            if n_tokens * self._token_bytes > self._cache_bytes:
                raise CapacityError(
                    f"no room for {n_rows} more rows of sequence {key}: with {held} tokens of "
                    f"other sequences it takes {n_tokens * self._token_bytes} bytes of cache, "
                    f"{self._cache_bytes} are allowed; try again when others have ended"
                )
        kept.n_reserved = n_rows

    def extend(self, batch: Seq[Rows]) -> list[Scores]:
        """One pass per sequence. If one fails, none of them has changed."""
        keys = [rows.key for rows in batch]
        if len(set(keys)) < len(keys):
            raise ContractError(f"a sequence is twice in a pass: {keys}")
        for rows in batch:
            self._check(rows)
        try:
            scores = [self._extend(rows) for rows in batch]
        except BaseException:  # KeyboardInterrupt, too, leaves layers of unequal length
            for rows in batch:
                kept = self._kept[rows.key]
                for layer in kept.cache.kept_layers():
                    layer.forget(kept.n_tokens)
            raise
        for rows in batch:
            self._kept[rows.key].rows = rows
        return scores

    def _extend(self, rows: Rows) -> Scores:
        cache = self._kept[rows.key].cache
        logits_AV = self._passer.run(cache, rows.tokens, rows.parents, rows.asked)
        if not rows.asked:
            return Scores()
        if rows.logits:
            return Scores(logits_AV=logits_AV)
        return Scores(best_A=lowest_argmax(logits_AV))

    def keep(self, key: int, rows: Seq[int]) -> None:
        """Keep a path of the last pass's rows; a broken path changes nothing."""
        kept = self._find(key)
        if kept.rows is None:
            raise ContractError(f"sequence {key}: keep without extend")
        last = -1
        for row in rows:
            if not 0 <= row < len(kept.rows.parents) or kept.rows.parents[row] != last:
                raise ContractError(f"sequence {key}: rows {list(rows)} are not a path")
            last = row
        with torch.inference_mode():
            kept.cache.keep(kept.n_tokens, rows)
        kept.n_tokens += len(rows)
        kept.rows, kept.n_reserved = None, 0

    def close(self, key: int) -> None:
        """Drop the sequence and its cache."""
        self._kept.pop(key, None)

    def check_integrity(self) -> None:
        """Raise ContractError unless every sequence was closed."""
        if self._kept:
            raise ContractError(f"sequences {sorted(self._kept)} are still open")

    def _find(self, key: int) -> _Kept:
        if key not in self._kept:
            raise ContractError(f"sequence {key} is not open")
        return self._kept[key]

    def _check(self, rows: Rows) -> None:
        kept, n = self._find(rows.key), len(rows.tokens)
        if kept.rows is not None:
            raise ContractError(f"sequence {rows.key}: extend without keep")
        if not 0 < n <= kept.n_reserved:
            raise ContractError(
                f"sequence {rows.key}: {n} rows, {kept.n_reserved} were reserved; at least one"
            )
        if len(rows.parents) != n or any(not -1 <= p < i for i, p in enumerate(rows.parents)):
            raise ContractError(f"sequence {rows.key}: parents {list(rows.parents)} for {n} rows")
        chain = list(rows.parents) == list(range(-1, n - 1))
        if not chain and not self.traits.trees:
            raise ContractError(f"sequence {rows.key}: branching rows; this model takes chains")
        last = max(positions_of(rows.parents, kept.n_tokens))
        if last >= self.traits.context_tokens:
            raise ContractError(
                f"sequence {rows.key}: a row at position {last}; the context has "
                f"{self.traits.context_tokens}"
            )


def lowest_argmax(logits_AV: torch.Tensor) -> list[int]:
    """A argmax ids, the lowest on a tie; NaN counts as the largest, so it cannot hide."""
    best_A1 = logits_AV.amax(-1, keepdim=True)  # NaN if there is one
    is_best_AV = (logits_AV == best_A1) | logits_AV.isnan()
    return [int(row) for row in is_best_AV.to(torch.uint8).argmax(-1)]
