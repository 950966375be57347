"""Calls of tools as grammars: what is let through, and what is refused."""

import json
from typing import Any

import pytest

from outpace.errors import RequestError
from outpace.text.grammar.calls import Tool, calls
from outpace.text.grammar.compile import GrammarLimits
from outpace.text.grammar.spec import GrammarSpec
from text.grammar.tokens import byte_grammars, wide_grammars

MARKS = ("<tool_call>", "</tool_call>")
ADD = Tool(
    name="add",
    arguments={
        "type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"],
        "additionalProperties": False, "$defs": {"n": {"type": "integer"}},
    },
)  # fmt: skip
NOW = Tool(name="now", arguments={"type": "object", "additionalProperties": False})
ANSWER = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
          "additionalProperties": False}  # fmt: skip


def call(name: str, **arguments: Any) -> str:
    inner = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{inner}\n</tool_call>"


def whole(spec: GrammarSpec, text: str) -> bool:
    """Whether a text is an answer of the grammar, from its beginning to its end."""
    grammars, tokenizer = wide_grammars()
    mask = grammars.mask(spec)
    for token in tokenizer.encode(text, special=False):
        if not mask.accepts((), token):
            assert not mask.allowed(())[token]
            return False
        mask.advance(token)
    return mask.may_end


def test_forced_calls_are_calls_and_nothing_else() -> None:
    spec = calls([ADD, NOW], marks=MARKS, place="only")
    for text in (call("add", a=3), call("now"), f"{call('now')}\n{call('add', a=-1)}"):
        assert whole(spec, text)
    for text in ("", "so", f" {call('now')}", call("add"), call("add", a="x"), call("sub", a=1),
                 call("now", a=1), call("now")[:-1], f"{call('now')}\n"):  # fmt: skip
        assert not whole(spec, text), text
    one = calls([ADD, NOW], marks=MARKS, place="only", several=False)
    assert whole(one, call("now"))
    assert not whole(one, f"{call('now')}\n{call('now')}")


def test_free_calls_stand_among_words() -> None:
    spec = calls([ADD, NOW], marks=MARKS, place="free")
    for text in ("", "words <tool_cal and </tool_call>\n", call("now"), "Sum: " + call("add", a=1),
                 f"{call('now')}{call('now')} é\n"):  # fmt: skip
        assert whole(spec, text), text
    for text in ("<tool_call>", f"a {call('add', a=None)}", f"{call('now')} <tool_call>x"):
        assert not whole(spec, text), text
    one = calls([NOW], marks=MARKS, place="free", several=False)
    assert whole(one, f"a {call('now')} b")
    assert not whole(one, f"a {call('now')} b {call('now')}")


def test_an_answer_or_calls() -> None:
    spec = calls([ADD], marks=MARKS, place="answer", answer=ANSWER)
    assert whole(spec, '{"ok": true}')
    assert whole(spec, call("add", a=1))
    for text in ("", "words", '{"ok": 1}', '{"ok": true}' + call("add", a=1)):
        assert not whole(spec, text), text


@pytest.mark.parametrize("name", ['quote"d', "back\\slash", "new\nline", "é", "%json", "a/b"])
def test_a_name_is_text_whatever_it_holds(name: str) -> None:
    spec = calls([Tool(name=name, arguments={})], marks=MARKS, place="only")
    assert whole(spec, call(name, x=[1, None]))


def test_what_cannot_be_kept_is_refused() -> None:
    with pytest.raises(RequestError, match="'now' twice"):
        calls([NOW, NOW], marks=MARKS, place="only")
    unknown = Tool(
        name="f", arguments={"properties": {"a": {"type": "array", "uniqueItems": True}}}
    )
    with pytest.raises(RequestError, match=r"'uniqueItems' \(at \$\.tools\[1\]\.arguments"):
        wide_grammars()[0].mask(calls([NOW, unknown], marks=MARKS, place="only"))
    deep: dict[str, Any] = {}
    for _ in range(60):
        deep = {"properties": {"a": deep}}
    with pytest.raises(RequestError, match=r"nested .* deep"):
        wide_grammars()[0].mask(calls([Tool(name="f", arguments=deep)], marks=MARKS, place="only"))
    small = byte_grammars(limits=GrammarLimits(source_bytes=100))
    with pytest.raises(RequestError, match=r"bytes; allowed: 100"):
        small.mask(calls([ADD], marks=MARKS, place="only"))
    with pytest.raises(RequestError, match=r"no JSON|cannot be written"):
        calls([Tool(name="f", arguments={"a": float("nan")})], marks=MARKS, place="only")
