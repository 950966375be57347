"""64 clients for a few seconds: nothing breaks, nothing leaks, nobody gets another's answer."""

import asyncio
import json
import random
import threading

import httpx

from outpace.server.settings import Bounds, Settings
from server.live import running
from server.words import worded_model

CLIENTS, SECONDS = 64, 4.0
BAD_BODIES = [b"{", b"\xff" * 50, b'{"prompt": 3}', b'{"prompt": "a", "n": 0}', b"[" * 5000,
              b'{"prompt": "' + b"x" * 30_000 + b'"}']  # fmt: skip


def test_many_clients_at_once() -> None:
    settings = Settings(port=0, api_keys=("k",), bounds=Bounds(body_bytes=20_000, in_flight=200))
    model = worded_model(drafter="synthetic:alpha=0.6")
    with running(model, settings) as live:
        live.http.headers["Authorization"] = "Bearer k"
        expected = {
            seed: live.complete(f" one two {seed}", seed=seed, max_tokens=20)["choices"][0]["text"]
            for seed in range(12)
        }
        n_threads = threading.active_count()
        statuses = asyncio.run(_crowd(live.url, expected))
        live.idle()
        until_threads = threading.active_count()
        counted = live.http.get("/metrics").text
    assert until_threads <= n_threads + 8
    assert not [s for s in statuses if s >= 500], statuses
    assert statuses.count(200) > 50
    assert {400, 401, 413} <= set(statuses)
    assert "vllm:num_requests_running" in counted


async def _crowd(url: str, expected: dict[int, str]) -> list[int]:
    statuses: list[int] = []
    limits = httpx.Limits(max_connections=CLIENTS)
    async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits) as http:
        end_s = asyncio.get_running_loop().time() + SECONDS
        clients = [
            _client(http, random.Random(i), expected, statuses, end_s) for i in range(CLIENTS)
        ]
        await asyncio.gather(*clients)
    return statuses


async def _client(
    http: httpx.AsyncClient,
    rng: random.Random,
    expected: dict[int, str],
    statuses: list[int],
    end_s: float,
) -> None:
    while asyncio.get_running_loop().time() < end_s:
        seed = rng.randrange(len(expected))
        headers = {"Authorization": "Bearer k", "Content-Type": "application/json"}
        body = {"prompt": f" one two {seed}", "seed": seed, "max_tokens": 20}
        match rng.randrange(6):
            case 0:
                content = rng.choice(BAD_BODIES)
                reply = await http.post("/v1/completions", content=content, headers=headers)
                statuses.append(reply.status_code)
            case 1:
                reply = await http.post("/v1/completions", json=body)
                statuses.append(reply.status_code)
            case 2:  # leaves in the middle of an answer
                long = {**body, "max_tokens": 400, "stream": True, "ignore_eos": True}
                async with http.stream(
                    "POST", "/v1/completions", json=long, headers=headers
                ) as stream:
                    statuses.append(stream.status_code)
                    async for _ in stream.aiter_lines():
                        break
            case 3:  # gives up waiting
                task = asyncio.create_task(
                    http.post("/v1/completions", json=body | {"n": 4}, headers=headers)
                )
                await asyncio.sleep(rng.random() * 0.05)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            case 4:
                text = ""
                async with http.stream(
                    "POST", "/v1/completions", json=body | {"stream": True}, headers=headers
                ) as stream:
                    statuses.append(stream.status_code)
                    async for line in stream.aiter_lines():
                        if line.startswith("data: {"):
                            text += json.loads(line[6:])["choices"][0]["text"]
                        await asyncio.sleep(rng.random() * 0.01)  # a slow reader
                assert text == expected[seed]
            case _:
                reply = await http.post("/v1/completions", json=body, headers=headers)
                statuses.append(reply.status_code)
                assert reply.json()["choices"][0]["text"] == expected[seed]
