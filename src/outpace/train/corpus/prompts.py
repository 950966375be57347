"""What the target is asked to write: beginnings of user turns, filled with words it knows itself.

A document's beginning is a function of the corpus seed and its number alone. The words come from
the target's own vocabulary, so nothing but the target is needed, in whatever language it speaks.
"""

import json
import re
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import numpy as np

from outpace.errors import ConfigError

_WORD = re.compile(rb" [a-z]{4,12}")
_NAME = re.compile(rb" [A-Z][a-z]{3,9}")
# Of a document's answer: temperature, and its share of the documents.
TEMPERATURES = ((0.0, 0.6), (0.5, 0.2), (0.9, 0.2))


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
    words filled in. temperature: of the answer. seed: of both turns' coins.
    """

    number: int
    kind: str
    start: str
    grow: int
    end: str
    temperature: float
    seed: int


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
    shares = [share for _, share in TEMPERATURES]
    return Brief(
        number=number,
        kind=kind,
        start=text.start.format(**filled),
        grow=text.grow,
        end=text.end.format(**filled),
        temperature=TEMPERATURES[int(rng.choice(len(shares), p=shares))][0],
        seed=int(rng.integers(2**62)),
    )


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
    )


def read_prompts(path: Path) -> list[str]:
    """User prompts of a JSONL file: `prompt`, or the first of `turns`.

    Raises:
        ConfigError: naming the line that has neither.
    """
    prompts: list[str] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            text = row["prompt"] if "prompt" in row else row["turns"][0]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise ConfigError(
                f"{path}, line {number}: no prompt in it; allowed: a JSON object with `prompt`, or "
                "with `turns` of which the first is used"
            ) from error
        prompts.append(str(text))
    return prompts


def prompt_hash(text: str) -> str:
    """Identity of a prompt, whatever its case and spaces."""
    return sha256(" ".join(text.lower().split()).encode()).hexdigest()
