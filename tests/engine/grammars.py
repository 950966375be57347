"""Twenty things an answer may have to be, each with a check of its own, written independently."""

import json
import re
from collections.abc import Callable, Mapping

import jsonschema

from outpace.text.grammar import spec
from outpace.text.grammar.spec import GrammarSpec

Check = Callable[[str], object]

# Bounded everywhere: a random model would else never come to an end.
SCHEMAS: Mapping[str, dict[str, object]] = {
    "flat": {
        "type": "object", "additionalProperties": False, "required": ["name", "age"],
        "properties": {"name": {"type": "string", "maxLength": 6},
                       "age": {"type": "integer", "minimum": 0, "maximum": 150}},
    },
    "optional": {
        "type": "object", "additionalProperties": False,
        "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}, "c": {"enum": [1, 2.5]}},
    },
    "nested": {
        "type": "object", "additionalProperties": False, "required": ["in"],
        "properties": {"in": {
            "type": "object", "additionalProperties": False, "required": ["x"],
            "properties": {"x": {"type": "array", "maxItems": 2, "items": {"type": "boolean"}}},
        }},
    },
    "list": {"type": "array", "minItems": 1, "maxItems": 4, "items": {"enum": ["é", "\n", "\""]}},
    "tuple": {"type": "array", "prefixItems": [{"type": "boolean"}, {"const": "x"}],
              "items": False, "minItems": 2},
    "union": {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 3},
                        {"type": "array", "maxItems": 1, "items": {"type": "null"}}]},
    "tagged": {"oneOf": [
        {"type": "object", "required": ["kind", "r"], "additionalProperties": False,
         "properties": {"kind": {"const": "circle"}, "r": {"type": "integer", "maximum": 9,
                                                           "minimum": 1}}},
        {"type": "object", "required": ["kind"], "additionalProperties": False,
         "properties": {"kind": {"const": "point"}}},
    ]},
    "recursive": {
        "$defs": {"tree": {"type": "object", "additionalProperties": False,
                           "properties": {"v": {"enum": [0, 1]}}, "required": ["v"]}},
        "type": "object", "properties": {"left": {"$ref": "#/$defs/tree"},
                                         "right": {"$ref": "#/$defs/tree"}},
        "required": ["left"], "additionalProperties": False,
    },
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
    "date": {"type": "object", "properties": {"on": {"type": "string", "format": "date"}},
             "required": ["on"], "additionalProperties": False},
    "unicode": {"type": "object", "properties": {"grüße\u2028": {"type": "string", "minLength": 1,
                                                                 "maxLength": 2}},
                "required": ["grüße\u2028"], "additionalProperties": False},
}  # fmt: skip
REGEXES = (
    r"\d{3}-\d{4}",
    r"(foo|foobar|bar){1,3}",
    r"[a-z]{1,5}(, [a-z]{1,5}){0,2}\.",
    r"naïve (café|cafés)",
    r"(0|[1-9]\d?)(\.\d{1,2})?%?",
)
CHOICES = (["yes", "no", "not sure"], ["a", "ab", "abc", "é"])
LARK = 'start: "(" start ")" | LETTER\nLETTER: /[xyz]{1,3}/'
EBNF = 'root ::= item ("+" item)?\nitem ::= [0-9] | "(" [0-9] ")"'


def parses(schema: dict[str, object]) -> Check:
    """JSON that another library finds valid."""

    def check(text: str) -> None:
        jsonschema.validate(
            json.loads(text), schema, format_checker=jsonschema.FormatChecker(),
            cls=jsonschema.Draft202012Validator,
        )  # fmt: skip

    return check


def matches(pattern: str) -> Check:
    """A text that Python's own regex matches whole."""

    def check(text: str) -> None:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(f"{text!r} is not {pattern}")

    return check


def is_one_of(options: list[str]) -> Check:
    """One of these."""
    return matches("|".join(re.escape(option) for option in options))


def balanced(text: str) -> None:
    """As many brackets open as close, around letters."""
    core = text.strip("()")
    n = text.count("(")
    if text != "(" * n + core + ")" * n or re.fullmatch("[xyz]{1,3}", core) is None:
        raise ValueError(f"{text!r} is not balanced")


WANTED: Mapping[str, tuple[GrammarSpec, Check]] = {
    **{name: (spec.json_schema(s), parses(s)) for name, s in SCHEMAS.items()},
    **{pattern: (spec.regex(pattern), matches(pattern)) for pattern in REGEXES},
    **{"/".join(options): (spec.choice(options), is_one_of(options)) for options in CHOICES},
    "lark": (spec.grammar(LARK), balanced),
    "ebnf": (spec.grammar(EBNF), matches(r"(\d|\(\d\))(\+(\d|\(\d\)))?")),
}
