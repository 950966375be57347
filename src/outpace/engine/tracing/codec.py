"""Lines <-> bytes: strict JSON both ways, and the chain of digests that ties the lines together.

Every line ends with a `sha256` member: the digest of the line before it and of its own text. A
trace damaged by accident, or edited without recomputing the chain, is found at the line where it
happened. It is no signature: whoever edits a trace can recompute the chain; then the numbers
must still lead to each other, which is what replay checks.

Floats are written with `repr` and read back exactly; NaN and infinities are refused.
"""

import hashlib
import json
import re
import sys
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from outpace.engine.tracing.lines import SCHEMA, VERSION, End, Header, Line, Request, Round
from outpace.errors import TraceError

GENESIS = "0" * 64
_KINDS: Mapping[str, type[Line]] = {
    "header": Header, "request": Request, "round": Round, "end": End,
}  # fmt: skip
_SEAL = re.compile(r',"sha256":"([0-9a-f]{64})"\}\Z')


class WrongVersion(TraceError):
    """A trace of another version of the format."""


def digest(*parts: str) -> str:
    """sha256 over the parts, each ended by a byte that JSON text cannot contain."""
    return hashlib.sha256(b"".join(part.encode() + b"\0" for part in parts)).hexdigest()


def plain(value: object) -> object:
    """A line as dicts, lists, strings and numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name, _ in _shape(type(value))}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value


def seal(line: Line, previous: str) -> tuple[str, str]:
    """The line's text (without newline) and its digest, which the next line continues."""
    body = json.dumps(plain(line), separators=(",", ":"), allow_nan=False)
    own = digest(previous, body)
    return f'{body[:-1]},"sha256":"{own}"}}', own


def unseal(text: str, previous: str, where: str) -> tuple[Line, str, bool]:
    """Read a line: its value, its digest, and whether the digest continues `previous`.

    Raises:
        TraceError: not a line of a trace; says where and what was found.
    """
    raw = _parse(text, where)
    found = _SEAL.search(text)
    if found is None:
        raise TraceError(
            f"{where}: the line does not end with its sha256; a trace's lines are written by "
            f"outpace and must not be reformatted; use the file as it was written"
        )
    raw.pop("sha256", None)
    kind = raw.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise TraceError(
            f"{where}: kind is {kind!r}; a trace has {', '.join(_KINDS)} lines; "
            f"remove what another program added, or use the file as it was written"
        )
    if kind == "header":
        _check_version(raw, where)
    body = text[: found.start()] + "}"
    line: Line = _read(_KINDS[kind], raw, where)
    return line, found[1], digest(previous, body) == found[1]


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        raw = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise TraceError(
            f"{where}: not JSON ({error}); each line of a trace is one JSON object; "
            f"use the file as outpace wrote it"
        ) from None
    if not isinstance(raw, dict):
        raise TraceError(f"{where}: a JSON {type(raw).__name__}; a trace's lines are objects")
    return raw


def _check_version(raw: Mapping[str, object], where: str) -> None:
    schema, version = raw.get("schema"), raw.get("version")
    if schema != SCHEMA or version != VERSION:
        raise WrongVersion(
            f"{where}: schema {schema!r}, version {version!r}; this outpace reads {SCHEMA!r}, "
            f"version {VERSION}; read the file with the outpace that wrote it "
            f"({raw.get('outpace')!r})"
        )


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


@cache
def _shape(cls: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(cls)
    return tuple((field.name, hints[field.name]) for field in fields(cls))


# `Any` below: JSON values, and types as values; both are checked here, at run time.
def _read(hint: Any, raw: Any, where: str) -> Any:
    if is_dataclass(hint) and isinstance(hint, type):
        return _read_object(hint, raw, where)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if raw is None and type(None) in args:
            return None
        return _read(next(a for a in args if a is not type(None)), raw, where)
    if origin is Literal:
        if isinstance(raw, str) and raw in args:
            return raw
        raise _wrong(raw, f"one of {', '.join(args)}", where)
    if origin is tuple:
        return _read_tuple(args, raw, where)
    if hint is float and type(raw) in (int, float) and abs(raw) <= sys.float_info.max:
        return float(raw)
    if type(raw) is not hint:
        raise _wrong(raw, "a finite number" if hint is float else hint.__name__, where)
    return raw


def _read_tuple(args: tuple[Any, ...], raw: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(raw, list):
        raise _wrong(raw, "a list", where)
    if args[-1] is Ellipsis:
        if args[0] is int and all(type(item) is int for item in raw):
            return tuple(raw)  # most of a trace
        return tuple(_read(args[0], item, f"{where}[{i}]") for i, item in enumerate(raw))
    if len(raw) != len(args):
        raise _wrong(raw, f"a list of {len(args)}", where)
    return tuple(
        _read(hint, item, f"{where}[{i}]")
        for i, (hint, item) in enumerate(zip(args, raw, strict=True))
    )


def _read_object(cls: type, raw: Any, where: str) -> Any:
    if not isinstance(raw, dict):
        raise _wrong(raw, f"an object ({cls.__name__})", where)
    names = [name for name, _ in _shape(cls)]
    unknown, missing = sorted(set(raw) - set(names)), [n for n in names if n not in raw]
    if unknown or missing:
        raise TraceError(
            f"{where}: unknown keys {unknown}, missing keys {missing}; a {cls.__name__} has "
            f"{', '.join(names)}; use the file as outpace wrote it"
        )
    return cls(**{name: _read(hint, raw[name], f"{where}.{name}") for name, hint in _shape(cls)})


def _wrong(raw: object, allowed: str, where: str) -> TraceError:
    shown = repr(raw)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return TraceError(f"{where}: found {shown}; allowed: {allowed}; use the file as it was written")
