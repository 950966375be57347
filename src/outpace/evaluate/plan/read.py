"""A YAML file into a `Plan`: every problem at once, each with its key, its line and the cure."""

import json
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from outpace.errors import ConfigError
from outpace.evaluate.plan.document import Plan
from outpace.evaluate.plan.shape import nearest

MAX_BYTES = 1 << 20
_SHOWN = 10
_TAGGED = ("type", "profile", "change")
Key = tuple[str | int, ...]
_NAMES = {
    "string_type": "a text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "model_attributes_type": "keys with values",
    "tuple_type": "a list",
    "finite_number": "a finite number",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something in a document that no plan has. path: `criteria[3].alpha`."""

    path: str
    line: int | None
    message: str


class PlanError(ConfigError):
    """A file that is no plan; `problems` has what the message shows, and what it left out."""

    def __init__(self, name: str, problems: Seq[Problem]) -> None:
        self.problems = tuple(problems)
        shown = [
            f"{name}{f':{p.line}' if p.line else ''}: {p.path or 'the plan'}: {p.message}"
            for p in problems[:_SHOWN]
        ]
        more = len(problems) - len(shown)
        super().__init__("\n".join([*shown, *([f"and {more} more"] if more > 0 else [])]))


def read_plan(path: Path) -> Plan:
    """Read a plan.

    Raises:
        PlanError: it is none; every problem is named.
        ConfigError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(f"{path} has more than {MAX_BYTES} bytes; a plan is a short document")
        text = data.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read the plan {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read the plan {path}: {error}; write it in UTF-8") from None
    return parse_plan(text, name=str(path))


def parse_plan(text: str, *, name: str = "plan") -> Plan:
    """A plan from the text of its file.

    Raises:
        PlanError: as `read_plan`.
    """
    document, lines = _load(text, name)
    try:
        encoded = json.dumps(document)
    except TypeError:
        raise PlanError(name, _unspeakable((), document, lines)) from None
    try:
        return Plan.model_validate_json(encoded)
    except ValidationError as error:
        found = [_problem(dict(e), document, lines) for e in error.errors(include_url=False)]
        raise PlanError(name, _by_place(found)) from None


class _Loader(yaml.SafeLoader):
    """Safe YAML that notes lines and refuses what would make a plan mean two things."""

    def compose_node(self, parent: Any, index: Any) -> Any:  # the types of PyYAML's own method
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            at = event.start_mark.line + 1
            raise _Refused(at, "anchors and aliases are not read; write the value where it applies")
        return super().compose_node(parent, index)


class _Refused(Exception):
    def __init__(self, line: int, message: str, path: str = "") -> None:
        super().__init__(message)
        self.line, self.message, self.path = line, message, path


def _load(text: str, name: str) -> tuple[object, Mapping[Key, int]]:
    """The document, and the line of every key in it."""
    lines: dict[Key, int] = {}
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise _Refused(1, "nothing here; `outpace evaluate init` writes a plan to begin with")
        _note_lines(node, (), lines)
        document: object = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark is not None else None
        problem = Problem(path="", line=line, message=f"no YAML: {error.problem or error.context}")
        raise PlanError(name, [problem]) from None
    except yaml.YAMLError as error:
        raise PlanError(name, [Problem(path="", line=None, message=f"no YAML: {error}")]) from None
    except RecursionError:
        problem = Problem(path="", line=None, message="no plan: nested too deep")
        raise PlanError(name, [problem]) from None
    except ValueError as error:  # a date such as 2026-13-01, a number of 5000 digits
        raise PlanError(name, [Problem(path="", line=None, message=f"no YAML: {error}")]) from None
    except _Refused as error:
        problem = Problem(path=error.path, line=error.line, message=error.message)
        raise PlanError(name, [problem]) from None
    return document, lines


def _note_lines(node: yaml.Node, at: Key, lines: dict[Key, int]) -> None:
    lines.setdefault(at, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                said = getattr(key, "value", "?")
                raise _Refused(line, f"key {said!r} is no text; write it in quotes", spell(at))
            inner = (*at, key.value)
            if inner in lines:
                message = f"this key occurs twice; the first is in line {lines[inner]}"
                raise _Refused(line, message, spell(inner))
            lines[inner] = line
            _note_lines(value, inner, lines)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            _note_lines(value, (*at, i), lines)


def spell(path: Iterable[str | int]) -> str:
    """`criteria[3].alpha`"""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _problem(error: Mapping[str, Any], document: object, lines: Mapping[Key, int]) -> Problem:
    """A problem of pydantic's in the words and places of the document."""
    path = _place(error["loc"], document)
    context: Mapping[str, Any] = error.get("ctx") or {}
    if context.get("key"):
        path = (*path, context["key"])
    if error["type"].startswith("union_tag"):
        path = (*path, str(context.get("discriminator", "")).strip("'"))
    line = next((lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in lines), None)
    return Problem(path=spell(path), line=line, message=_message(error, context))


def _by_place(problems: Iterable[Problem]) -> list[Problem]:
    """One problem per place: where several kinds of value are allowed, each was refused."""
    merged: dict[str, Problem] = {}
    for problem in problems:
        first = merged.setdefault(problem.path, problem)
        if first is not problem:
            or_else = problem.message.partition("; ")[2] or problem.message
            merged[problem.path] = replace(first, message=f"{first.message}, or {or_else}")
    return list(merged.values())


def _message(error: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    kind, found = error["type"], error.get("input")
    match kind:
        case "unknown_key" | "wrong":
            return str(context["message"])
        case "missing" | "union_tag_not_found":
            return "required, and not there" + (
                f"; allowed: {context['expected_tags']}" if "expected_tags" in context else ""
            )
        case "union_tag_invalid":
            allowed = str(context["expected_tags"]).replace("'", "").split(", ")
            hint = nearest(str(context["tag"]), allowed)
            return f"found {context['tag']!r}; allowed: {', '.join(allowed)}{hint}"
        case "literal_error":
            allowed = str(context["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
            hint = nearest(str(found), allowed)
            return f"found {_short(found)}; allowed: {', '.join(allowed)}{hint}"
        case "float_type" | "int_type" if _exponent(found):
            return f"found the text {found!r}; YAML reads such a number only as {_exponent(found)}"
        case "too_short":
            return f"found {_short(found)}; allowed: at least {context['min_length']}"
        case _ if kind in _NAMES:
            return f"found {_short(found)}; allowed: {_NAMES[kind]}"
    says = str(error["msg"]).removeprefix("Input should ").removeprefix("String should ")
    return f"found {_short(found)}; it should {says}"


def _exponent(found: object) -> str:
    """`1.0e-12` for `1e-12`, which YAML 1.1 takes for a text."""
    if isinstance(found, str) and "e" in found.lower():
        try:
            float(found)
        except ValueError:
            return ""
        head, _, power = found.lower().partition("e")
        return (
            f"{head if '.' in head else head + '.0'}e{power if power[0] in '+-' else '+' + power}"
        )
    return ""


def _place(loc: Iterable[str | int], document: object) -> Key:
    """Where in the document an error is: pydantic's path without its names for kinds of parts."""
    path: list[str | int] = []
    here: Any = document
    fresh = True
    for part in loc:
        if isinstance(here, dict) and fresh and part in [here.get(tag) for tag in _TAGGED]:
            fresh = False
            continue
        if isinstance(part, str) and (part.endswith(" arm") or part == "[key]"):
            continue
        if not isinstance(here, dict | list) and path:
            break  # what follows names a branch of a union of plain values
        path.append(part)
        fresh = True
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            here = None
    return tuple(path)


def _unspeakable(at: Key, value: object, lines: Mapping[Key, int]) -> list[Problem]:
    """Dates, bytes, sets: what YAML knows and JSON does not."""
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in _unspeakable((*at, k), v, lines)]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in _unspeakable((*at, i), v, lines)]
    if value is None or isinstance(value, str | int | float | bool):
        return []
    message = f"found {_short(value)}, a {type(value).__name__}; write it in quotes"
    return [Problem(path=spell(at), line=lines.get(at), message=message)]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
