"""Every field of a body is honoured or refused by its name."""

from dataclasses import fields

import pytest

from outpace.batch.body import Kind, read_body
from outpace.core.sampling import Sampling
from outpace.errors import RequestError

MESSAGES = [{"role": "user", "content": "hi"}]
# A value for each field of Sampling as a body writes it, and as the sampling then has it.
VALUES: dict[str, tuple[object, object]] = {
    "temperature": (0.5, 0.5), "top_k": (5, 5), "top_p": (0.9, 0.9), "min_p": (0.1, 0.1),
    "repetition_penalty": (1.1, 1.1), "presence_penalty": (0.2, 0.2),
    "frequency_penalty": (0.3, 0.3), "logit_bias": ({"7": -5}, {7: -5.0}),
    "banned": ([[1, 2], [3]], ((1, 2), (3,))), "forced": ([4], (4,)), "min_tokens": (2, 2),
    "max_tokens": (9, 9), "stop": (["x", "y"], ("x", "y")), "stop_token_ids": ([3], frozenset({3})),
    "ignore_eos": (True, True), "seed": (3, 3), "rule": ("match", "match"),
    "logprobs": (2, 2), "prompt_logprobs": (1, 1),
}  # fmt: skip


def test_every_field_of_sampling_maps() -> None:
    assert {field.name for field in fields(Sampling)} == set(VALUES)
    body = {"prompt": "p", **{name: given for name, (given, _) in VALUES.items()}}
    sampling = read_body(body, "text").sampling
    for name, (_, wanted) in VALUES.items():
        assert getattr(sampling, name) == wanted, name


def test_defaults_are_openais() -> None:
    chat = read_body({"messages": MESSAGES, "model": "gpt", "user": "me"}, "chat")
    assert (chat.sampling.temperature, chat.sampling.max_tokens, chat.n) == (1.0, None, 1)
    assert read_body({"prompt": "p"}, "text").sampling.max_tokens == 16
    nulls = dict.fromkeys(("temperature", "top_p", "stop", "seed", "logit_bias", "stream"))
    assert read_body({"messages": MESSAGES, **nulls}, "chat").sampling == chat.sampling


def test_prompts_come_in_four_shapes() -> None:
    for prompt, read in [
        ("a", ("a",)), (["a", "b"], ("a", "b")),
        ([1, 2], ((1, 2),)), ([[1], [2, 3]], ((1,), (2, 3))),
    ]:  # fmt: skip
        assert read_body({"prompt": prompt}, "text").prompts == read


def test_choices_of_one_seed_differ() -> None:
    job = read_body({"prompt": "p", "n": 3, "seed": 2**64 - 1}, "text")
    assert [job.sampling_of(i).seed for i in range(3)] == [2**64 - 1, 0, 1]


def test_speculation_and_logprobs_are_read() -> None:
    chat = {"messages": MESSAGES}
    off = read_body({**chat, "speculation": "off"}, "chat").limits
    assert off is not None
    assert off.max_nodes == 0
    assert read_body({**chat, "logprobs": True}, "chat").sampling.logprobs == 0
    assert read_body({**chat, "logprobs": True, "top_logprobs": 4}, "chat").sampling.logprobs == 4
    assert read_body({**chat, "max_completion_tokens": 5}, "chat").sampling.max_tokens == 5
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    job = read_body({"messages": [{"role": "user", "content": parts}]}, "chat")
    assert job.prompts == ([{"role": "user", "content": "ab"}],)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("chat", {"temprature": 1}, "unknown fields temprature"),
        ("chat", {"prompt": "x"}, "unknown fields prompt"),
        ("chat", {"messages": []}, "messages is missing"),
        ("chat", {"messages": ["x"]}, r"messages\[0\]"),
        ("chat", {"messages": [{"role": "user"}]}, "content"),
        ("chat", {"messages": [{"content": [{"type": "image_url"}]}]}, "parts of text"),
        ("chat", {"stream": True}, "stream is True"),
        ("chat", {"response_format": {"type": "json_object"}}, "response_format"),
        ("chat", {"tools": [{}]}, "tools"),
        ("chat", {"n": 0}, "n is 0"),
        ("chat", {"n": True}, "n is True"),
        ("chat", {"temperature": "hot"}, "temperature"),
        ("chat", {"temperature": float("nan")}, "temperature"),
        ("chat", {"top_k": 1.5}, "top_k"),
        ("chat", {"max_tokens": "9"}, "max_tokens"),
        ("chat", {"max_tokens": 3, "max_completion_tokens": 4}, "differ"),
        ("chat", {"stop": [""]}, "stop"),
        ("chat", {"stop": 3}, "stop is 3"),
        ("chat", {"logit_bias": {"x": 1}}, "logit_bias"),
        ("chat", {"logit_bias": [1]}, "logit_bias"),
        ("chat", {"stop_token_ids": ["a"]}, "stop_token_ids"),
        ("chat", {"banned": [1]}, "banned"),
        ("chat", {"ignore_eos": 1}, "ignore_eos"),
        ("chat", {"seed": -1}, "seed"),
        ("chat", {"rule": "best"}, "rule"),
        ("chat", {"top_logprobs": 3}, "top_logprobs"),
        ("chat", {"logprobs": 3}, "logprobs"),
        ("chat", {"speculation": "never"}, "speculation"),
        ("chat", {"speculation": 3}, "speculation"),
        ("text", {"prompt": ""}, "prompt"),
        ("text", {"prompt": [[]]}, "prompt"),
        ("text", {"prompt": [1, "a"]}, "prompt"),
        ("text", {"echo": True}, "echo"),
        ("text", {"best_of": 2}, "best_of"),
    ],
)
def test_what_is_wrong_is_named(kind: Kind, changes: dict[str, object], message: str) -> None:
    body = {**({"messages": MESSAGES} if kind == "chat" else {"prompt": "p"}), **changes}
    with pytest.raises(RequestError, match=message):
        read_body(body, kind)


def test_a_body_is_an_object() -> None:
    with pytest.raises(RequestError, match="body is"):
        read_body(None, "chat")
