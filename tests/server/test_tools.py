"""Tool calls come out the same however the text was cut, and reach clients in OpenAI's shape."""

import json
import random
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from outpace.api import Model
from outpace.runtimes.toy import TableRuntime
from outpace.server.answer.tools import FORMATS, Call, ToolParser, format_of
from server.live import Live, refused, running
from server.words import TEMPLATE, worded_model

(HERMES,) = FORMATS
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": "é"}}\n</tool_call>'
TEXTS = [
    "no call at all, <tool_cal and </tool_call> are words",
    CALL,
    f"Let me see.\n{CALL}",
    f"{CALL}\n{CALL}\n ",
    f"{CALL} between {CALL} after ",
    '<tool_call>{"name": "f", "arguments": {"s": "</tool_call>"}}</tool_call>.',
    "<tool_call>{not json}</tool_call> and on",
    '<tool_call>{"name": "never_closed", "arguments": {}}',
    '<tool_call>{"name": "cut", "argum',
    '<tool_call>{"name": 3}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"x": NaN}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"x": "\\ud800"}}</tool_call>',
    "<<tool_call>{}</tool_call>",
]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
KNOWS_TOOLS = "{% if tools %}<tool_call>{{ tools | tojson }}</tool_call>{% endif %}" + TEMPLATE


def read(pieces: list[str]) -> tuple[str, list[Call]]:
    parser = ToolParser(HERMES)
    parts = [part for piece in pieces for part in parser.push(piece)] + parser.end()
    words = "".join(part for part in parts if isinstance(part, str))
    calls = [part for part in parts if isinstance(part, Call)]
    assert parser.n_calls == len(calls)
    return words, calls


@pytest.mark.parametrize("text", TEXTS)
def test_the_result_does_not_depend_on_the_pieces(text: str) -> None:
    whole = read([text])
    assert read(list(text)) == whole
    for seed in range(60):
        rng = random.Random(seed)
        cuts = sorted(rng.sample(range(len(text) + 1), k=min(len(text), 1 + seed % 9)))
        borders = [0, *cuts, len(text)]
        assert read([text[a:b] for a, b in pairwise(borders)]) == whole


def test_calls_and_words_are_told_apart() -> None:
    add = Call(name="add", arguments='{"a": 1, "b": "é"}')
    assert read([TEXTS[0]]) == (TEXTS[0], [])
    assert read([TEXTS[2]]) == ("Let me see.\n", [add])
    assert read([TEXTS[3]]) == ("", [add, add])
    assert read([TEXTS[5]])[1] == [Call(name="f", arguments='{"s": "</tool_call>"}')]
    assert read([TEXTS[6]]) == (TEXTS[6], [])
    assert read([TEXTS[7]])[1] == [Call(name="never_closed", arguments="{}")]
    for broken in TEXTS[8:12]:
        assert read([broken]) == (broken, [])


def test_a_template_teaches_a_format_or_none() -> None:
    assert format_of(KNOWS_TOOLS) is HERMES
    assert format_of(TEMPLATE) is None
    assert format_of("{{ tools }} in some way of its own") is None


def says(text: str) -> Model:
    """A model that answers with one text, whatever is asked."""
    model = worded_model(template=KNOWS_TOOLS)
    ids = [*model.tokenizer.encode(text, special=False), *model.runtime.traits.eos_ids]
    start = model.tokenizer.encode("assistant:", special=False)

    def table(so_far: tuple[int, ...]) -> Tensor:
        logits_V = torch.zeros(model.runtime.traits.vocab_size, dtype=torch.float64)
        at = max(i for i in range(len(so_far)) if list(so_far[i : i + len(start)]) == start)
        logits_V[ids[min(len(so_far) - at - len(start), len(ids) - 1)]] = 50
        return logits_V

    assert isinstance(model.runtime, TableRuntime)
    model.runtime._table = table  # the one thing the shipped fake does not let one choose
    return model


def ask(live: Live, **fields: Any) -> dict[str, Any]:
    return live.chat("add 1 and é", tools=TOOLS, max_tokens=300, temperature=0, **fields)


def test_calls_reach_clients_whole_and_streamed() -> None:
    with running(says(f"Sure. {CALL}")) as live:
        choice = ask(live)["choices"][0]
        assert choice["finish_reason"] == "tool_calls"
        (call,) = choice["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"a": 1, "b": "é"}
        assert choice["message"]["content"] == "Sure. "
        events = live.events(
            "/v1/chat/completions", messages=[{"role": "user", "content": "add"}], tools=TOOLS,
            max_tokens=300, temperature=0,
        )  # fmt: skip
        deltas = [event["choices"][0]["delta"] for event in events]
        assert "".join(delta.get("content") or "" for delta in deltas) == "Sure. "
        (streamed,) = [call for delta in deltas for call in delta.get("tool_calls", [])]
        assert streamed["function"] == call["function"]
        assert streamed["index"] == 0
        assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"
        plain = ask(live, tool_choice="none")["choices"][0]
        assert plain["message"]["content"] == f"Sure. {CALL}"
        live.idle()


def test_earlier_calls_go_back_to_the_template_as_objects() -> None:
    template = KNOWS_TOOLS.replace(
        "{{ m.content }}", "{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.function.arguments.a }}{% endfor %}",
    )  # fmt: skip
    with running(worded_model(template=template)) as live:
        call = {"id": "x", "type": "function", "function": {"name": "add"}}
        turns = [
            {"role": "user", "content": "add"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "x", "content": "42"},
        ]
        call["function"] = {"name": "add", "arguments": '{"a": 1234}'}
        shown = live.post("/tokenize", messages=turns).json()["tokens"]
        assert "1234" in live.post("/detokenize", tokens=shown).json()["prompt"]
        call["function"] = {"name": "add", "arguments": "{"}
        error = refused(live.post("/v1/chat/completions", messages=turns))
        assert "arguments" in error["message"]
