"""An item: what is asked once per temperature, what it is grouped by, how it is checked."""

import hashlib
import json
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from outpace.bench import workload
from outpace.errors import ConfigError
from outpace.evaluate.data.graders.checks import Check, canonical
from outpace.evaluate.measurement import Grade

Part = Literal["dev", "test", "confirm"]
PARTS: tuple[Part, ...] = ("dev", "test", "confirm")
CASE_KINDS = ("ordinary", "difficult", "misleading")
UNKNOWN_LANGUAGE = "und"
CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing to ask.

    line: where it stands in its file. temperatures: at which it is asked. subgroups: every factor
    of the plan but the temperature -> its value. fields: keys of the file that have no meaning
    here. own: a check of the caller's, in place of `check`.
    """

    id: str
    line: int
    category: str
    language: str
    case_kind: str
    messages: tuple[Mapping[str, str], ...]
    later: tuple[str, ...] = ()
    temperatures: tuple[float, ...] = (0.0,)
    n_prompt_tokens: int = 0
    conversation: str | None = None
    check: Check | None = None
    own: "Own | None" = None
    subgroups: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def n_turns(self) -> int:
        """Requests it takes."""
        return 1 + len(self.later)

    @property
    def prompt(self) -> str:
        """Its first message of a user."""
        said = (m["content"] for m in self.messages if m["role"] == "user")
        return next(said, self.messages[0]["content"])

    @property
    def asked(self) -> workload.Item:
        """What a benchmark's client is given."""
        return workload.Item(
            id=self.id, category=self.category, messages=self.messages, later=self.later
        )

    @property
    def digest(self) -> str:
        """sha256 of what is asked and how it is checked."""
        check = canonical(self.check) if self.check is not None else ""
        said = [self.id, [dict(m) for m in self.messages], self.later, self.temperatures, check]
        own = self.own.name if self.own is not None else ""
        text = json.dumps([*said, own], ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def at(self, temperature: float) -> Mapping[str, str]:
        """Factors with the temperature among them, if the plan groups by it."""
        return {
            name: f"{temperature:g}" if name == "temperature" else value
            for name, value in self.subgroups.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A check that is a function. It gets the item and the answer to its last turn."""

    name: str
    function: Callable[[Item, str], bool | float | Grade]


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """All prompts of a plan, in the order of their file.

    digests: of the data, of the rule and outcome of the split, and of each part. notes: what a
    reader of the results must know about how they came about.
    """

    name: str
    dev: tuple[Item, ...]
    test: tuple[Item, ...]
    confirm: tuple[Item, ...]
    digests: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def part(self, name: Part) -> tuple[Item, ...]:
        """One part of the split, to measure with.

        Raises:
            ConfigError: nothing is in it.
        """
        found = {"dev": self.dev, "test": self.test, "confirm": self.confirm}[name]
        if not found:
            why = "; ".join(note for note in self.notes if note.startswith(name))
            raise ConfigError(
                f"{why or f'{name} is empty'}: dev, test and confirm have {len(self.dev)}, "
                f"{len(self.test)} and {len(self.confirm)} prompts of {self.name}; give more "
                f"prompts, or a larger data.split.{name}"
            )
        return found

    @property
    def all(self) -> tuple[Item, ...]:
        """Every item of every part."""
        return (*self.dev, *self.test, *self.confirm)


def digest_of(items: Seq[Item]) -> str:
    """sha256 over items, in their order."""
    return hashlib.sha256("\n".join(item.digest for item in items).encode()).hexdigest()


def length_group(n_tokens: int, edges: Seq[int]) -> str:
    """`1-127`, `128-511`, ..., `2048+`: an edge belongs to the group above it."""
    lower = 1
    for edge in edges:
        if n_tokens < edge:
            return f"{lower}-{edge - 1}"
        lower = edge
    return f"{lower}+"
