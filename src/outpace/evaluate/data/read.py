"""A file of prompts into items; everything wrong with it at once, each with its line."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from outpace.bench import workload
from outpace.errors import ConfigError
from outpace.evaluate.data.graders.checks import ADAPTER, Check
from outpace.evaluate.data.items import CASE_KINDS, UNKNOWN_LANGUAGE, Item
from outpace.evaluate.plan.shape import nearest

_SHAPES = ("prompt", "messages", "turns", "conversations")
_KNOWN = (
    "id", "question_id", "category", "language", "case_kind", "temperature", "conversation",
    "check", *_SHAPES,
)  # fmt: skip
MOST_TEMPERATURE = 10


def read_items(path: Path) -> tuple[str, tuple[Item, ...]]:
    """The digest of a file, and its items as they stand in it; temperatures () = the plan's.

    Raises:
        ConfigError: it cannot be read, or entries of it are wrong; each is named.
    """
    if not path.exists():
        raise ConfigError(
            f"no prompts at {path}; data.source is a JSONL file beside the plan, or `builtin`"
        )
    sha256, entries = workload.read_entries(path)
    items: list[Item] = []
    wrong: list[str] = []
    for line, entry in entries:
        try:
            items.append(_item(workload.parsed(entry), line))
        except ValueError as error:
            wrong.append(f"{path}:{line}: {error}")
        except RecursionError:
            wrong.append(f"{path}:{line}: nested too deep")
    wrong += [f"{path}:{line}: {message}" for line, message in _twice(items)]
    workload.refuse(wrong)
    return sha256, tuple(items)


def _item(entry: object, line: int) -> Item:
    asked = workload.item_of(entry, line)
    row: Mapping[str, Any] = entry if isinstance(entry, dict) else {}
    kind = _text(row, "case_kind") or "ordinary"
    if kind not in CASE_KINDS:
        hint = nearest(kind, CASE_KINDS)
        raise ValueError(f"case_kind is {kind!r}; allowed: {', '.join(CASE_KINDS)}{hint}")
    if "category" in row:
        _text(row, "category")
    return Item(
        id=asked.id,
        line=line,
        category=asked.category,
        language=_text(row, "language") or UNKNOWN_LANGUAGE,
        case_kind=kind,
        messages=asked.messages,
        later=asked.later,
        temperatures=_temperatures(row),
        conversation=_text(row, "conversation"),
        check=_check(row["check"]) if row.get("check") is not None else None,
        fields={key: value for key, value in row.items() if key not in _KNOWN},
    )


def _text(row: Mapping[str, Any], key: str) -> str | None:
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ValueError(f"{key} is {value!r}; allowed: a text that is not empty")
    return str(value).strip()


def _temperatures(row: Mapping[str, Any]) -> tuple[float, ...]:
    value = row.get("temperature")
    if value is None:
        return ()
    fine = isinstance(value, int | float) and not isinstance(value, bool)
    if not fine or not math.isfinite(value) or not 0 <= value <= MOST_TEMPERATURE:
        raise ValueError(f"temperature is {value!r}; allowed: 0 to {MOST_TEMPERATURE}")
    return (float(value),)


def _check(value: object) -> Check:
    try:
        return ADAPTER.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        context: Mapping[str, Any] = first.get("ctx") or {}
        at = ".".join(map(str, [*first["loc"][1:], *filter(None, [context.get("key")])]))
        says = context.get("message") or str(first["msg"])
        raise ValueError(f"check{f'.{at}' if at else ''}: {says}") from None


def _twice(items: list[Item]) -> Iterator[tuple[int, str]]:
    """Ids name records, so they differ; so do questions, unless they say that they belong
    together: a question asked twice would count as two."""
    ids: dict[str, int] = {}
    questions: dict[object, Item] = {}
    for item in items:
        if item.id in ids:
            yield item.line, f"id {item.id!r} is that of line {ids[item.id]}; ids name records"
        ids.setdefault(item.id, item.line)
        question = (tuple(tuple(sorted(m.items())) for m in item.messages), item.later)
        first = questions.setdefault((question, item.temperatures), item)
        together = item.conversation is not None and item.conversation == first.conversation
        if first is not item and not together:
            yield (
                item.line,
                f"{item.id!r} asks what {first.id!r} asks (line {first.line}), so it is no second "
                "sample; remove one, or give both the same `conversation`",
            )
