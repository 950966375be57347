"""200 answers of SmolLM2 over HTTP, ten of each of 20 shapes: all have it, guesses do not show."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

import outpace
from engine.grammars import WANTED
from outpace.models.pull import default_cache_dir
from server.live import Live, answered, running
from server.shaped import fields_for

pytestmark = pytest.mark.model

SHAPES = fields_for()
PROMPTS = ("Give an example.", "Answer as short as you can: what is tea?")


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    if not (default_cache_dir(os.environ) / "models" / "smollm2-135m").is_dir():
        pytest.skip("smollm2-135m is not in the cache; `make model` brings it")
    with outpace.load("smollm2-135m") as model, running(model) as server:
        yield server
        server.idle()


def answers(live: Live, name: str, **fields: Any) -> list[str]:
    """Two at temperature 0, eight at 1."""
    texts: list[str] = []
    for prompt, law in zip(
        (*PROMPTS, PROMPTS[0]), ({"temperature": 0}, {"temperature": 0}, {"seed": 3, "n": 8}),
        strict=True,
    ):  # fmt: skip
        body = {
            "messages": [{"role": "user", "content": prompt}], "max_tokens": 200,
            **SHAPES[name][0], **law, **fields,
        }  # fmt: skip
        choices = answered(live.post("/v1/chat/completions", **body))["choices"]
        assert all(choice["finish_reason"] == "stop" for choice in choices)
        texts += [choice["message"]["content"] for choice in choices]
    return texts


@pytest.mark.parametrize("name", SHAPES)
def test_ten_answers_have_the_shape_with_guesses_and_without(live: Live, name: str) -> None:
    texts = answers(live, name)
    assert len(texts) == 10
    for text in texts:
        WANTED[name][1](text)
    assert answers(live, name, speculation="off") == texts


def test_guesses_were_kept_among_them(live: Live) -> None:
    answers(live, "flat")
    counted = live.http.get("/metrics").text
    assert "vllm:spec_decode_num_accepted_tokens_total" in counted
