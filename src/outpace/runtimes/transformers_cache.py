"""Keys and values that can be forgotten: the cache outpace hands to models of transformers.

transformers' own sliding-window layers drop what leaves the window, so a rejected guess could not
be taken back. Here every layer keeps every position and the model's own mask does the windowing;
that costs memory and buys an exact rollback. Shapes: [1, heads, tokens, head size].
"""

from collections.abc import Sequence as Seq
from typing import Any, Final

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

from outpace.errors import ContractError

BLOCK_TOKENS: Final = 256
"""Room grows by whole blocks: one copy per 256 tokens, where `DynamicLayer` copies at each."""


def rounded(n_tokens: int) -> int:
    """Tokens of room that `n_tokens` occupy."""
    return -(-n_tokens // BLOCK_TOKENS) * BLOCK_TOKENS


class KeptLayer(DynamicLayer):  # type: ignore[misc]  # transformers is untyped
    """One layer's keys and values in room that is filled from the front."""

    is_sliding = False
    keys: Tensor | None
    values: Tensor | None

    def __init__(self, **_: object) -> None:
        super().__init__()
        self.n_tokens = 0

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Append; returns all keys and values up to here, as views."""
        start, end = self.n_tokens, self.n_tokens + key_states.shape[-2]
        keys = _roomy(self.keys, key_states, start, end)
        values = _roomy(self.values, value_states, start, end)
        keys[:, :, start:end] = key_states
        values[:, :, start:end] = value_states
        self.keys, self.values = keys, values
        self.n_tokens, self.is_initialized = end, True
        return keys[:, :, :end], values[:, :, :end]

    def get_seq_length(self) -> int:
        """Tokens held."""
        return self.n_tokens

    def forget(self, n_tokens: int) -> None:
        """Hold only the first `n_tokens`."""
        self.n_tokens = min(self.n_tokens, n_tokens)

    def compact(self, start: int, rows: Tensor) -> None:
        """Move `rows` (ascending, counted from `start`) to directly after `start`."""
        for held in (self.keys, self.values):
            if held is not None:
                at = start + rows.to(held.device)
                held[:, :, start : start + len(rows)] = held[:, :, at]

    def n_bytes(self) -> int:
        """Bytes of the room taken."""
        return sum(held.nbytes for held in (self.keys, self.values) if held is not None)


class KeptCache(DynamicCache):  # type: ignore[misc]  # transformers is untyped
    """All layers of one sequence; layers appear as the model first writes to them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer_class_to_replicate = KeptLayer

    def kept_layers(self) -> list[KeptLayer]:
        """The layers; raises ContractError if the model put in one of another kind."""
        layers: list[Any] = list(self.layers)
        strange = [type(layer).__name__ for layer in layers if not isinstance(layer, KeptLayer)]
        if strange:
            raise ContractError(f"the model replaced cache layers by {sorted(set(strange))}")
        return layers

    def keep(self, n_kept: int, rows: Seq[int]) -> None:
        """Hold the first `n_kept` tokens and, of those after them, `rows` in this order.

        Raises:
            ContractError: a layer then holds another number of tokens (checked every time).
        """
        layers = self.kept_layers()
        wanted = n_kept + len(rows)
        if list(rows) != list(range(len(rows))):
            for layer in layers:
                layer.compact(n_kept, torch.tensor(rows))
        for layer in layers:
            layer.forget(wanted)
        wrong = {i: x.n_tokens for i, x in enumerate(layers) if x.n_tokens != wanted}
        if wrong:
            raise ContractError(f"layers hold {wrong} tokens after a rollback to {wanted}")

    def n_bytes(self) -> int:
        """Bytes of the room all layers take."""
        return sum(layer.n_bytes() for layer in self.kept_layers())


def _roomy(held: Tensor | None, like: Tensor, start: int, end: int) -> Tensor:
    """Room for `end` tokens with the first `start` of `held` in it."""
    if held is not None and held.shape[-2] >= end:
        return held
    room = like.new_empty((*like.shape[:-2], rounded(end), like.shape[-1]))
    if held is not None:
        room[:, :, :start] = held[:, :, :start]
    return room
