"""Structured outputs over HTTP: every answer has its shape, and guesses do not show in it."""

import json
import random
import secrets
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from engine.grammars import WANTED
from outpace.server.settings import Bounds, Settings
from server.live import Live, answered, refused, running
from server.shaped import fields_for, shaped_model
from server.words import worded_model

SHAPES = fields_for()
ADD = {
    "type": "object", "required": ["a", "b"], "additionalProperties": False,
    "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99},
                   "b": {"$ref": "#/$defs/word"}},
    "$defs": {"word": {"type": "string", "maxLength": 4}},
}  # fmt: skip
FLAG = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"],
        "additionalProperties": False}  # fmt: skip
SCHEMAS: dict[str, dict[str, object]] = {"add": ADD, "flag": FLAG}
CHAT = [{"role": "user", "content": 'Say {"name":"ab","kind":true}'}]


def tools(**more: Any) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": name, "parameters": schema, **more}}
        for name, schema in SCHEMAS.items()
    ]


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with running(shaped_model()) as server:
        yield server
        server.idle()


def ask(live: Live, **fields: Any) -> dict[str, Any]:
    body = {"messages": CHAT, "max_tokens": 400, **fields}
    choice: dict[str, Any] = answered(live.post("/v1/chat/completions", **body))["choices"][0]
    return choice


def test_every_shape_can_be_asked_for() -> None:
    assert set(SHAPES) == set(WANTED)
    assert len(SHAPES) == 20


@pytest.mark.parametrize("name", SHAPES)
def test_answers_have_their_shape_and_guesses_do_not_show(
    live: Live, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    laws: tuple[dict[str, Any], ...] = (
        {"temperature": 0}, {"temperature": 1, "seed": 1}, {"temperature": 1, "seed": 2},
    )  # fmt: skip
    for law in laws:
        for fields in SHAPES[name]:
            choice = ask(live, **law, **fields)
            plain = ask(live, **law, **fields, speculation="off")
            assert choice["finish_reason"] == "stop"
            assert choice["message"] == plain["message"]
            WANTED[name][1](choice["message"]["content"])
    # Without a seed, but with the same luck each time: what judges an answer may know more than its
    # grammar, such as which years have a 29 February.
    monkeypatch.setattr(secrets, "randbits", random.Random(name).getrandbits)
    for fields in SHAPES[name]:
        WANTED[name][1](ask(live, temperature=1, **fields)["message"]["content"])


@pytest.mark.parametrize("name", ["flat", "unicode", "lark"])
def test_streams_and_several_answers_have_the_shape_too(live: Live, name: str) -> None:
    body: dict[str, Any] = {
        "prompt": "Say", "seed": 5, "n": 3, "max_tokens": 300, **SHAPES[name][0]
    }  # fmt: skip
    whole = [c["text"] for c in live.complete(**body)["choices"]]
    texts = [""] * 3
    for event in live.events("/v1/completions", **body):
        for choice in event["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == whole
    for text in texts:
        WANTED[name][1](text)


def test_any_json_object(live: Live) -> None:
    body = {"temperature": 0, "response_format": {"type": "json_object"}}
    choice = ask(live, **body)
    if choice["finish_reason"] == "stop":
        assert isinstance(json.loads(choice["message"]["content"]), dict)
    assert choice["message"]["content"].startswith("{")
    assert ask(live, **body, speculation="off") == choice


def arguments_of(choice: dict[str, Any]) -> list[tuple[str, Any]]:
    """The calls of an answer, each valid by its own schema."""
    found = []
    for call in choice["message"].get("tool_calls", []):
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        jsonschema.validate(arguments, SCHEMAS[name], cls=jsonschema.Draft202012Validator)
        found.append((name, arguments))
    return found


def without_ids(choice: dict[str, Any]) -> str:
    calls = [call["function"] for call in choice["message"].get("tool_calls", [])]
    return json.dumps([calls, choice["message"]["content"], choice["finish_reason"]])


@pytest.mark.parametrize("law", [{"temperature": 0}, *({"seed": s} for s in range(6))])
def test_forced_calls_are_made_and_valid(live: Live, law: dict[str, Any]) -> None:
    asked: dict[str, Any] = {
        "tools": tools(), "tool_choice": "required", "parallel_tool_calls": False, **law
    }  # fmt: skip
    choice = ask(live, **asked)
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert len(arguments_of(choice)) == 1
    assert without_ids(ask(live, **asked, speculation="off")) == without_ids(choice)
    named = ask(
        live, **{**asked, "tool_choice": {"type": "function", "function": {"name": "flag"}}}
    )
    assert [name for name, _ in arguments_of(named)] == ["flag"]
    events = live.events("/v1/chat/completions", messages=CHAT, max_tokens=400, **asked)
    streamed = [c for e in events for c in e["choices"][0]["delta"].get("tool_calls", [])]
    assert [c["function"] for c in streamed] == [
        c["function"] for c in choice["message"]["tool_calls"]
    ]


def test_several_calls_may_be_forced_at_once(live: Live) -> None:
    counts = set()
    for seed in range(12):
        choice = ask(live, tools=tools(), tool_choice="required", seed=seed, temperature=5)
        if choice["finish_reason"] == "tool_calls":
            counts.add(len(arguments_of(choice)))
    assert min(counts) >= 1
    assert len(counts) > 1


def test_strict_functions_are_called_right_or_not_at_all(live: Live) -> None:
    """A bias makes a random model begin a call; without `strict` it would not end one."""
    begin = live.model.tokenizer.encode("<", special=False)
    asked: dict[str, Any] = {
        "tools": tools(strict=True), "logit_bias": {str(begin[0]): 6}, "max_tokens": 600,
    }  # fmt: skip
    n_calls = 0
    for seed in range(8):
        choice = ask(live, seed=seed, **asked)
        n_calls += len(arguments_of(choice))
        assert without_ids(ask(live, seed=seed, speculation="off", **asked)) == without_ids(choice)
        if choice["finish_reason"] == "stop":
            assert "<tool_call>" not in (choice["message"]["content"] or "")


def test_json_or_calls(live: Live) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "f", "schema": FLAG, "strict": True}}
    kinds = set()
    for seed in range(12):
        choice = ask(live, response_format=form, tools=tools(strict=True), seed=seed,
                     temperature=9)  # fmt: skip
        if arguments_of(choice):
            kinds.add("calls")
        elif choice["finish_reason"] == "stop":
            jsonschema.validate(json.loads(choice["message"]["content"]), FLAG)
            kinds.add("answer")
    assert kinds == {"calls", "answer"}


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"response_format": {"type": "xml"}}, "response_format", "json_schema"),
        ({"response_format": {"type": "json_schema"}}, "response_format", "schema"),
        ({"guided_regex": "("}, "guided_regex", "unclosed"),
        ({"guided_regex": ""}, "guided_regex", "empty"),
        ({"guided_choice": []}, "guided_choice", "at least one"),
        ({"guided_json": {"type": "array", "uniqueItems": True}}, "guided_json", "uniqueItems"),
        ({"guided_json": {"type": "integer", "minimum": 5, "maximum": 1}}, "guided_json", ""),
        ({"guided_grammar": "start: nothing"}, "guided_grammar", "nothing"),
        ({"structured_outputs": {}}, "structured_outputs", "none of them"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs", "regex"),
        ({"guided_regex": "a", "guided_choice": ["b"]}, None, "give one of them"),
        ({"guided_regex": "[ab]{200000}" * 20_000}, "guided_regex", "bytes; allowed"),
        ({"tool_choice": "required"}, "tool_choice", "no tools"),
        ({"tools": tools(), "tool_choice": "some"}, "tool_choice", "required"),
        ({"tools": tools(), "tool_choice": {"type": "custom"}}, "tool_choice", "function"),
        ({"tools": tools(), "tool_choice": {"type": "function", "function": {"name": "sub"}}},
         "tool_choice", "add, flag"),
        ({"tools": tools() + tools(), "tool_choice": "required"}, "tools", "twice"),
        ({"tools": tools(), "guided_regex": "a"}, "tools", "both shape"),
        ({"tools": tools(), "tool_choice": "required", "response_format": {"type": "json_object"}},
         "tool_choice", "both shape"),
        ({"tools": [{"type": "function", "function": {
            "name": "f", "strict": True, "parameters": {"uniqueItems": True, "type": "array"}}}]},
         "tools", "uniqueItems"),
    ],
)  # fmt: skip
def test_a_shape_that_cannot_be_kept_is_refused_by_name(
    live: Live, fields: dict[str, Any], param: str | None, words: str
) -> None:
    error = refused(live.post("/v1/chat/completions", messages=CHAT, **fields))
    assert words in error["message"]
    if param is not None:
        assert error["param"] == param


def test_operators_bound_grammars() -> None:
    bounds = Bounds(grammar_bytes=200, grammar_s=1e-9)
    with running(worded_model(), Settings(port=0, bounds=bounds)) as live:
        error = refused(live.post("/v1/completions", prompt="a", guided_regex="a" * 201))
        assert "201 bytes; allowed: 200" in error["message"]
        error = refused(live.post("/v1/completions", prompt="a", guided_regex="[ab]{1,9}c"))
        assert "to compile" in error["message"]
        assert error["param"] == "guided_regex"


def test_a_dead_end_is_the_requests_error_and_others_go_on(live: Live) -> None:
    asked: dict[str, Any] = {
        "prompt": "Say", "guided_choice": ["yes"], "min_tokens": 50, "max_tokens": 60,
    }  # fmt: skip
    error = refused(live.post("/v1/completions", **asked))
    assert "no token is allowed next" in error["message"]
    events = live.events("/v1/completions", **asked)
    assert "no token is allowed next" in events[-1]["error"]["message"]
    assert live.complete("Say", guided_choice=["yes"])["choices"][0]["text"] == "yes"
