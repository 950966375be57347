"""64 clients of every kind at once: does the server stay right, honest and the same size?

    python benchmarks/load.py --model smollm2-135m --minutes 5 --json load.json

Starts `outpace serve` in a process of its own and lets clients loose on it: some read streams, some
slowly, some leave in the middle or never finish sending, some send bodies that are too large or no
JSON, some have wrong keys. Every answer that comes whole is compared with the answer the same
request got alone before; nothing but deliberate refusals may come otherwise. Afterwards nothing may
be left: no request, no connection, no thread, no page of memory, and no megabytes.

The summary goes to stdout as JSON. Exit status 1 = something did not hold.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx

BODY_BYTES = 64 << 10
KEY = "load-key"
_TIMEOUT_S = 300.0
_QUIET_S = 60.0
_HEADERS = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
_SCHEMA = {
    "type": "object", "properties": {"a": {"enum": [1, 2, 3]}, "b": {"type": "boolean"}},
    "required": ["a", "b"], "additionalProperties": False,
}  # fmt: skip
_BROKEN = (
    b"{", b"", b"null", b"\xff" * 50, b'{"prompt": 3}', b'{"prompt": "a", "n": 0}', b"[" * 5000,
    b'{"prompt": "a", "temprature": 1}', b'{"prompt": "a", "guided_regex": "("}',
    b'{"prompt": "a", "logit_bias": {"x": 1}}', b'{"prompt": "a", "temperature": NaN}',
)  # fmt: skip


@dataclass(slots=True)
class Findings:
    """What went on, and what did not hold. seconds: of whole answers."""

    kinds: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    seconds: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a server holds when nothing is asked of it. pages_used: share of the cache."""

    connections: int
    threads: int
    pages_used: float
    requests: int


def requests(n: int) -> list[dict[str, Any]]:
    """Requests whose answers are known beforehand: greedy, seeded, filtered, shaped."""
    made: list[dict[str, Any]] = []
    for i in range(n):
        body: dict[str, Any] = {"prompt": f" one two {i} three four {i} one two", "max_tokens": 24}
        match i % 5:
            case 0:
                body |= {"temperature": 0}
            case 1:
                body |= {"seed": i, "temperature": 0.9, "top_p": 0.9}
            case 2:
                body |= {"seed": i, "presence_penalty": 0.5, "min_p": 0.01, "stop": ["zz", "qq"]}
            case 3:
                body |= {"seed": i, "guided_json": _SCHEMA, "max_tokens": 60}
            case _:
                body |= {"seed": i, "n": 3, "max_tokens": 8}
        made.append(body)
    return made


class Crowd:
    """Clients of one server, until the time is over."""

    def __init__(self, url: str, asked: Seq[dict[str, Any]], expected: Seq[list[str]]) -> None:
        self.url, self.found = url, Findings()
        self._asked, self._expected = asked, expected
        host, _, port = url.removeprefix("http://").partition(":")
        self._address = host, int(port)

    async def run(self, seconds: float, *, clients: int, seed: int) -> None:
        """Let them loose."""
        end_s = time.monotonic() + seconds
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=self.url, timeout=_TIMEOUT_S, limits=limits, trust_env=False
        ) as http:
            await asyncio.gather(
                *(self._client(http, random.Random(seed + i), end_s) for i in range(clients))
            )

    async def _client(self, http: httpx.AsyncClient, rng: random.Random, end_s: float) -> None:
        kinds = {
            self._whole: 4, self._streamed: 4, self._slow: 2, self._leaves: 3, self._gives_up: 2,
            self._broken: 2, self._oversized: 1, self._wrong_key: 1, self._never_sends: 1,
            self._elsewhere: 1,
        }  # fmt: skip
        while time.monotonic() < end_s:
            (kind,) = rng.choices(list(kinds), weights=list(kinds.values()))
            self.found.kinds[kind.__name__.strip("_")] += 1
            try:
                await kind(http, rng)
            except httpx.HTTPError as error:
                self._problem(f"{kind.__name__}: {type(error).__name__} {error}")
            await asyncio.sleep(rng.expovariate(20.0))

    def _problem(self, text: str) -> None:
        self.found.problems[text[:200]] += 1

    def _status(self, status: int, allowed: Seq[int], kind: str) -> bool:
        """Whether it was answered; 429 is a refusal anybody may get."""
        self.found.statuses[status] += 1
        if status not in (*allowed, 429):
            self._problem(f"{kind}: status {status}, expected {', '.join(map(str, allowed))}")
        return status == 200

    def _compare(self, place: int, texts: list[str], began_s: float) -> None:
        self.found.compared += 1
        self.found.seconds.append(time.monotonic() - began_s)
        if texts != self._expected[place]:
            self._problem(
                f"request {place}: {texts!r:.80} in place of {self._expected[place]!r:.80}"
            )

    async def _whole(self, http: httpx.AsyncClient, rng: random.Random) -> None:
        place, began_s = rng.randrange(len(self._asked)), time.monotonic()
        reply = await http.post("/v1/completions", json=self._asked[place], headers=_HEADERS)
        if self._status(reply.status_code, [200], "whole"):
            self._compare(place, texts_of(reply.json()), began_s)

    async def _streamed(
        self, http: httpx.AsyncClient, rng: random.Random, pause_s: float = 0.0
    ) -> None:
        place, began_s = rng.randrange(len(self._asked)), time.monotonic()
        body = {**self._asked[place], "stream": True}
        texts = [""] * len(self._expected[place])
        async with http.stream("POST", "/v1/completions", json=body, headers=_HEADERS) as stream:
            if not self._status(stream.status_code, [200], "streamed"):
                return
            async for line in stream.aiter_lines():
                if line.startswith("data: {"):
                    event = json.loads(line[6:])
                    if "error" in event:
                        self._problem(f"an error in a stream: {event['error']['message']}")
                    for choice in event.get("choices", []):
                        texts[choice["index"]] += choice["text"]
                    await asyncio.sleep(pause_s * rng.random())
        self._compare(place, texts, began_s)

    async def _slow(self, http: httpx.AsyncClient, rng: random.Random) -> None:
        await self._streamed(http, rng, pause_s=0.2)

    async def _leaves(self, http: httpx.AsyncClient, rng: random.Random) -> None:
        body = {"prompt": "one two three", "max_tokens": 200, "ignore_eos": True, "stream": True}
        async with http.stream("POST", "/v1/completions", json=body, headers=_HEADERS) as stream:
            self._status(stream.status_code, [200], "leaves")
            left = rng.randrange(4)
            async for _ in stream.aiter_lines():
                left -= 1
                if left <= 0:
                    return

    async def _gives_up(self, http: httpx.AsyncClient, rng: random.Random) -> None:
        body = {"prompt": ["one", "two"], "n": 2, "max_tokens": 100, "ignore_eos": True}
        task = asyncio.create_task(http.post("/v1/completions", json=body, headers=_HEADERS))
        await asyncio.wait({task}, timeout=rng.random() * 0.3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _broken(self, http: httpx.AsyncClient, rng: random.Random) -> None:
        reply = await http.post("/v1/completions", content=rng.choice(_BROKEN), headers=_HEADERS)
        self._status(reply.status_code, [400], "broken")

    async def _oversized(self, http: httpx.AsyncClient, rng: random.Random) -> None:
        body = b'{"prompt": "' + b"x" * rng.randrange(BODY_BYTES, 4 * BODY_BYTES) + b'"}'
        reply = await http.post("/v1/completions", content=body, headers=_HEADERS)
        self._status(reply.status_code, [413], "oversized")

    async def _wrong_key(self, http: httpx.AsyncClient, rng: random.Random) -> None:
        key = rng.choice(["", "Bearer", "Bearer load-ke", f"Basic {KEY}", "Bearer \x7f"])
        headers = {**_HEADERS, "Authorization": key}
        reply = await http.post("/v1/completions", json=self._asked[0], headers=headers)
        self._status(reply.status_code, [401], "wrong key")

    async def _elsewhere(self, http: httpx.AsyncClient, rng: random.Random) -> None:
        path, allowed = rng.choice([("/nowhere", 404), ("/v1/completions", 405),
                                    ("/v1/models", 200), ("/metrics", 200)])  # fmt: skip
        reply = await http.get(path, headers=_HEADERS)
        self._status(reply.status_code, [allowed], path)

    async def _never_sends(self, _http: httpx.AsyncClient, rng: random.Random) -> None:
        """A head that promises a body, a part of it, and then nothing."""
        _, writer = await asyncio.open_connection(*self._address)
        writer.write(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer " + KEY.encode() + b"\r\nContent-Length: 1000\r\n\r\n{"
        )
        await writer.drain()
        await asyncio.sleep(rng.random())
        writer.transport.abort()


def texts_of(document: dict[str, Any]) -> list[str]:
    """The texts of a completion's choices."""
    return [choice["text"] for choice in document["choices"]]


def answers(url: str, asked: Seq[dict[str, Any]]) -> list[list[str]]:
    """Each request's answer, alone."""
    with httpx.Client(base_url=url, timeout=_TIMEOUT_S, trust_env=False, headers=_HEADERS) as http:
        replies = [http.post("/v1/completions", json=body) for body in asked]
    for reply in replies:
        reply.raise_for_status()
    return [texts_of(reply.json()) for reply in replies]


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


def size_of(url: str, pid: int) -> Size:
    """What it holds now; this question's own connection counts each time."""
    state = httpx.get(f"{url}/outpace/state", headers=_HEADERS, trust_env=False).json()
    text = httpx.get(f"{url}/metrics", trust_env=False).text
    used = [line for line in text.splitlines() if line.startswith("vllm:kv_cache_usage_perc")]
    return Size(
        connections=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        threads=len(list(Path(f"/proc/{pid}/task").iterdir())),
        pages_used=float(used[0].rsplit(" ", 1)[1]) if used else 0.0,
        requests=state["requests"]["running"] + state["requests"]["waiting"],
    )


def load(url: str, pid: int, seconds: float, *, clients: int = 64, seed: int = 1) -> dict[str, Any]:
    """Everything at once for so long, and what is left of it."""
    asked = requests(25)
    expected = answers(url, asked)
    crowd = Crowd(url, asked, expected)
    asyncio.run(crowd.run(min(3.0, seconds / 4), clients=clients, seed=seed))  # all is warm
    settled(url, pid, before=None)
    before, began_s = size_of(url, pid), time.monotonic()
    crowd.found = found = Findings()
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(seconds / 20):
            found.memory_mb.append(round(memory_mb(pid), 1))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        asyncio.run(crowd.run(seconds, clients=clients, seed=seed + clients))
    finally:
        stop.set()
        watcher.join()
    wall_s = time.monotonic() - began_s
    after = settled(url, pid, before=before)
    found.memory_mb.append(round(memory_mb(pid), 1))
    judge(found, before, after)
    if answers(url, asked) != expected:
        found.problems["an answer has changed for good"] += 1
    return report(found, before, after, wall_s)


def settled(url: str, pid: int, *, before: Size | None) -> Size:
    """Its size once it is quiet, or when the patience is over."""
    end_s = time.monotonic() + _QUIET_S
    while True:
        now = size_of(url, pid)
        quiet = not now.requests and (before is None or now.connections <= before.connections)
        if quiet or time.monotonic() > end_s:
            return now
        time.sleep(0.2)


def judge(found: Findings, before: Size, after: Size) -> None:
    """What is left that should not be. Drafters that remember answers grow up to their bound."""
    for what, was, now, room in (
        ("requests", 0, after.requests, 0),
        ("connections", before.connections, after.connections, 0),
        ("threads", before.threads, after.threads, 4),  # pools fill up
        ("pages", before.pages_used, after.pages_used, 0.0),
    ):
        if now > was + room:
            found.problems[f"{now} {what} are left, before there were {was}"] += 1
    settled_mb = found.memory_mb[len(found.memory_mb) // 4 :]
    grown_mb = settled_mb[-1] - settled_mb[0]
    if grown_mb > max(40.0, 0.1 * settled_mb[0]):
        found.problems[f"memory grew by {grown_mb:.0f} MB"] += 1
    wrong = {status: n for status, n in found.statuses.items() if status >= 500}
    if wrong:
        found.problems[f"statuses of our fault: {wrong}"] += 1


def report(found: Findings, before: Size, after: Size, wall_s: float) -> dict[str, Any]:
    """All numbers."""
    cuts = quantiles(found.seconds, n=100) if len(found.seconds) > 1 else [0.0] * 99
    return {
        "seconds": round(wall_s, 1), "requests": sum(found.kinds.values()),
        "kinds": dict(found.kinds), "statuses": {str(s): n for s, n in found.statuses.items()},
        "compared": found.compared,
        "e2el_s": {"p50": round(cuts[49], 3), "p99": round(cuts[98], 3)},
        "before": [before.connections, before.threads, before.pages_used],
        "after": [after.connections, after.threads, after.pages_used],
        "memory_mb": found.memory_mb, "problems": dict(found.problems),
    }  # fmt: skip


@contextmanager
def served(model: str, threads: int | None) -> Iterator[tuple[str, int, list[str]]]:
    """`outpace serve` in a process of its own: its URL, its id, and its log as it grows."""
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        keys.write_text(KEY + "\n")
        command = [sys.executable, "-m", "outpace.cli", "serve", "--model", model, "--port", "0",
                   "--api-key-file", str(keys), "--max-body-bytes", str(BODY_BYTES),
                   "--max-in-flight", "1000"]  # fmt: skip
        command += ["--threads", str(threads)] if threads else []
        lines: list[str] = []
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()))
            reader.start()
            try:
                while not (ready := [x for x in list(lines) if "listening on " in x]):
                    if process.poll() is not None:
                        raise SystemExit("".join(lines))
                    time.sleep(0.1)
                url = ready[0].split("listening on ")[1].strip().removesuffix("/v1")
                yield url, process.pid, lines
            finally:
                process.terminate()
                process.wait()
                reader.join()


def main() -> None:
    """Load a server and print one JSON document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with served(args.model, args.threads) as (url, pid, lines):
        document = load(url, pid, 60 * args.minutes, clients=args.clients)
    bugs = [line for line in lines if '"level": "error"' in line]
    if bugs:
        document["problems"][f"{len(bugs)} errors in the log, such as {bugs[0][:300]}"] = len(bugs)
    text = json.dumps({"model": args.model, "clients": args.clients, **document}, indent=1)
    print(text)
    if args.json is not None:
        args.json.write_text(text + "\n", encoding="utf-8")
    sys.exit(1 if document["problems"] else 0)


if __name__ == "__main__":
    main()
