"""What the target is asked to write: beginnings of user turns, filled with words it knows itself.

A document's beginning is a function of the corpus seed and its number alone. The words come from
the target's own vocabulary, so nothing but the target is needed, in whatever language it speaks.
"""

import json
import re
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from outpace.errors import ConfigError

_T = TypeVar("_T")
_WORD = re.compile(rb" [a-z]{4,12}")
_NAME = re.compile(rb" [A-Z][a-z]{3,9}")
# Of a document's answer: temperature, and its share of the documents.
TEMPERATURES = ((0.0, 0.6), (0.5, 0.2), (0.9, 0.2))
# How many times the plan's longest answer it may take, and the share of such documents: guesses
# must stay good in long answers too.
STRETCHES = ((1, 0.88), (4, 0.12))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedText:
    """How a kind of user turn begins.

    kind: its category. start: its first words, with {a}, {b} a word, {name} a name, {m}, {n} a
    number. grow: most tokens the target adds; 0 = `start` is the whole turn. end: last words,
    after what the target added.
    """

    kind: str
    start: str
    grow: int
    end: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What one document is to be.

    number: of the document in its corpus. kind: category. start, grow, end: as in `SeedText`,
    words filled in. temperature: of the answer. seed: of both turns' coins. stretch: how many
    times the plan's longest answer it may take.
    """

    number: int
    kind: str
    start: str
    grow: int
    end: str
    temperature: float
    seed: int
    stretch: int


def shipped_seeds() -> list[SeedText]:
    """The beginnings that come with the package."""
    text = (files("outpace.train.corpus") / "seeds.jsonl").read_text("utf-8")
    return [SeedText(**json.loads(line)) for line in text.splitlines()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Words and names the target's vocabulary has as single tokens."""

    words: Seq[str]
    names: Seq[str]

    @classmethod
    def of(cls, vocabulary: Seq[bytes]) -> "Words":
        """Those of a vocabulary, in the order of their ids."""
        words = [t[1:].decode() for t in vocabulary if _WORD.fullmatch(t)]
        names = [t[1:].decode() for t in vocabulary if _NAME.fullmatch(t)]
        return cls(words=words or ["things"], names=names or ["Alex"])


def brief(seed: int, number: int, seeds: Seq[SeedText], words: Words) -> Brief:
    """What document `number` of the corpus with this seed is to be."""
    rng = np.random.Generator(np.random.Philox(key=[seed, number]))
    kinds = sorted({s.kind for s in seeds})
    kind = kinds[int(rng.integers(len(kinds)))]
    of_kind = [s for s in seeds if s.kind == kind]
    text = of_kind[int(rng.integers(len(of_kind)))]
    filled = {
        "a": words.words[int(rng.integers(len(words.words)))],
        "b": words.words[int(rng.integers(len(words.words)))],
        "name": words.names[int(rng.integers(len(words.names)))],
        "m": str(int(rng.integers(10, 100))),
        "n": str(int(rng.integers(2, 400))),
    }
    return Brief(
        number=number,
        kind=kind,
        start=text.start.format(**filled),
        grow=text.grow,
        end=text.end.format(**filled),
        temperature=_drawn(rng, TEMPERATURES),
        seed=int(rng.integers(2**62)),
        stretch=_drawn(rng, STRETCHES),
    )


def _drawn(rng: np.random.Generator, shares: Seq[tuple[_T, float]]) -> _T:
    return shares[int(rng.choice(len(shares), p=[share for _, share in shares]))][0]


def given(seed: int, number: int, prompts: Seq[str]) -> Brief:
    """A document that answers one of the user's own prompts."""
    made = brief(seed, number, [SeedText(kind="given", start="", grow=0)], Words.of(()))
    return Brief(
        number=number,
        kind="given",
        start=prompts[number % len(prompts)],
        grow=0,
        end="",
        temperature=made.temperature,
        seed=made.seed,
        stretch=made.stretch,
    )


def read_prompts(path: Path) -> list[str]:
    """User prompts of a JSONL file: `prompt`, or the first of `turns` or of the user's `messages`.

    Raises:
        ConfigError: naming the line that has none.
    """
    prompts: list[str] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            prompts.append(_first_turn(json.loads(line)))
        except (ValueError, LookupError, TypeError, StopIteration) as error:
            raise ConfigError(
                f"{path}, line {number}: no prompt in it; allowed: a JSON object with `prompt`, or "
                "with `turns` or `messages`, of which the user's first is used"
            ) from error
    return prompts


def _first_turn(row: Mapping[str, Any]) -> str:
    if "prompt" in row:
        return str(row["prompt"])
    if "turns" in row:
        return str(row["turns"][0])
    return str(next(m["content"] for m in row["messages"] if m["role"] == "user"))


def prompt_hash(text: str) -> str:
    """Identity of a prompt, whatever its case and spaces."""
    return sha256(" ".join(text.lower().split()).encode()).hexdigest()
