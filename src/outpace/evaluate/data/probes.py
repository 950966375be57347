"""Prompts for the probes of a plan: cases that set drafters wrong, and longer contexts."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import cycle

from outpace.errors import ConfigError
from outpace.evaluate.data.items import CountTokens, Item, Items
from outpace.evaluate.data.load import BUILT_IN_FILE
from outpace.evaluate.data.read import read_items
from outpace.evaluate.plan.probes import Case

PROBE = "probe"
_LONG = "long_context"


def bad_case(items: Items, case: Case) -> tuple[Item, ...]:
    """Prompts of a case, asked at the temperatures of the others.

    Those of dev and test that are marked `"probe": CASE`; where the data has none, those that are
    shipped. The confirmation set is left closed.
    """
    own = tuple(item for item in (*items.dev, *items.test) if item.fields.get(PROBE) == case)
    if own:
        return own
    temperatures = tuple(sorted({t for item in items.all for t in item.temperatures})) or (0.0,)
    return tuple(
        replace(item, temperatures=item.temperatures or temperatures)
        for item in _shipped()
        if item.fields.get(PROBE) == case
    )


def longer(item: Item, n_tokens: int, count_tokens: CountTokens | None = None) -> Item:
    """The item with about so many tokens of other text before its first question.

    The text is that of the shipped long documents; it says nothing about the question. Its length
    is at least n_tokens, and more by less than a paragraph.

    Raises:
        ConfigError: n_tokens is not positive.
    """
    if n_tokens < 1:
        raise ConfigError(f"a context of {n_tokens} tokens; allowed: 1 or more")
    count = count_tokens or _estimate
    before: list[str] = []
    n = 0
    for paragraph in cycle(_paragraphs()):
        if n >= n_tokens:
            break
        before.append(paragraph)
        n += count(paragraph)
    context = "\n\n".join(before)
    at = next((i for i, m in enumerate(item.messages) if m["role"] == "user"), 0)
    said = item.messages[at]
    message = {**said, "content": f"{context}\n\n---\n\n{said['content']}"}
    messages = (*item.messages[:at], message, *item.messages[at + 1 :])
    return replace(item, messages=messages, n_prompt_tokens=item.n_prompt_tokens + n)


@cache
def _shipped() -> tuple[Item, ...]:
    return read_items(BUILT_IN_FILE)[1]


def _paragraphs() -> Iterator[str]:
    """Paragraphs of the long documents, without the questions and instructions around them."""
    seen: set[str] = set()
    for item in _shipped():
        if item.category != _LONG:
            continue
        for paragraph in item.prompt.split("\n\n"):
            if len(paragraph) >= 200 and paragraph not in seen:
                seen.add(paragraph)
                yield paragraph


def _estimate(text: str) -> int:
    return -(-len(text.encode()) // 4)
