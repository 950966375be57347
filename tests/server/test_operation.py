"""Operating it: keys, quotas, readers that leave, draining, a dead engine, logs."""

import asyncio
import json
import logging
import re
import socket
import threading
from collections.abc import Sequence as Seq

import httpx
import pytest

from outpace.core.draft import Ask, Draft
from outpace.drafters.none import NoDrafter
from outpace.errors import ConfigError
from outpace.server.auth import Doorkeeper
from outpace.server.limits import Quotas
from outpace.server.log import JsonLines
from outpace.server.run import listen
from outpace.server.settings import Bounds, Settings
from outpace.server.wire.problems import Problem
from server.live import TIMEOUT_S, answered, limited, refused, running, until
from small import small_model

HELLO = {"prompt": "hello", "max_tokens": 4}


def spelled(body: dict[str, object]) -> bytes:
    """A request for a completion, as it goes over the wire."""
    data = json.dumps(body)
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    return (head + data).encode()


def test_keys_let_in_whoever_has_one() -> None:
    settings = Settings(port=0, api_keys=("first-key", "second-key"))
    with running(settings=settings) as live:
        error = refused(live.post("/v1/completions", **HELLO), 401)
        assert error["code"] == "invalid_api_key"
        for path in ("/v1/models", "/outpace/state", "/outpace/events"):
            refused(live.http.get(path), 401)
        for key, status in (("first-key", 200), ("second-key", 200), ("other", 401)):
            headers = {"Authorization": f"Bearer {key}"}
            response = live.http.post("/v1/completions", json=HELLO, headers=headers)
            assert response.status_code == status
        for path in ("/health", "/metrics", "/version"):
            assert live.http.get(path).status_code == 200
    assert "first-key" not in repr(settings)


def test_a_caller_is_a_number_never_a_key() -> None:
    door = Doorkeeper(("a", "b"))
    assert door.caller("Bearer b", "1.2.3.4") == "key 2"
    assert door.caller("bearer a", "1.2.3.4") == "key 1"
    for wrong in (None, "", "b", "Basic b", "Bearer", "Bearer bb"):
        with pytest.raises(Problem) as caught:
            door.caller(wrong, "1.2.3.4")
        assert caught.value.status == 401
    assert Doorkeeper(()).caller(None, "1.2.3.4") == "1.2.3.4"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])  # noqa: S104
def test_another_address_than_loopback_needs_a_key_or_a_word(host: str) -> None:
    with pytest.raises(ConfigError, match=r"host is .*api_key_file"):
        Settings(host=host)
    Settings(host=host, api_keys=("k",))
    Settings(host=host, allow_unauthenticated=True)
    for loopback in ("127.0.0.1", "::1", "localhost", "127.1.2.3"):
        Settings(host=loopback)


def test_requests_per_minute_and_in_flight_are_counted_per_caller() -> None:
    now = [0.0]
    quotas = Quotas(Bounds(requests_per_minute=2, in_flight=2), lambda: now[0])
    leases = [quotas.enter("a"), quotas.enter("a")]
    quotas.enter("b").release()
    with pytest.raises(Problem, match="in flight") as caught:
        quotas.enter("a")
    leases[0].release()
    leases[0].release()
    with pytest.raises(Problem, match=r"2 requests a minute .* in 30\.0 s") as caught:
        quotas.enter("a")
    assert caught.value.headers == {"Retry-After": "30"}
    now[0] = 31.0
    leases.append(quotas.enter("a"))
    assert quotas.in_flight == 2


def test_a_caller_over_the_limit_gets_429_and_when_to_come_back() -> None:
    settings = Settings(port=0, bounds=Bounds(requests_per_minute=1))
    with running(settings=settings) as live:
        answered(live.post("/v1/completions", **HELLO))
        response = live.post("/v1/completions", **HELLO)
        assert refused(response, 429)["type"] == "rate_limit_error"
        assert 50 <= int(response.headers["retry-after"]) <= 60


@pytest.mark.parametrize("stream", [True, False])
def test_a_reader_that_leaves_ends_its_request(stream: bool) -> None:
    with running(small_model(context_tokens=200_000)) as live:
        body = {"prompt": "hello", "max_tokens": 100_000, "ignore_eos": True, "stream": stream}
        if stream:
            with live.http.stream("POST", "/v1/completions", json=body) as response:
                next(response.iter_lines())
        else:
            url = httpx.URL(live.url)
            with socket.create_connection((url.host, url.port)) as left:
                left.sendall(spelled(body))
                until(lambda: live.service.stats().running)
        live.idle()
        assert live.service.stats().finished["abort"] == 1


def test_a_reader_that_does_not_read_is_let_go() -> None:
    bounds = Bounds(send_s=0.3)
    with running(small_model(context_tokens=200_000), Settings(port=0, bounds=bounds)) as live:
        host, port = live.url.removeprefix("http://").split(":")

        async def ask_and_wait() -> bytes:
            reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
            writer.write(spelled(
                {"prompt": "a", "max_tokens": 150_000, "ignore_eos": True, "stream": True,
                 "logprobs": 20}
            ))  # fmt: skip
            await writer.drain()
            first = await reader.read(100)
            await asyncio.to_thread(live.idle)
            writer.close()
            return first

        assert asyncio.run(ask_and_wait()).startswith(b"HTTP/1.1 200")
        assert live.service.stats().finished == {"abort": 1}, "it was written to the end"


class Bomb(NoDrafter):
    """Breaks its protocol once armed."""

    name = "bomb"

    def __init__(self) -> None:
        self.armed = threading.Event()

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        if self.armed.is_set():
            raise RuntimeError("boom")
        return super().propose(asks)


def test_a_dead_engine_answers_everybody_and_health_is_red() -> None:
    model = small_model(context_tokens=200_000)
    bomb = Bomb()
    limited(model, drafter=bomb)
    with running(model) as live:
        assert live.http.get("/ready").status_code == 503
        answered(live.post("/v1/completions", **HELLO))
        assert live.http.get("/ready").status_code == 200
        body = {"prompt": "hello", "max_tokens": 100_000, "ignore_eos": True, "stream": True}
        with live.http.stream("POST", "/v1/completions", json=body) as response:
            lines = response.iter_lines()
            next(lines)
            bomb.armed.set()
            rest = [line for line in lines if line.startswith("data: {")]
        assert "boom" in json.loads(rest[-1][6:])["error"]["message"]
        health = live.http.get("/health")
        assert health.status_code == 503
        assert health.json()["status"] == "dead"
        error = refused(live.post("/v1/completions", **HELLO), 503)
        assert error["code"] == "engine_dead"
        assert "outpace_up" in live.http.get("/metrics").text


def test_while_draining_streams_finish_and_new_requests_get_503() -> None:
    with running(small_model(context_tokens=4000)) as live:
        body = {"prompt": "hello", "max_tokens": 3000, "ignore_eos": True, "stream": True}
        with live.http.stream("POST", "/v1/completions", json=body) as response:
            lines = response.iter_lines()
            next(lines)
            drain = threading.Thread(target=live.service.shutdown, args=(TIMEOUT_S,))
            drain.start()
            until(lambda: live.service.health().state != "running")
            if live.service.health().state == "draining":
                new = httpx.post(f"{live.url}/v1/completions", json=HELLO, timeout=TIMEOUT_S)
                assert refused(new, 503)["code"] == "shutting_down"
                assert new.headers["retry-after"]
                assert live.http.get("/ready").status_code == 503
            rest = list(lines)
        drain.join()
        assert [line for line in rest if line][-1] == "data: [DONE]"
        finishes = [json.loads(x[6:]) for x in rest if x.startswith("data: {")]
        assert finishes[-1]["choices"][0]["finish_reason"] == "length"


def test_a_full_queue_is_429_with_retry_after() -> None:
    from outpace.engine.schedule import Budget

    model = small_model(context_tokens=200_000)
    limited(model, budget=Budget(sequences=1, waiting=1))
    with running(model) as live:
        body = {"prompt": "hello", "max_tokens": 100_000, "ignore_eos": True, "stream": True}
        with live.http.stream("POST", "/v1/completions", json=body) as response:
            lines = response.iter_lines()
            next(lines)  # kept: an iterator that is dropped hangs up
            refusal = live.post("/v1/completions", prompt=["a", "b", "c"], max_tokens=3)
            refused(refusal, 429)
            assert int(refusal.headers["retry-after"]) >= 1
        live.idle()


def test_logs_say_who_and_how_long_but_not_what(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="outpace.server")
    with running(settings=Settings(port=0, api_keys=("sesame",))) as live:
        headers = {"Authorization": "Bearer sesame", "X-Request-Id": "r-1"}
        body = {"prompt": "my secret words", "max_tokens": 4, "ignore_eos": True}
        live.http.post("/v1/completions", json=body, headers=headers)
        until(lambda: any(getattr(r, "facts", {}).get("status") for r in caplog.records))
    lines = [JsonLines().format(record) for record in caplog.records]
    line = next(json.loads(text) for text in lines if "r-1" in text)
    assert line["caller"] == "key 1"
    assert line["status"] == 200
    assert (line["prompt_tokens"], line["completion_tokens"]) == (15, 4)
    assert "secret words" not in "".join(lines)
    assert "sesame" not in "".join(lines)


def test_the_feed_says_what_happens_without_words_of_users(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running() as live:
        empty = live.http.get("/outpace/state").json()
        assert empty["acceptance"] == {"length": None, "tokens_per_round": None, "by_position": []}
        counters = live.http.get("/metrics").text
        assert re.search(r"^vllm:spec_decode_num_drafts_total\S* 0\.0$", counters, re.M)
        live.chat("ab ab ab ab ab", max_tokens=60, temperature=0)
        state = live.http.get("/outpace/state").json()
        assert [entry["stage"] for entry in state["stages"]] == [
            "draft", "score", "accept", "resample", "repeat",
        ]  # fmt: skip
        assert sum(entry["share"] for entry in state["stages"]) == pytest.approx(1)
        assert state["acceptance"]["by_position"][0]["offered"] == state["totals"]["drafts"] > 0
        assert state["latency"]["answers"] == 1
        with live.http.stream("GET", "/outpace/events") as response:
            first = next(line for line in response.iter_lines() if line)
        assert json.loads(first.removeprefix("data: "))["model"] == "small"
        until(lambda: live.http.get("/outpace/state").json()["requests"]["running"] == 0)


def test_what_is_written_is_sent_at_once() -> None:
    """No waiting for acknowledgements: it would cost 40 ms on every kept connection."""
    listener = listen(Settings(port=0))

    async def nodelay() -> int:
        served: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def look(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            own = writer.get_extra_info("socket")
            served.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(look, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            found = await served
            writer.close()
            return found

    assert asyncio.run(nodelay()) != 0


def test_where_nobody_guesses_there_are_no_counters_of_guesses() -> None:
    with running(small_model(drafter="none")) as live:
        live.chat(max_tokens=5)
        assert "spec_decode" not in live.http.get("/metrics").text
