"""Structured outputs and tools through clients people have, unmodified: openai, curl and llm."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel, ConfigDict, Field

from server.live import Live, running
from server.shaped import shaped_model

MESSAGES: Any = [{"role": "user", "content": 'Say {"name":"ab","kind":true}'}]


class Person(BaseModel):
    """What an answer must be."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=5)
    age: int = Field(ge=0, le=150)
    kind: Literal["a", "b"] | None
    tags: list[bool] = Field(max_length=2)


class Weather(BaseModel):
    """Look up the weather."""

    model_config = ConfigDict(extra="forbid")

    city: str = Field(max_length=4)
    celsius: bool


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with running(shaped_model(context_tokens=3000)) as server:
        yield server
        server.idle()


@pytest.fixture
def client(live: Live) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as found:
        yield found


@pytest.mark.parametrize("seed", range(4))
def test_openai_parses_answers_into_pydantic_models(client: openai.OpenAI, seed: int) -> None:
    asked: Any = {"model": "shaped", "messages": MESSAGES, "response_format": Person, "seed": seed}
    done = client.chat.completions.parse(**asked)
    assert isinstance(done.choices[0].message.parsed, Person)
    with client.chat.completions.stream(**asked) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_completion()
    assert streamed.choices[0].message.parsed == done.choices[0].message.parsed
    plain = client.chat.completions.parse(**asked, extra_body={"speculation": "off"})
    assert plain.choices[0].message.content == done.choices[0].message.content


def test_openai_parses_many_at_once(live: Live) -> None:
    async def ask_all() -> list[Person | None]:
        async with openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="none") as client:

            async def ask(seed: int) -> Person | None:
                done = await client.chat.completions.parse(
                    model="shaped", messages=MESSAGES, response_format=Person, seed=seed
                )
                return done.choices[0].message.parsed

            return await asyncio.gather(*(ask(seed) for seed in range(8)))

    found = asyncio.run(ask_all())
    assert all(isinstance(person, Person) for person in found)
    assert asyncio.run(ask_all()) == found


@pytest.mark.parametrize("seed", range(3))
def test_openai_calls_tools_with_parsed_arguments(client: openai.OpenAI, seed: int) -> None:
    tools = [openai.pydantic_function_tool(Weather), openai.pydantic_function_tool(Person)]
    asked: Any = {
        "model": "shaped", "messages": MESSAGES, "tools": tools, "seed": seed,
        "tool_choice": "required", "parallel_tool_calls": False,
    }  # fmt: skip
    done = client.chat.completions.parse(**asked)
    assert done.choices[0].finish_reason == "tool_calls"
    (call,) = done.choices[0].message.tool_calls or []
    assert isinstance(call.function.parsed_arguments, Weather | Person)
    with client.chat.completions.stream(**asked) as stream:
        for _ in stream:
            pass
        (streamed,) = stream.get_final_completion().choices[0].message.tool_calls or []
    assert streamed.function.parsed_arguments == call.function.parsed_arguments
    named = client.chat.completions.parse(
        **{**asked, "tool_choice": {"type": "function", "function": {"name": "Weather"}}}
    )
    (call,) = named.choices[0].message.tool_calls or []
    assert isinstance(call.function.parsed_arguments, Weather)


def test_openai_reads_a_refused_schema(client: openai.OpenAI) -> None:
    schema = {"type": "array", "uniqueItems": True}
    form: Any = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    with pytest.raises(openai.BadRequestError, match="uniqueItems") as caught:
        client.chat.completions.create(model="shaped", messages=MESSAGES, response_format=form)
    assert caught.value.param == "response_format"


def test_curl_gets_json(live: Live) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    form = {
        "type": "json_schema",
        "json_schema": {"name": "p", "schema": Person.model_json_schema()},
    }
    body = json.dumps({"messages": MESSAGES, "response_format": form, "seed": 1})
    done = subprocess.run(
        [curl, "-sS", f"{live.url}/v1/chat/completions", "-H", "Content-Type: application/json",
         "-d", body],
        capture_output=True, check=True, timeout=120, text=True,
    )  # fmt: skip
    Person.model_validate_json(json.loads(done.stdout)["choices"][0]["message"]["content"])


@pytest.fixture(scope="module")
def llm_home(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of Simon Willison's `llm`, as its documentation says."""
    home = tmp_path_factory.mktemp("llm")
    (home / "extra-openai-models.yaml").write_text(
        f"- model_id: ours\n  model_name: shaped\n  api_base: {live.url}/v1\n"
        "  supports_schema: true\n"
    )
    return home


def llm(home: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "llm", "-m", "ours", "Say something", "--no-log", *args],
        capture_output=True, check=False, timeout=240, text=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "LLM_USER_PATH": str(home)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_llm_streams_answers(live: Live, llm_home: Path) -> None:
    options = ("-o", "seed", "4", "-o", "max_tokens", "12")
    expected = live.chat("Say something", seed=4, max_tokens=12)["choices"][0]["message"]["content"]
    assert llm(llm_home, *options) == expected + "\n"
    assert llm(llm_home, "--no-stream", *options) == expected + "\n"


def test_llm_gets_what_its_schema_says(llm_home: Path) -> None:
    schema = json.dumps(Person.model_json_schema())
    Person.model_validate_json(llm(llm_home, "--schema", schema, "-o", "seed", "2"))
