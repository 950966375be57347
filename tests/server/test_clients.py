"""Clients people already have, unmodified: the openai package and curl."""

import asyncio
import json
import shutil
import subprocess
from typing import Any

import openai
import pytest

from server.live import Live

MESSAGES: Any = [{"role": "user", "content": "hello hello hello"}]


@pytest.fixture
def client(server: Live) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_openai_sync_and_streamed_give_the_same_text(server: Live, client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(
        model="small",
        messages=MESSAGES,
        max_tokens=60,
        seed=4,
        temperature=0.8,
    )
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 60
    assert whole.choices[0].finish_reason == "length"
    stream = client.chat.completions.create(
        model="small", messages=MESSAGES, max_tokens=60, seed=4, temperature=0.8, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    server.idle()


def test_openai_async_runs_many_at_once(server: Live) -> None:
    async def ask_all() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client:

            async def ask(seed: int) -> str:
                stream = await client.completions.create(
                    model="small", prompt="hello", max_tokens=30, seed=seed, stream=True
                )
                return "".join([chunk.choices[0].text async for chunk in stream])

            return await asyncio.gather(*(ask(seed) for seed in range(8)))

    alone = [
        server.complete("hello", max_tokens=30, seed=seed)["choices"][0]["text"]
        for seed in range(8)
    ]
    assert asyncio.run(ask_all()) == alone
    server.idle()


def test_openai_reads_our_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="temperature") as caught:
        client.chat.completions.create(model="small", messages=MESSAGES, temperature=-1)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.NotFoundError, match="gpt-9"):
        client.chat.completions.create(model="gpt-9", messages=MESSAGES)


def test_openai_lists_the_model_and_reads_logprobs(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["small"]
    assert client.models.retrieve("small").owned_by == "outpace"
    done = client.chat.completions.create(
        model="small",
        messages=MESSAGES,
        max_tokens=5,
        seed=1,
        logprobs=True,
        top_logprobs=2,
    )
    logprobs = done.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert [len(entry.top_logprobs) for entry in logprobs.content] == [2] * 5


def test_curl(server: Live) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    body = json.dumps({"prompt": "hello", "max_tokens": 8, "seed": 1, "stream": True})
    done = subprocess.run(
        [curl, "-sSN", f"{server.url}/v1/completions", "-H", "Content-Type: application/json",
         "-d", body],
        capture_output=True, check=True, timeout=120, text=True,
    )  # fmt: skip
    events = [
        json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("data: {")
    ]
    expected = server.complete("hello", max_tokens=8, seed=1)["choices"][0]["text"]
    assert "".join(event["choices"][0]["text"] for event in events) == expected
    assert done.stdout.rstrip().endswith("data: [DONE]")
