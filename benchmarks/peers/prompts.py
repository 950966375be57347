"""What the arms are asked: the prompts of a file, as token ids made once by outpace."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.environments import REPOSITORY
from benchmarks.peers.records import Item

PREFILL_TOKENS = 512
_PREFILL_STEP = 97
WARM_UP = (
    "Describe a walk along a river in winter, from the bridge to the mill.",
    "Repeat this sentence three times: the ferry leaves at nine, the ferry returns at ten.",
)
Encode = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A line of the file."""

    name: str
    category: str
    text: str


def default_file() -> Path:
    """The project's own prompts, wherever this version keeps them."""
    places = ["src/outpace/bench/prompts.jsonl", "benchmarks/prompts.jsonl"]
    found = [REPOSITORY / place for place in places if (REPOSITORY / place).exists()]
    return found[0] if found else REPOSITORY / places[0]


def read(path: Path, categories: Seq[str], limit: int | None) -> list[Prompt]:
    """The file's prompts (`prompt`, or the first of Spec-Bench's `turns`), categories in turn.

    Raises:
        ValueError: nothing is left to ask.
    """
    by_category: dict[str, list[Prompt]] = defaultdict(list)
    for at, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        category = str(row.get("category", "all"))
        if categories and category not in categories:
            continue
        text = row["prompt"] if "prompt" in row else row["turns"][0]
        name = str(row.get("id", row.get("question_id", at)))
        by_category[category].append(Prompt(name=name, category=category, text=text))
    most = max(map(len, by_category.values()), default=0)
    spread = [group[i] for i in range(most) for group in by_category.values() if i < len(group)]
    if not spread:
        raise ValueError(f"{path.name} has no prompt of {', '.join(categories) or 'any category'}")
    return spread[:limit]


def digest(prompts: Seq[Prompt]) -> str:
    """What was asked, for the lineage of a result."""
    return hashlib.sha256("\0".join(p.text for p in prompts).encode()).hexdigest()


def items(prompts: Seq[Prompt], encode: Encode, n_tokens: int) -> list[Item]:
    """Through the chat template, as token ids."""
    return [
        Item(name=p.name, category=p.category, ids=tuple(encode(p.text)), n_tokens=n_tokens)
        for p in prompts
    ]


def prefills(prompts: Seq[Prompt], encode: Encode, n: int) -> list[Item]:
    """n texts of 512 tokens, cut from the prompts at different places: none begins like another."""
    ids: list[int] = []
    while len(ids) < PREFILL_TOKENS + n * _PREFILL_STEP:
        ids += encode("\n\n".join(p.text for p in prompts))
    starts = [i * _PREFILL_STEP for i in range(n)]
    return [
        Item(
            name=f"prefill-{i}", category="prefill", n_tokens=1,
            ids=tuple(ids[start : start + PREFILL_TOKENS]),
        )
        for i, start in enumerate(starts)
    ]  # fmt: skip
