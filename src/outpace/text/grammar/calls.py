"""Calls of tools as a grammar: forced ones, free ones among words, or ones in place of an answer.

A call is one object, spelled as models are taught to: `{"name": "f", "arguments": {..}}` between
two marks. Each tool's arguments are a JSON schema of their own, so that its `$ref`s mean what they
meant where they were written.
"""

import json
import re
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from typing import Any, Literal

from outpace.errors import RequestError
from outpace.text.grammar.spec import GrammarSpec

#   only    nothing but calls, at least one
#   free    any text, calls in it or not; what begins like a call is one
#   answer  calls only, or JSON that a schema describes
Place = Literal["only", "free", "answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function: its name, and the JSON schema of its arguments."""

    name: str
    arguments: Mapping[str, object]


def calls(
    tools: Seq[Tool],
    *,
    marks: tuple[str, str],
    place: Place,
    several: bool = True,
    answer: Mapping[str, object] | None = None,
    name: str = "tools",
) -> GrammarSpec:
    """A grammar of calls.

    marks: what stands before and after each call, on lines of their own. several: whether there
    may be more than one. answer: the schema of what may stand in place of calls.

    Raises:
        RequestError: two tools of one name, or a schema that cannot be written as JSON.
    """
    names = [tool.name for tool in tools]
    again = sorted({n for n in names if names.count(n) > 1})
    if again:
        raise RequestError(f"{name} has {again[0]!r} twice; give each function its own name")
    document = {
        "tools": [asdict(tool) for tool in tools],
        "marks": marks, "place": place, "several": several, "answer": answer,
    }  # fmt: skip
    try:
        source = json.dumps(document, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"{name} cannot be written as JSON ({error}); send plain JSON") from None
    return GrammarSpec(kind="calls", source=source, name=name)


def calls_lark(document: Mapping[str, Any], *, options: Mapping[str, object]) -> str:
    """The grammar that `calls` describes, in the library's Lark.

    options: of the library, for every schema. A text before a call ends at the first mark, and
    the text after the last one has none.
    """
    begin, end = document["marks"]
    more = {True: "*", False: ""}[document["several"]]
    lines = {
        "only": [f"start: call (SPACE call){more}" if more else "start: call"],
        "answer": [f"start: answer | call (SPACE call){more}" if more else "start: answer | call"],
        "free": [
            f"start: (words body){more or '?'} REST",
            f"words[suffix={_text(begin)}]: /(?s:.*)/",
            f"REST: /(?s:.*)/ & ~/(?s:.*){_escaped(begin)}(?s:.*)/",
        ],
    }[document["place"]]
    lines += [f"call: {_text(begin)} body", 'SPACE: "\\n"']
    bodies = []
    for at, tool in enumerate(document["tools"]):
        head = '\n{"name": ' + json.dumps(tool["name"]) + ', "arguments": '
        bodies.append(f"{_text(head)} arguments_{at}")
        lines.append(f"arguments_{at}: {_json(tool['arguments'], options)}")
    tail = "}\n" + end
    lines.append(f"body: ({' | '.join(bodies)}) {_text(tail)}")
    if document["place"] == "answer":
        lines.append(f"answer: {_json(document['answer'], options)}")
    return "\n".join(lines)


def _json(schema: Mapping[str, object], options: Mapping[str, object]) -> str:
    own = schema.get("x-guidance")
    merged = {**(own if isinstance(own, Mapping) else {}), **options}
    return "%json " + json.dumps({**schema, "x-guidance": merged}, ensure_ascii=False)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _escaped(text: str) -> str:
    """For a regex; `/` would end it."""
    return re.escape(text).replace("/", "\\/")
