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
from collections.abc import Callable, Mapping
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


class _Unfit(Exception):
    """A JSON value that is not what the format says; `place` grows on the way up."""

    def __init__(self, raw: object, allowed: str) -> None:
        super().__init__(allowed)
        shown = repr(raw)
        self.found = shown if len(shown) <= 80 else f"{shown[:77]}..."
        self.allowed = allowed
        self.place = ""


def _read(cls: type[Line], raw: dict[str, Any], where: str) -> Line:
    hint: Any = cls
    try:
        line: Line = _reader(hint)(raw)
    except _Unfit as error:
        raise TraceError(
            f"{where}{error.place}: found {error.found}; allowed: {error.allowed}; "
            f"use the file as outpace wrote it"
        ) from None
    return line


# `Any` from here on: JSON values, and types as values; both are checked here, at run time.
_Reader = Callable[[Any], Any]


@cache
def _reader(hint: Any) -> _Reader:
    """What reads a JSON value as `hint`, or raises _Unfit; made once per type of the format."""
    if is_dataclass(hint) and isinstance(hint, type):
        return _object_reader(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        inner = _reader(next(a for a in args if a is not type(None)))
        return lambda raw: None if raw is None else inner(raw)
    if origin is Literal:
        return _checked(lambda raw: isinstance(raw, str) and raw in args, f"one of {args}")
    if origin is tuple and args[-1] is Ellipsis:
        return _list_reader(_reader(args[0]), plain_kind=args[0])
    if origin is tuple:
        return _row_reader(tuple(_reader(arg) for arg in args))
    if hint is float:
        return _read_float
    return _checked(lambda raw: type(raw) is hint, hint.__name__)


def _checked(ok: Callable[[Any], bool], allowed: str) -> _Reader:
    def read(raw: Any) -> Any:
        if not ok(raw):
            raise _Unfit(raw, allowed)
        return raw

    return read


def _read_float(raw: Any) -> float:
    if type(raw) not in (int, float) or not abs(raw) <= sys.float_info.max:
        raise _Unfit(raw, "a finite number")
    return float(raw)


def _list_reader(read_item: _Reader, *, plain_kind: Any) -> _Reader:
    def read(raw: Any) -> tuple[Any, ...]:
        if not isinstance(raw, list):
            raise _Unfit(raw, "a list")
        if plain_kind is int and all(type(item) is int for item in raw):
            return tuple(raw)  # most of a trace
        return tuple(_at(f"[{i}]", read_item, item) for i, item in enumerate(raw))

    return read


def _row_reader(readers: tuple[_Reader, ...]) -> _Reader:
    def read(raw: Any) -> tuple[Any, ...]:
        if not isinstance(raw, list) or len(raw) != len(readers):
            raise _Unfit(raw, f"a list of {len(readers)}")
        pairs = zip(readers, raw, strict=True)
        return tuple(_at(f"[{i}]", reader, item) for i, (reader, item) in enumerate(pairs))

    return read


def _object_reader(cls: type) -> _Reader:
    readers = {name: _reader(hint) for name, hint in _shape(cls)}

    def read(raw: Any) -> Any:
        if not isinstance(raw, dict):
            raise _Unfit(raw, f"an object ({cls.__name__})")
        if raw.keys() != readers.keys():
            unknown, missing = sorted(raw.keys() - readers.keys()), readers.keys() - raw.keys()
            raise _Unfit(
                f"unknown keys {unknown}, missing keys {sorted(missing)}",
                f"the keys {', '.join(readers)}",
            )
        return cls(**{name: _at(f".{name}", reader, raw[name]) for name, reader in readers.items()})

    return read


def _at(place: str, reader: _Reader, raw: Any) -> Any:
    try:
        return reader(raw)
    except _Unfit as error:
        error.place = place + error.place
        raise
