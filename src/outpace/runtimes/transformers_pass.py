"""One pass of a transformers model over rows that may branch, and the proof that it may.

Legend: R rows of the pass, K keys (kept tokens and rows), A asked rows, V vocabulary.
"""

import inspect
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from outpace.errors import ModelUnsupported
from outpace.runtimes.transformers_cache import KeptCache, rounded

# How far logits may be apart, relative to their spread, and still be rounding: by item size.
_ROUNDING = {2: 0.1, 4: 2e-3, 8: 1e-6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a model looks at its cache: the kinds of its attention layers, and their window."""

    kinds: frozenset[str]
    window: int | None


class Passer:
    """Runs one model. It holds nothing of any sequence; that is all in the `KeptCache` passed in.

    Raises:
        ModelUnsupported: the model takes no key/value cache.
    """

    def __init__(self, model: Any, layout: Layout) -> None:
        self._model = model
        self._layout = layout
        names = set(inspect.signature(model.forward).parameters)
        self._cache_name = next((n for n in ("cache", "past_key_values") if n in names), None)
        if self._cache_name is None:
            raise ModelUnsupported(
                f"{type(model).__name__} takes no key/value cache, so a rejected guess could not "
                f"be forgotten; a decoder with an attention cache is needed"
            )
        self._positions = "position_ids" in names
        self._some_logits = "logits_to_keep" in names

    def run(self, cache: KeptCache, tokens: Seq[int], parents: Seq[int], asked: Seq[int]) -> Tensor:
        """Append rows to `cache`; fp32 logits [A, V] of the asked ones.

        parents: earlier rows; -1 = directly after what the cache holds.
        """
        device = self._model.device
        n_kept, asked_A = cache.get_seq_length(), torch.tensor(list(asked), device=device)
        with torch.inference_mode():
            arguments: dict[str, Any] = {
                "input_ids": torch.tensor([list(tokens)], device=device),
                self._cache_name or "": cache,
                "use_cache": True,
            }
            positions = positions_of(parents, n_kept)
            if self._positions:
                arguments["position_ids"] = torch.tensor([positions], device=device)
            if list(parents) != list(range(-1, len(tokens) - 1)):
                arguments["attention_mask"] = self._masks(parents, positions, n_kept)
            if self._some_logits:  # at least one row: an empty selection means "all" to some
                rows = asked_A if len(asked_A) else torch.tensor([0], device=device)
                arguments["logits_to_keep"] = rows
            logits_NV: Tensor = self._model(**arguments).logits[0]
            some_AV: Tensor = logits_NV[: len(asked_A)] if self._some_logits else logits_NV[asked_A]
        # outside of inference mode, so that the copy is a tensor like any other
        return some_AV.to(torch.float32, copy=True)

    def _masks(self, parents: Seq[int], positions: Seq[int], n_kept: int) -> Any:
        """The additive masks of a tree; one by kind where the model's layers differ."""
        model, layout = self._model, self._layout
        seen_RK = ancestors(parents, n_kept)
        at_R = torch.tensor(positions)
        at_K = torch.cat([torch.arange(n_kept), at_R])
        masks: dict[str, Tensor] = {}
        for kind in layout.kinds:
            allowed_RK = seen_RK
            if kind == "sliding_attention" and layout.window is not None:
                allowed_RK = seen_RK & (at_R[:, None] - at_K[None, :] < layout.window)
            mask_RK = torch.zeros(allowed_RK.shape, dtype=model.dtype)
            mask_RK.masked_fill_(~allowed_RK, torch.finfo(model.dtype).min)
            masks[kind] = mask_RK[None, None].to(model.device)
        return next(iter(masks.values())) if len(masks) == 1 else masks

    def forgets(self) -> int:
        """Prove by three short passes that a guess can be taken back; bytes of cache per token.

        Raises:
            ModelUnsupported: the model's cache kept something of a forgotten guess.
        """
        name = type(self._model).__name__
        per_token = 0
        for ids in self._probes():
            cache = KeptCache()
            self.run(cache, ids[:4], range(-1, 3), ())
            layers = cache.kept_layers()
            wrong = [i for i, layer in enumerate(layers) if layer.n_tokens != 4]
            if wrong or not layers:
                raise ModelUnsupported(
                    f"{name} does not keep its state as keys and values per token (layers "
                    f"{wrong or 'all'}), so a rejected guess could not be forgotten; a decoder "
                    f"whose every layer has an attention cache is needed"
                )
            per_token = cache.n_bytes() // rounded(4)
            self.run(cache, ids[4:6], (-1, 0), ())
            cache.keep(4, ())
            found_V = self.run(cache, ids[6:7], (-1,), (0,))[0]
            fresh_V = self.run(KeptCache(), [*ids[:4], ids[6]], range(-1, 4), (4,))[0]
            if self._close(found_V, fresh_V):
                return per_token
        raise ModelUnsupported(
            f"{name} remembers guesses after they were forgotten: its logits after a rollback "
            f"differ from those of a fresh pass. It keeps a state outside its key/value cache"
        )

    def branches(self) -> bool:
        """Prove by two short passes that rows may branch: each sees its own ancestors only."""
        attention = getattr(self._model.config, "_attn_implementation", None)
        if attention not in ("eager", "sdpa") or not self._positions:
            return False
        if not getattr(self._model, "_supports_attention_backend", False):
            return False  # an old attention that may mask by index, beside the mask it is given
        for ids in self._probes():
            cache = KeptCache()
            self.run(cache, ids[:4], range(-1, 3), ())
            try:
                found_AV = self.run(cache, ids[4:8], (-1, -1, 1, 0), (2, 3))
            except Exception:  # whatever a model does with a mask it cannot use
                return False
            paths = ([*ids[:4], ids[5], ids[6]], [*ids[:4], ids[4], ids[7]])
            fresh = [self.run(KeptCache(), path, range(-1, 5), (5,))[0] for path in paths]
            if all(self._close(f, x) for f, x in zip(found_AV, fresh, strict=True)):
                return True
        return False

    def _probes(self) -> list[list[int]]:
        """Three texts of eight ids each: rounding can upset one (routed experts), not all."""
        n = int(self._model.config.get_text_config(decoder=True).vocab_size)
        return [[(7919 * (8 * k + i) + 13) % n for i in range(8)] for k in range(3)]

    def _close(self, a_V: Tensor, b_V: Tensor) -> bool:
        spread = float((b_V - b_V.mean()).norm())
        limit = _ROUNDING.get(self._model.dtype.itemsize, 0.1)
        return float((a_V - b_V).norm()) <= limit * spread


def positions_of(parents: Seq[int], n_kept: int) -> list[int]:
    """R absolute positions: one more than the parent's, `n_kept` for the first."""
    positions: list[int] = []
    for parent in parents:
        positions.append(n_kept if parent == -1 else positions[parent] + 1)
    return positions


def ancestors(parents: Seq[int], n_kept: int) -> Tensor:
    """Which keys a row may see, bool [R, K]: all kept ones, its ancestors and itself."""
    n = len(parents)
    seen_RK = torch.zeros(n, n_kept + n, dtype=torch.bool)
    seen_RK[:, :n_kept] = True
    for row, parent in enumerate(parents):
        if parent != -1:
            seen_RK[row] |= seen_RK[parent]
        seen_RK[row, n_kept + row] = True
    return seen_RK
