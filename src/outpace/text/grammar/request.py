"""The fields clients ask for structured outputs with -> one `GrammarSpec`.

OpenAI's `response_format`, vLLM's older `guided_*` fields and its newer `structured_outputs` say
the same things. Each is honoured whole or refused by name; two at once are refused, since no one
says which would win.
"""

from collections.abc import Callable, Mapping

from outpace.errors import RequestError
from outpace.text.grammar import spec
from outpace.text.grammar.spec import Blanks, GrammarSpec

Field = tuple[str, object]
_FORMATS = "text, json_object, json_schema"
_STRUCTURED = ("json", "json_object", "regex", "choice", "grammar")
# Switches of structured_outputs whose False and None say nothing.
_COMPACT = "disable_any_whitespace"


def grammar_of(
    *,
    response_format: object = None,
    guided_json: object = None,
    guided_regex: object = None,
    guided_choice: object = None,
    guided_grammar: object = None,
    structured_outputs: object = None,
) -> GrammarSpec | None:
    """The grammar a request asks for, None where it asks for none.

    Raises:
        RequestError: naming the field that is wrong, or two that contradict each other.
    """
    makers: tuple[tuple[str, object, Callable[[str, object], GrammarSpec | None]], ...] = (
        ("response_format", response_format, _response_format),
        ("guided_json", guided_json, lambda name, value: spec.json_schema(value, name=name)),
        ("guided_regex", guided_regex, lambda name, value: spec.regex(value, name=name)),
        ("guided_choice", guided_choice, lambda name, value: spec.choice(value, name=name)),
        ("guided_grammar", guided_grammar, lambda name, value: spec.grammar(value, name=name)),
        ("structured_outputs", structured_outputs, _structured_outputs),
    )
    given = [(name, value, make) for name, value, make in makers if value is not None]
    found = [(name, made) for name, value, make in given if (made := make(name, value)) is not None]
    if len(found) > 1:
        names = " and ".join(name for name, _ in found)
        raise RequestError(f"{names} both shape the answer; give one of them")
    return found[0][1] if found else None


def _response_format(name: str, value: object) -> GrammarSpec | None:
    fields = _mapping(name, value, 'an object such as {"type": "json_object"}')
    kind = fields.get("type")
    if kind == "text":
        _only(name, fields, ("type",))
        return None
    if kind == "json_object":
        _only(name, fields, ("type",))
        return spec.json_object(name=name)
    if kind != "json_schema":
        raise RequestError(f"{name}.type is {kind!r}; allowed: {_FORMATS}")
    _only(name, fields, ("type", "json_schema"))
    inner = f"{name}.json_schema"
    described = _mapping(inner, fields.get("json_schema"), 'an object with "name" and "schema"')
    _only(inner, described, ("name", "description", "schema", "strict"))  # always strict
    if "schema" not in described:
        raise RequestError(f"{inner}.schema is missing; give the JSON schema of the answer")
    return spec.json_schema(described["schema"], name=f"{inner}.schema")


def _structured_outputs(name: str, value: object) -> GrammarSpec | None:
    fields = _mapping(name, value, f"an object with one of {', '.join(_STRUCTURED)}")
    fields = {key: item for key, item in fields.items() if item is not None and item is not False}
    _only(name, fields, (*_STRUCTURED, _COMPACT))
    asked = [key for key in _STRUCTURED if key in fields]
    if len(asked) != 1:
        found = " and ".join(asked) or "none of them"
        raise RequestError(f"{name} has {found}; allowed: one of {', '.join(_STRUCTURED)}")
    (key,) = asked
    blanks: Blanks = "compact" if fields.get(_COMPACT) else "flexible"
    if blanks == "compact" and not key.startswith("json"):
        raise RequestError(f"{name}.{_COMPACT} shapes JSON, and {key} is none; leave it out")
    inner, item = f"{name}.{key}", fields[key]
    match key:
        case "json":
            return spec.json_schema(item, blanks=blanks, name=inner)
        case "json_object":
            if item is not True:
                raise RequestError(f"{inner} is {item!r}; allowed: true")
            return spec.json_object(blanks=blanks, name=inner)
        case "regex":
            return spec.regex(item, name=inner)
        case "choice":
            return spec.choice(item, name=inner)
    return spec.grammar(item, name=inner)


def _mapping(name: str, value: object, allowed: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise RequestError(f"{name} is {value!r:.60}; allowed: {allowed}")
    return value


def _only(name: str, fields: Mapping[str, object], allowed: tuple[str, ...]) -> None:
    unknown = [str(key) for key in fields if key not in allowed]
    if unknown:
        raise RequestError(
            f"{name}.{unknown[0]} is not supported; allowed in {name}: {', '.join(allowed)}"
        )
