"""What an answer must be, as a value: a `GrammarSpec` checks itself at birth and compares equal.

Whether a grammar library can enforce it is found later, when it is compiled (`compile.py`).
"""

import json
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Literal

from outpace.errors import RequestError

#   json_object  any JSON object          json_schema  JSON that the schema describes
#   regex        the whole answer matches choice       one of these strings
#   lark, ebnf   a context-free grammar, in Lark's notation or with ::=
#   calls        calls of tools (`calls.py`)
Kind = Literal["json_object", "json_schema", "regex", "choice", "lark", "ebnf", "calls"]
KINDS: tuple[Kind, ...] = (
    "json_object", "json_schema", "regex", "choice", "lark", "ebnf", "calls",
)  # fmt: skip
# Between the parts of JSON: flexible = nothing, a space, or a new line with its indent; a model
# can neither be cramped nor write blanks for ever. compact = nothing.
Blanks = Literal["flexible", "compact"]
BLANKS: tuple[Blanks, ...] = ("flexible", "compact")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarSpec:
    """One grammar.

    source: the schema, choices or calls as JSON, else the regex or grammar itself. blanks: for
    JSON only. name: the field it came in, for messages; two specs may differ in it and still
    be the same grammar.

    Raises:
        RequestError: no such kind, an empty source, or text that no UTF-8 can spell.
    """

    kind: Kind
    source: str = ""
    blanks: Blanks = "flexible"
    name: str = field(default="grammar", compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.blanks not in BLANKS:
            raise RequestError(
                f"{self.name} is of kind {self.kind!r} with {self.blanks!r} blanks; allowed: "
                f"{', '.join(KINDS)}, with {' or '.join(BLANKS)} blanks"
            )
        if not self.source and self.kind != "json_object":
            raise RequestError(f"{self.name} is empty; give the {self.kind}, or leave it out")
        try:
            self.source.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RequestError(
                f"{self.name} has a lone surrogate (half a character) at index {error.start}; "
                "only whole Unicode characters can be written"
            ) from None


def json_object(*, blanks: Blanks = "flexible", name: str = "grammar") -> GrammarSpec:
    """Any JSON object."""
    return GrammarSpec(kind="json_object", blanks=blanks, name=name)


def json_schema(
    schema: object, *, blanks: Blanks = "flexible", name: str = "grammar"
) -> GrammarSpec:
    """JSON that `schema` describes: a mapping, True (any JSON), or either as JSON text.

    Properties are written in the schema's order.

    Raises:
        RequestError: no JSON, or no schema.
    """
    if isinstance(schema, str):
        schema = parse_json(schema, name)
    if schema is True:
        schema = {}
    if not isinstance(schema, Mapping):
        raise RequestError(
            f"{name} is {_shown(schema)}; allowed: a JSON schema, which is an object such as "
            '{"type": "object", "properties": {..}}'
        )
    try:
        source = json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"{name} cannot be written as JSON ({error}); send plain JSON") from None
    return GrammarSpec(kind="json_schema", source=source, blanks=blanks, name=name)


def regex(pattern: object, *, name: str = "grammar") -> GrammarSpec:
    """Text that `pattern` matches from its beginning to its end."""
    return GrammarSpec(kind="regex", source=_text(pattern, name, "a regular expression"), name=name)


def choice(options: object, *, name: str = "grammar") -> GrammarSpec:
    """One of these strings.

    Raises:
        RequestError: no list of strings, or an empty one.
    """
    if isinstance(options, str) or not isinstance(options, Seq) or not options:
        raise RequestError(f"{name} is {_shown(options)}; allowed: a list of at least one string")
    for at, option in enumerate(options):
        _text(option, f"{name}[{at}]", "a string")
    unique = list(dict.fromkeys(options))
    return GrammarSpec(kind="choice", source=json.dumps(unique, ensure_ascii=False), name=name)


def grammar(source: object, *, name: str = "grammar") -> GrammarSpec:
    """A context-free grammar: with `::=` it is EBNF as in llama.cpp, else Lark's notation."""
    text = _text(source, name, "a grammar as text")
    return GrammarSpec(kind="ebnf" if "::=" in text else "lark", source=text, name=name)


def parse_json(text: str, name: str) -> object:
    """JSON text -> what it says.

    Raises:
        RequestError: naming the place where it stops being JSON.
    """
    try:
        parsed: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise RequestError(
            f"{name} is no JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise RequestError(f"{name} is nested too deeply to be read; flatten it") from None
    return parsed


def nesting(value: object) -> int:
    """How many objects and lists are inside each other, at most."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        below = _below(item)
        if below is not None:
            deepest = max(deepest, depth)
            waiting.extend((child, depth + 1) for _, child in below)
    return deepest


def places(value: object, key: str) -> Iterator[str]:
    """Where in a schema a keyword stands, such as `$.properties.tags`."""
    waiting = [("$", value)]
    while waiting:
        where, item = waiting.pop(0)
        if isinstance(item, Mapping) and key in item:
            yield where
        for step, child in _below(item) or ():
            waiting.append((f"{where}.{step}" if isinstance(step, str) else f"{where}[{step}]",
                            child))  # fmt: skip


def _below(item: object) -> list[tuple[str | int, object]] | None:
    if isinstance(item, Mapping):
        return [(str(key), child) for key, child in item.items()]
    return list(enumerate(item)) if isinstance(item, list) else None


def _text(value: object, name: str, what: str) -> str:
    if not isinstance(value, str):
        raise RequestError(f"{name} is {_shown(value)}; allowed: {what}")
    return value


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
