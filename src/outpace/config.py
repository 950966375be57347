"""Configuration from flags, the environment and a file: one precedence, every error names its key.

    flags  >  OUTPACE_<KEY>  >  the [serve] table of a TOML file  >  defaults

A key is one line of a table: name, kind, default, meaning. Values are checked here for kind only;
what they may be is checked by the part they belong to.
"""

import difflib
import json
import tomllib
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from outpace.errors import ConfigError

Kind = Literal["text", "number", "seconds", "switch"]
Value = str | int | float | bool | None

_TRUE: Final = frozenset(("1", "true", "yes", "on"))
_FALSE: Final = frozenset(("0", "false", "no", "off"))
_KINDS: Final[Mapping[Kind, str]] = {
    "text": "a text",
    "number": "a whole number",
    "seconds": "a number of seconds",
    "switch": "true or false",
}
TABLE: Final = "serve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One thing that can be set. default None = nothing is set."""

    name: str
    kind: Kind
    default: Value
    meaning: str

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"OUTPACE_{self.name.upper()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A value and where it came from: flag, environment, file or default."""

    value: Value
    source: str


def resolve(
    keys: Seq[Key],
    *,
    flags: Mapping[str, Value],
    environ: Mapping[str, str],
    file: Path | None,
) -> dict[str, Found]:
    """Every key's value, from the first source that has one.

    Raises:
        ConfigError: an unreadable file, an unknown key, or a value of the wrong kind.
    """
    document = _read(file, {key.name for key in keys}) if file is not None else {}
    found: dict[str, Found] = {}
    for key in keys:
        if flags.get(key.name) is not None:
            found[key.name] = Found(value=flags[key.name], source="flag")
        elif environ.get(key.variable):
            value = _from_text(key, environ[key.variable])
            found[key.name] = Found(value=value, source="environment")
        elif key.name in document:
            value = _from_file(key, document[key.name], file)
            found[key.name] = Found(value=value, source="file")
        else:
            found[key.name] = Found(value=key.default, source="default")
    return found


def spell(keys: Seq[Key], found: Mapping[str, Found]) -> str:
    """The effective configuration as a TOML file that would lead to it."""
    lines = [f"[{TABLE}]"]
    for key in keys:
        value, source = found[key.name].value, found[key.name].source
        if value is None:
            lines.append(f"# {key.name} is not set: {key.meaning}")
        else:
            lines.append(f"{key.name} = {json.dumps(value)}  # {source}: {key.meaning}")
    return "\n".join(lines) + "\n"


def _read(file: Path, names: set[str]) -> Mapping[str, object]:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"config: cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"config: {file} is not TOML: {error}") from None
    for table, content in document.items():
        if table != TABLE or not isinstance(content, dict):
            raise ConfigError(f"{table} in {file}: unknown; keys belong into the table [{TABLE}]")
    table = document.get(TABLE, {})
    for name in table:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(names))}"
            raise ConfigError(f"{name} in {file}: there is no such key{hint}")
    return dict(table)


def _from_file(key: Key, value: object, file: Path | None) -> Value:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    match key.kind:
        case "text" if isinstance(value, str):
            return value
        case "number" if is_number and isinstance(value, int):
            return value
        case "seconds" if is_number or isinstance(value, float):
            return float(value)  # type: ignore[arg-type]  # one of the two
        case "switch" if isinstance(value, bool):
            return value
    raise ConfigError(f"{key.name} in {file} is {value!r}; allowed: {_KINDS[key.kind]}")


def _from_text(key: Key, text: str) -> Value:
    try:
        match key.kind:
            case "text":
                return text
            case "number":
                return int(text)
            case "seconds":
                return float(text)
            case "switch":
                if text.lower() in _TRUE | _FALSE:
                    return text.lower() in _TRUE
    except ValueError:
        pass
    raise ConfigError(
        f"{key.name} ({key.variable}) is {text!r}; allowed: {_KINDS[key.kind]}"
    ) from None
