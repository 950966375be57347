"""Tool calls in a model's text, found as it streams.

Calls come out whole, and what comes out does not depend on how the text was cut into pieces: every
decision is made at a fixed place of the text. What looks like a call and is none stays text.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

_TOOLS_IN_TEMPLATE: Final = re.compile(r"\btools\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function and its arguments, as JSON."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFormat:
    """How a family of models marks its calls: a JSON object with `name` and `arguments` between
    these two."""

    name: str
    begin: str
    end: str


# Families whose template shows the format; Hermes, Qwen and SmolLM3 share one.
FORMATS: Final = (ToolFormat(name="hermes", begin="<tool_call>", end="</tool_call>"),)


def format_of(template: str) -> ToolFormat | None:
    """The format a chat template teaches, None where it knows no tools or no format of ours."""
    if not _TOOLS_IN_TEMPLATE.search(template):
        return None
    return next((form for form in FORMATS if form.begin in template), None)


class ToolParser:
    """Splits a text into words for the reader and calls. Feed it pieces, then `end` it."""

    def __init__(self, form: ToolFormat) -> None:
        self._form = form
        self._held = ""
        self._inside = False
        self._looked = 0  # how far into the held text ends were tried
        self.n_calls = 0

    def push(self, text: str) -> list[str | Call]:
        """What became certain with this piece."""
        self._held += text
        out: list[str | Call] = []
        while self._step(out):
            pass
        return out

    def end(self) -> list[str | Call]:
        """The rest. A call whose end mark never came counts if its JSON is whole."""
        rest, self._held = self._held, ""
        if not rest and not self._inside:
            return []
        if not self._inside:
            return self._words(rest)
        self._inside = False
        call = _call(rest)
        if call is None:
            return [self._form.begin + rest]
        self.n_calls += 1
        return [call]

    def _step(self, out: list[str | Call]) -> bool:
        return self._find_end(out) if self._inside else self._find_begin(out)

    def _find_begin(self, out: list[str | Call]) -> bool:
        before, mark, after = self._held.partition(self._form.begin)
        if mark:
            out += self._words(before)
            self._held, self._inside, self._looked = after, True, 0
            return True
        kept = _overlap(self._held, self._form.begin)
        cut = len(self._held) - kept
        if self.n_calls:  # white space after a call may turn out to stand between calls
            cut = min(cut, len(self._held[:cut].rstrip()))
        out += self._words(self._held[:cut])
        self._held = self._held[cut:]
        return False

    def _find_end(self, out: list[str | Call]) -> bool:
        at = self._held.find(self._form.end, self._looked)
        if at < 0:
            self._looked = max(self._looked, len(self._held) - len(self._form.end) + 1)
            return False
        call = _call(self._held[:at])
        self._looked = at + len(self._form.end)
        if call is None:
            return True  # the mark may be part of a string; look for the next one
        out.append(call)
        self.n_calls += 1
        self._held, self._inside = self._held[self._looked :], False
        return True

    def _words(self, text: str) -> list[str | Call]:
        """Text for the reader; white space after calls is the format's, not the answer's."""
        text = text.rstrip() if self.n_calls else text
        return [text] if text else []


def _overlap(text: str, mark: str) -> int:
    """Length of the longest end of `text` that begins `mark`."""
    for n in range(min(len(text), len(mark) - 1), 0, -1):
        if mark.startswith(text[-n:]):
            return n
    return 0


def _call(text: str) -> Call | None:
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return None
    arguments = found.get("arguments", found.get("parameters", {}))
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    if not (_is_text(arguments) and _is_text(found["name"])):
        return None
    return Call(name=found["name"], arguments=arguments)


def _is_text(text: str) -> bool:
    """Whether UTF-8 can spell it: JSON's escapes can name half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
