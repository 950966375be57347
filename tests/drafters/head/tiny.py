"""A tiny head with random weights, and a target that shows it hidden states."""

import tempfile
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outpace.core.draft import Ask, Draft, Drafter, Seen
from outpace.core.score import Traits
from outpace.drafters.head.files import Head, HeadConfig, HeadShape, read_head, write_head

VOCAB = 16
SHAPE = HeadShape(
    hidden=32, taps=(1, 2), embed=32, inner=64, root_inner=32, vocab=VOCAB, draft=VOCAB - 3
)
WIDTH = SHAPE.hidden * len(SHAPE.taps)
DIGEST = "tiny"


def random_values(shape: HeadShape, seed: int) -> dict[str, NDArray[np.float32]]:
    """Weights that make no guess certain and none hopeless."""
    rng = np.random.default_rng(seed)
    return {
        name: (rng.standard_normal((n, k)) * (3.0 if name == "out" else 1.0) / k**0.5).astype(
            np.float32
        )
        for name, (n, k) in shape.matrices.items()
    }


@cache
def tiny_folder(seed: int = 0, digest: str = DIGEST) -> Path:
    """A head on disk, for as long as the tests run."""
    folder = Path(tempfile.mkdtemp(prefix="outpace-head-"))
    config = HeadConfig(
        target="tiny",
        digest=digest,
        shape=SHAPE,
        greedy_sharpness=1.25,
        blocks=dict.fromkeys(SHAPE.matrices, "Q8_0"),
    )
    ids_D = np.delete(np.arange(VOCAB), [0, 7, 11]).astype(np.int32)
    write_head(folder, config, random_values(SHAPE, seed), ids_D, "# tiny\n")
    return folder


def tiny_head(seed: int = 0) -> Head:
    return read_head(tiny_folder(seed))


def shows_hidden(traits: Traits) -> Traits:
    """The same target, with hidden states for the tiny head."""
    return replace(traits, n_hidden=WIDTH, digest=f"{DIGEST}-toy")


def hidden_after(text: Seq[int]) -> Tensor:
    """What a target's layers hold after a text, [WIDTH]; its last two tokens decide."""
    mixed = 17
    for token in text[-2:]:
        mixed = (mixed * 31 + int(token) + 1) % 1_000_003
    return torch.randn(WIDTH, generator=torch.Generator().manual_seed(mixed))


@dataclass(slots=True)
class Shown:
    """A drafter whose target shows hidden states: of the row before the last committed token.

    A sequence it was not told enough of is shown again before it is asked, as a target does that
    computes a preempted text anew.
    """

    inner: Drafter
    name: str = field(init=False)
    _texts: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = self.inner.name

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        for ask in asks:
            if self._texts.get(ask.key, []) != list(ask.tokens):
                self._show(ask.key, len(ask.tokens) - 1, list(ask.tokens))
        return self.inner.propose(asks)

    def observe(self, seen: Seq[Seen]) -> None:
        for s in seen:
            self._show(s.key, s.start, [*self._texts.get(s.key, [])[: s.start], *s.tokens])

    def forget(self, key: int) -> None:
        self._texts.pop(key, None)
        self.inner.forget(key)

    def _show(self, key: int, start: int, text: list[int]) -> None:
        self._texts[key] = text
        hidden_RH = hidden_after(text[:-1])[None] if len(text) > 1 else None
        self.inner.observe(
            [Seen(key=key, start=start, tokens=tuple(text[start:]), hidden_RH=hidden_RH)]
        )
