"""Prompts to measure with, from files in the shapes people have them.

One JSON object a line (or one JSON array of them, as ShareGPT is handed out), by what it holds:

    {"prompt": "..."}                                 one message
    {"messages": [{"role": ..., "content": ...}]}     a conversation that waits for its answer
    {"turns": ["...", "..."]}                         Spec-Bench: messages sent one after another,
                                                      each with the answers before it
    {"conversations": [{"from": "human", "value": "..."}, ...]}   ShareGPT: its first message

`id` (or `question_id`) and `category` are kept where given. Lengths alone are no workload: what a
text says decides how much of it can be guessed.
"""

import hashlib
import json
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from outpace.errors import ConfigError

BUILT_IN = Path(__file__).with_name("prompts.jsonl")
_SHAPES = "prompt, messages, turns or conversations"
_SHOWN_ERRORS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing to ask: `messages` first; then each of `later`, after the answer before it."""

    id: str
    category: str
    messages: tuple[Mapping[str, str], ...]
    later: tuple[str, ...] = ()

    @property
    def n_turns(self) -> int:
        """Requests it takes."""
        return 1 + len(self.later)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Items in the order of their file, and the digest of what was read."""

    name: str
    sha256: str
    items: tuple[Item, ...]

    def first(self, n: int) -> "Workload":
        """The first n items."""
        return Workload(name=self.name, sha256=self.sha256, items=self.items[:n])


def read_workload(path: Path) -> Workload:
    """Read a file of prompts.

    Raises:
        ConfigError: it cannot be read, or lines of it have none of the shapes; each is named.
    """
    sha256, entries = read_entries(path)
    items: list[Item] = []
    wrong: list[str] = []
    for at, entry in entries:
        try:
            items.append(item_of(parsed(entry), at))
        except ValueError as error:  # JSON errors are ValueErrors too
            wrong.append(f"{path}:{at}: {error}")
    refuse(wrong + _twice(items, path))
    return Workload(name=path.name, sha256=sha256, items=tuple(items))


def read_entries(path: Path) -> tuple[str, list[tuple[int, object]]]:
    """The digest of a file and what it holds, numbered; lines are not `parsed` yet.

    Raises:
        ConfigError: it cannot be read, or holds nothing.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the prompts {path}: {error}") from None
    entries: list[tuple[int, object]]
    if text.lstrip().startswith("["):
        try:
            entries = list(enumerate(json.loads(text), start=1))
        except ValueError as error:
            raise ConfigError(f"{path} begins like a JSON array and is none: {error}") from None
    else:
        entries = [(at, ln) for at, ln in enumerate(text.split("\n"), start=1) if ln.strip()]
    if not entries:
        raise ConfigError(f"{path} has no prompts; give a line with one of {_SHAPES}")
    return hashlib.sha256(data).hexdigest(), entries


def parsed(entry: object) -> object:
    """An entry as JSON, a line of text or not. Raises ValueError where a line is none."""
    return json.loads(entry) if isinstance(entry, str) else entry


def refuse(wrong: Seq[str]) -> None:
    """Raise ConfigError if anything is wrong, with the first few."""
    if wrong:
        more = len(wrong) - _SHOWN_ERRORS
        tail = f"\nand {more} more" if more > 0 else ""
        raise ConfigError("\n".join(wrong[:_SHOWN_ERRORS]) + tail)


def item_of(entry: object, at: int) -> Item:
    """What an entry asks. Raises ValueError where it has none of the shapes, and says why."""
    if not isinstance(entry, dict):
        raise ValueError(f"found {type(entry).__name__}, allowed: an object with {_SHAPES}")
    shapes = [s for s in ("prompt", "messages", "turns", "conversations") if s in entry]
    if len(shapes) != 1:
        found = ", ".join(shapes or sorted(map(str, entry))) or "nothing"
        raise ValueError(f"found {found}; allowed: exactly one of {_SHAPES}")
    messages: tuple[Mapping[str, str], ...]
    later: tuple[str, ...] = ()
    match shapes[0]:
        case "prompt":
            messages = (_user(entry["prompt"], "prompt"),)
        case "messages":
            messages = _messages(entry["messages"])
        case "turns":
            first, *rest = _list(entry["turns"], "turns")
            messages = (_user(first, "turns[0]"),)
            later = tuple(_user(t, f"turns[{i}]")["content"] for i, t in enumerate(rest, start=1))
        case _:
            messages = (_first_human(entry["conversations"]),)
    name = entry.get("id", entry.get("question_id", at))
    return Item(
        id=str(name), category=str(entry.get("category", "all")), messages=messages, later=later
    )


def _list(value: object, name: str) -> Seq[object]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{name} is {_short(value)}; allowed: a list of at least one")
    return value


def _user(value: object, name: str) -> Mapping[str, str]:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} is {_short(value)}; allowed: a text that is not empty")
    return {"role": "user", "content": value}


def _messages(value: object) -> tuple[Mapping[str, str], ...]:
    made: list[Mapping[str, str]] = []
    for i, message in enumerate(_list(value, "messages")):
        fields = message if isinstance(message, dict) else {}
        role, content = fields.get("role"), fields.get("content")
        if not isinstance(role, str) or not isinstance(content, str):
            raise ValueError(f"messages[{i}] needs role and content, both texts")
        made.append({"role": role, "content": content})
    if made[-1]["role"] == "assistant":
        raise ValueError("the last message is the assistant's; end with the one to answer")
    return tuple(made)


def _first_human(value: object) -> Mapping[str, str]:
    for message in _list(value, "conversations"):
        if isinstance(message, dict) and message.get("from") in ("human", "user"):
            return _user(message.get("value"), "conversations' first human value")
    raise ValueError("conversations has no message from human")


def _twice(items: Seq[Item], path: Path) -> list[str]:
    seen: set[str] = set()
    again = [item.id for item in items if item.id in seen or seen.add(item.id)]  # type: ignore[func-returns-value]
    return [f"{path}: id {name!r} occurs twice; ids name records" for name in again]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
