"""What is refused, and in whose words; nothing that arrives breaks anything."""

from typing import Any

import pytest

from outpace.server.settings import Bounds, Settings
from server.live import Live, refused, running

CHAT = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.0}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"n": 65}, "n"),
        ({"stop": ["x"] * 65}, "stop"),
        ({"stop": ""}, None),
        ({"stop": ["y" * 20_000]}, "stop"),
        ({"seed": 2**64}, "seed"),
        ({"logit_bias": {"one": 1}}, "logit_bias"),
        ({"logit_bias": {"257": 1}}, None),
        ({"logit_bias": {str(i): 0 for i in range(1100)}}, "logit_bias"),
        ({"logprobs": True, "top_logprobs": 21}, "logprobs"),
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"speculation": "much"}, "speculation"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"response_format": {"type": "nonsense"}}, None),
        ({"use_beam_search": True}, "use_beam_search"),
        ({"best_of": 3}, "best_of"),
        ({"best_of": True}, "best_of"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"content": "hi"}]}, "messages"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_completion_tokens"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
        ({"temprature": 1, "foo": None}, "foo"),
    ],
)
def test_a_field_that_cannot_be_honoured_is_named(
    server: Live, fields: dict[str, Any], param: str | None
) -> None:
    error = refused(server.post("/v1/chat/completions", **{"messages": CHAT, **fields}))
    assert error["type"] == "invalid_request_error"
    if param is not None:
        assert error["param"] == param
        assert param in error["message"]


def test_empty_stop_means_none(server: Live) -> None:
    done = server.complete("hello", temperature=0, max_tokens=5, stop=[])
    assert done["usage"]["completion_tokens"] == 5


def test_labels_and_neutral_values_pass(server: Live) -> None:
    server.chat(
        user="someone", metadata={"a": "b"}, store=False, service_tier="auto", best_of=1,
        use_beam_search=False, length_penalty=1.0, parallel_tool_calls=True, top_k=-1, stop=None,
        response_format={"type": "text"},
    )  # fmt: skip


def test_unknown_fields_pass_where_the_operator_lets_them() -> None:
    with running(settings=Settings(port=0, unknown_fields=True)) as live:
        live.chat(whatever=1)
        assert refused(live.post("/v1/chat/completions", messages=CHAT, best_of=2))


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"3", b"\xff\xfe", b'{"messages": NaN}', b'{"a": "\\ud800"}',
     b"[" * 200_000, b'{"messages": [{"role": "user", "content": "\xed\xa0\x80"}]}'],
)  # fmt: skip
def test_what_is_no_json_is_the_callers_error(server: Live, body: bytes) -> None:
    response = server.http.post(
        "/v1/chat/completions", content=body, headers={"Content-Type": "application/json"}
    )
    assert refused(response)["code"] == "invalid_json"


def test_sizes_types_and_places_have_statuses_of_their_own(server: Live) -> None:
    big = {"prompt": "x" * (9 << 20)}
    assert refused(server.http.post("/v1/completions", json=big), 413)["code"] == "body_too_large"
    # Without a length, the body is cut off where the limit is.
    chunks = (b"x" * 65536 for _ in range(200))
    response = server.http.post(
        "/v1/completions", content=chunks, headers={"Content-Type": "application/json"}
    )
    refused(response, 413)
    refused(server.http.post("/v1/completions", content=b"{}"), 415)
    refused(server.http.get("/v1/completions"), 405)
    refused(server.http.get("/nowhere"), 404)
    refused(server.http.get("/v1/models/other"), 404)
    assert refused(server.post("/v1/completions", prompt="a", model="x"), 404)["param"] == "model"


def test_too_long_prompts_say_by_how_much(server: Live) -> None:
    error = refused(server.post("/v1/completions", prompt="x" * 400))
    assert error["code"] == "context_length_exceeded"
    assert "shorten the prompt by 1" in error["message"]
    refused(server.post("/v1/completions", prompt="x" * 60_000))
    assert server.complete("x" * 398, max_tokens=50)["choices"][0]["finish_reason"] == "length"


def test_operators_set_bounds() -> None:
    bounds = Bounds(prompt_tokens=10, choices=2, top_logprobs=1, body_bytes=2000)
    with running(settings=Settings(port=0, bounds=bounds)) as live:
        assert "at most 10" in refused(live.post("/v1/completions", prompt="x" * 11))["message"]
        refused(live.post("/v1/completions", prompt=["a", "b"], n=2))
        refused(live.post("/v1/completions", prompt="a", logprobs=2))
        refused(live.post("/v1/completions", prompt="a" * 3000), 413)


def test_tools_need_a_template_that_knows_them(server: Live) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    error = refused(server.post("/v1/chat/completions", messages=CHAT, tools=tools))
    assert error["param"] == "tools"
    server.chat(tools=tools, tool_choice="none")


def test_every_refusal_has_a_request_id(server: Live) -> None:
    response = server.http.get("/nowhere", headers={"X-Request-Id": "mine-1"})
    assert response.headers["x-request-id"] == "mine-1"
    response = server.http.get("/nowhere", headers={"X-Request-Id": "no good\x01"[:7]})
    assert response.headers["x-request-id"].startswith("req-")
