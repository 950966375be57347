"""Data files and plans' data for tests."""

import json
import random
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

from outpace.evaluate.data import Items, load
from outpace.evaluate.data.items import CountTokens
from outpace.evaluate.plan.data import Data, Sampling

SPLIT = {"salt": "c0ffee", "dev": 0.3, "test": 0.4, "confirm": 0.3}
SYLLABLES = ["an", "bor", "cel", "dim", "est", "fol", "gra", "hin", "ju", "kol", "lam", "mur", "ne"]


def prompt(n: int) -> str:
    """A prompt unlike those of other numbers."""
    chance = random.Random(n)
    return " ".join("".join(chance.sample(SYLLABLES, 3)) for _ in range(8)) + "?"


def rows(n: int, **fields: object) -> list[dict[str, object]]:
    """That many rows, each unlike the others."""
    return [{"id": f"r{i}", "prompt": prompt(i), **fields} for i in range(n)]


def write(path: Path, lines: Seq[Mapping[str, object]]) -> Path:
    """A JSONL file."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def read(
    folder: Path, lines: Seq[Mapping[str, object]], *, count: CountTokens | None = None,
    temperatures: Seq[float] = (0.0,), **data: Any,
) -> Items:  # fmt: skip
    """Items of these rows; data: keys of the plan's."""
    write(folder / "prompts.jsonl", lines)
    plan = Data.model_validate({"source": "prompts.jsonl", "split": SPLIT, **data})
    sampling = Sampling.model_validate({"temperatures": list(temperatures)})
    return load(plan, sampling, count, folder=folder)
