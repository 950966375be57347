"""A plan's data as items in three parts, with everything that tells whether they are the same."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue

from outpace.errors import ConfigError
from outpace.evaluate.data.items import (
    PARTS,
    CountTokens,
    Item,
    Items,
    Part,
    digest_of,
    length_group,
)
from outpace.evaluate.data.read import read_items
from outpace.evaluate.data.split import Drawn, draw
from outpace.evaluate.plan.data import BUILT_IN, Data, Factor, Sampling
from outpace.evaluate.plan.document import canonical
from outpace.evaluate.plan.rules.finding import Counts

BUILT_IN_FILE = Path(__file__).with_name("builtin") / "prompts.jsonl"
ABSENT = "none"
"""The value of `field:KEY` where an item has no such key."""
_BYTES_PER_TOKEN = 4


def load(
    data: Data, sampling: Sampling, count_tokens: CountTokens | None = None, *,
    folder: Path = Path(),
) -> Items:  # fmt: skip
    """Read, split, filter, limit.

    count_tokens: how many tokens a text has; without it a quarter of its bytes is taken, and a
    note says so. folder: of the plan, which a relative source starts from.

    Raises:
        ConfigError: the file cannot be read, entries are wrong, a factor or a value that is asked
            for is in none of them, or nothing is left.
    """
    source = BUILT_IN_FILE if data.source == BUILT_IN else folder / data.source
    sha256, read = read_items(source)
    items = [_grouped(item, data, sampling, count_tokens) for item in read]
    _known_factors(data, items)
    stratify = data.split.stratify
    strata = ["|".join(_values(item, stratify)) if stratify else "" for item in items]
    drawn = draw(items, data.split, strata)
    kept = _filtered([item for item in items if drawn.parts[item.id] is not None], data)
    if data.limit is not None:
        kept = kept[: data.limit]
    kept = [replace(i, subgroups=_only(i.subgroups, data.subgroups)) for i in kept]
    parts = {part: tuple(i for i in kept if drawn.parts[i.id] == part) for part in PARTS}
    rule = [data.split.model_dump(mode="json"), data.filter, data.limit, data.length_edges_tokens]
    outcome = {part: [item.id for item in found] for part, found in parts.items()}
    split = hashlib.sha256(canonical(json.loads(json.dumps([rule, outcome]))).encode())
    return Items(
        name=data.source,
        dev=parts["dev"],
        test=parts["test"],
        confirm=parts["confirm"],
        digests={
            "data": sha256,
            "split": split.hexdigest(),
            **{part: digest_of(found) for part, found in parts.items()},
        },
        notes=tuple(_notes(data, drawn, parts, counted=count_tokens is not None)),
    )


def counts(items: Items) -> Counts:
    """What the linter must know."""
    groups: dict[str, Counter[str]] = {}
    for item in items.test:
        for factor, value in item.subgroups.items():
            values = [f"{t:g}" for t in item.temperatures] if factor == "temperature" else [value]
            groups.setdefault(factor, Counter()).update(values)
    return Counts(
        dev=len(items.dev),
        test=len(items.test),
        confirm=len(items.confirm),
        subgroups={factor: dict(found) for factor, found in groups.items()},
    )


def _grouped(item: Item, data: Data, sampling: Sampling, count_tokens: CountTokens | None) -> Item:
    """An item with its length, its temperatures and the value of every factor it may have."""
    text = "\n".join(message["content"] for message in item.messages)
    n = count_tokens(text) if count_tokens else -(-len(text.encode()) // _BYTES_PER_TOKEN)
    temperatures = item.temperatures or sampling.temperatures
    wanted = data.filter.get("temperature")
    if wanted is not None:
        temperatures = tuple(t for t in temperatures if f"{t:g}" in wanted)
    return replace(
        item,
        n_prompt_tokens=n,
        temperatures=temperatures,
        subgroups={
            "category": item.category,
            "language": item.language,
            "case_kind": item.case_kind,
            "prompt_length": length_group(n, data.length_edges_tokens),
            "temperature": "",
            **{f"field:{key}": _text(value) for key, value in item.fields.items()},
        },
    )


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _values(item: Item, factor: Factor) -> Seq[str]:
    """The values of a factor an item has: one, but for the temperature."""
    if factor == "temperature":
        return [f"{t:g}" for t in item.temperatures]
    return [item.subgroups.get(factor, ABSENT)]


def _only(subgroups: Mapping[str, str], factors: Iterable[str]) -> Mapping[str, str]:
    return {factor: subgroups.get(factor, ABSENT) for factor in factors}


def _known_factors(data: Data, items: Seq[Item]) -> None:
    """A key that no entry has would make one group of all."""
    asked = [*data.subgroups, *data.filter, *filter(None, [data.split.stratify])]
    known = {factor for item in items for factor in item.subgroups}
    for factor in asked:
        if factor not in known:
            own = sorted(name for name in known if name.startswith("field:"))
            raise ConfigError(
                f"no prompt of {data.source} has {factor}; "
                f"there is {', '.join(own) or 'no key of its own in any'}"
            )


def _filtered(items: Seq[Item], data: Data) -> list[Item]:
    """What the filter leaves; a value nobody has is a slip, not an empty group."""
    for factor, wanted in data.filter.items():
        there = sorted({value for item in items for value in _values(item, factor)})
        missing = [value for value in wanted if value not in there]
        if missing:
            shown = ", ".join(there[:20]) or "none"
            raise ConfigError(
                f"data.filter.{factor} wants {missing[0]!r}, which no prompt of {data.source} has; "
                f"there is {shown}"
            )
    left = [
        item
        for item in items
        if all(set(wanted) & set(_values(item, f)) for f, wanted in data.filter.items())
    ]
    if not left:
        raise ConfigError(f"data.filter leaves none of {len(items)} prompts of {data.source}")
    return left


def _notes(
    data: Data, drawn: Drawn, parts: Mapping[Part, Seq[Item]], *, counted: bool
) -> Iterable[str]:
    sizes = Counter(drawn.groups.values())
    most = max(sizes.values())
    for part in PARTS:
        if getattr(data.split, part) and not parts[part]:
            yield (
                f"{part} is empty; prompts that are alike or of one conversation stay together, "
                f"and the largest such group has {most} of {len(drawn.parts)}"
            )
    if drawn.left_out:
        shown = ", ".join(drawn.left_out[:5])
        yield (
            f"{len(drawn.left_out)} left out, alike prompts of more than one part: {shown}"
            + (", ..." if len(drawn.left_out) > 5 else "")
        )
    together = sum(n for n in sizes.values() if n > 1)
    if together:
        yield f"{together} prompts are alike others or of one conversation, and stay with them"
    if not counted:
        yield "lengths of prompts are estimates: a quarter of their bytes"
