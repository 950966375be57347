"""Guess with a model whose vocabulary is another: by token strings, on the shared part.

Token-level intersection (TLI, Timor et al. 2502.05202): the model's law is restricted to the
tokens whose *bytes* the target's vocabulary has too, and renormalised; each such token is then a
guess under the target's id. The law reported is that restricted law, so verification stays exact.

Two vocabularies of one size prove nothing; strings are compared. If every id both have stands for
the same bytes, nothing needs translating (`SameIds`). If hardly a token is shared, guesses would
be worthless, and the pair is refused.

The text goes the other way token by token: a target token the model has is read as that one;
another is spelt with the model's tokens, longest first. That is incremental and needs no
tokenizer. Its limit: where the target splits a word otherwise than the model would, the model
reads a spelling it rarely saw in training, and guesses worse; the text stays the target's. Bytes
the model has no token for at all are skipped.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from outpace.errors import CapabilityError

# Least share of the smaller vocabulary that must be common.
LEAST_SHARED = 0.1


class Dictionary(Protocol):
    """Between the target's token ids and the model's: `translate` makes them."""

    def read(self, tokens: Seq[int]) -> list[int]:
        """Target ids as the model's ids; one may become several, or none."""

    def widen(self, logits_D: Tensor) -> Tensor:
        """The model's logits [D] over the target's vocabulary [V]; -inf where it has no word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SameIds:
    """Both vocabularies give the same strings the same ids; one may have more at its end.

    vocab_size: the target's. n_words: how many of those ids the model knows; it never reads the
    others.
    """

    vocab_size: int
    n_words: int

    def read(self, tokens: Seq[int]) -> list[int]:
        return [t for t in tokens if t < self.n_words]

    def widen(self, logits_D: Tensor) -> Tensor:
        known_D = logits_D[: self.n_words]
        return pad(known_D, (0, self.vocab_size - len(known_D)), value=-torch.inf)


class Translation:
    """Between two vocabularies, each given as the bytes of every id.

    target, model: one bytes object per id, in order; unused ids are empty. Where several ids have
    the same bytes the lowest is meant. vocab_size: width of the target's laws, which may be padded.

    Raises:
        CapabilityError: too few tokens are shared to guess with.
    """

    def __init__(self, *, target: Seq[bytes], model: Seq[bytes], vocab_size: int) -> None:
        self._target = target
        self._vocab_size = vocab_size
        self._ids: dict[bytes, int] = {}
        for i, word in enumerate(model):
            if word:
                self._ids.setdefault(word, i)
        first: dict[bytes, int] = {}
        for i, word in enumerate(target):
            if word:
                first.setdefault(word, i)
        pairs = [(i, self._ids[word]) for word, i in first.items() if word in self._ids]
        self.n_shared = len(pairs)
        smaller = min(len(first), len(self._ids))
        if self.n_shared < LEAST_SHARED * smaller or not pairs:
            raise CapabilityError(
                f"the draft model's vocabulary shares {self.n_shared} of {smaller} tokens with the "
                f"target's; at least {LEAST_SHARED:.0%} are needed; use a draft model with a "
                "closer vocabulary, or a drafter without a model"
            )
        self._shared_target = torch.tensor([i for i, _ in pairs])
        self._shared_model = torch.tensor([i for _, i in pairs])
        self._longest = max(map(len, self._ids))
        self._spelt: dict[int, tuple[int, ...]] = {}

    def read(self, tokens: Seq[int]) -> list[int]:
        """Target ids as the model's."""
        words: list[int] = []
        for token in tokens:
            spelt = self._spelt.get(token)
            if spelt is None:
                word = self._target[token] if token < len(self._target) else b""
                spelt = self._spelt[token] = self._spell(word)
            words.extend(spelt)
        return words

    def widen(self, logits_D: Tensor) -> Tensor:
        """The model's logits over the target's ids; -inf where the model has no such token."""
        wide_V = logits_D.new_full((self._vocab_size,), -torch.inf)
        wide_V[self._shared_target.to(logits_D.device)] = logits_D[
            self._shared_model.to(logits_D.device)
        ]
        return wide_V

    def _spell(self, word: bytes) -> tuple[int, ...]:
        """The bytes in the model's tokens, longest first."""
        spelt: list[int] = []
        at = 0
        while at < len(word):
            for end in range(min(len(word), at + self._longest), at, -1):
                found = self._ids.get(word[at:end])
                if found is not None:
                    spelt.append(found)
                    at = end
                    break
            else:
                at += 1
        return tuple(spelt)


def dictionary(*, target: Seq[bytes], model: Seq[bytes], vocab_size: int) -> Dictionary:
    """What a model with this vocabulary needs to guess for that target.

    Raises:
        CapabilityError: too few tokens are shared.
    """
    both = [(a, b) for a, b in zip(target, model, strict=False) if a and b]
    if both and all(a == b for a, b in both):
        return SameIds(vocab_size=vocab_size, n_words=min(len(model), vocab_size))
    return Translation(target=target, model=model, vocab_size=vocab_size)
