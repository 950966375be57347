"""What HTTP and JSON cost over the engine in the same process: one stream, pairs in turns.

    python benchmarks/server.py --model smollm2-135m --pairs 20

Each pair asks for the same text twice: from the service directly, and over loopback by a client in
a process of its own (so that the client's work does not hide in the server's interpreter). The
overhead is the median of the pairs' ratios of end-to-end latency, minus one; beside it that of
the fastest of each kind, which other work on the machine disturbs least.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import uvicorn

from outpace.api import Model
from outpace.build import RuntimeChoice, load
from outpace.control.limits import OFF
from outpace.core.sampling import Sampling
from outpace.engine.service import Service
from outpace.models.pull import default_cache_dir
from outpace.server.app import create_app
from outpace.server.run import address_of, listen, warm_up
from outpace.server.settings import Settings

PROMPT = "Write a short story about a lighthouse keeper who learns to paint the sea."
CLIENT = """
import http.client, json, sys, time
host, port = sys.argv[1].removeprefix("http://").split(":")
connection = http.client.HTTPConnection(host, int(port))
for line in sys.stdin:
    began = time.perf_counter()
    connection.request("POST", "/v1/completions", line, {"Content-Type": "application/json"})
    response = connection.getresponse()
    data = response.read()
    print(time.perf_counter() - began, response.status, data.count(b"data: {"), flush=True)
"""


def direct(service: Service, ids: list[int], n_tokens: int, *, off: bool) -> float:
    """Seconds of one answer from the service itself."""
    began = time.perf_counter()
    sampling = Sampling(max_tokens=n_tokens, ignore_eos=True)
    for _ in service.submit(ids, sampling, limits=OFF if off else None):
        pass
    return time.perf_counter() - began


def over_http(client: "subprocess.Popen[str]", n_tokens: int, *, off: bool, stream: bool) -> float:
    """Seconds of the same answer at the other end of a socket."""
    assert client.stdin is not None
    assert client.stdout is not None
    body = {
        "prompt": PROMPT, "max_tokens": n_tokens, "temperature": 0, "ignore_eos": True,
        "stream": stream, "speculation": "off" if off else "auto",
    }  # fmt: skip
    client.stdin.write(json.dumps(body) + "\n")
    client.stdin.flush()
    seconds, status, _ = client.stdout.readline().split()
    assert status == "200"
    return float(seconds)


def measure(
    model: Model, service: Service, url: str, *, pairs: int, n_tokens: int
) -> dict[str, dict[str, float]]:
    """Overheads by way of asking."""
    ids = model.tokenizer.encode(PROMPT, special=True)
    found: dict[str, dict[str, float]] = {}
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        for off in (True, False):
            for stream in (True, False):
                ratios, base, over = [], [], []
                ways: list[Callable[[], float]] = [
                    lambda off=off: direct(service, ids, n_tokens, off=off),  # type: ignore[misc]
                    lambda off=off, stream=stream: over_http(  # type: ignore[misc]
                        client, n_tokens, off=off, stream=stream
                    ),
                ]
                for way in ways:
                    way()
                for pair in range(pairs):
                    order = (0, 1) if pair % 2 else (1, 0)
                    seconds = [0.0, 0.0]
                    for i in order:
                        seconds[i] = ways[i]()
                    ratios.append(seconds[1] / seconds[0])
                    base.append(seconds[0])
                    over.append(seconds[1])
                name = f"{'plain' if off else 'auto'}, {'streamed' if stream else 'whole'}"
                found[name] = {
                    "overhead": statistics.median(ratios) - 1,
                    "overhead_of_the_fastest": min(over) / min(base) - 1,
                    "direct_s": statistics.median(base),
                    "tokens_per_s": n_tokens / statistics.median(base),
                }
        assert client.stdin is not None
        client.stdin.close()
    return found


def main() -> None:
    """Measure and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    with load(
        args.model,
        choice=RuntimeChoice(threads=args.threads),
        cache_dir=default_cache_dir(os.environ),
    ) as model:
        service, settings = model.serve(), Settings(port=0)
        listener = listen(settings)
        warm_up(model, service)
        app = create_app(model, service, settings)
        server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, access_log=False, timeout_keep_alive=75)
        )
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            found = measure(
                model, service, address_of(listener), pairs=args.pairs, n_tokens=args.tokens
            )
        finally:
            server.should_exit = True
            thread.join()
            listener.close()
    document = json.dumps({"model": args.model, "tokens": args.tokens, "ways": found}, indent=2)
    sys.stdout.write(document + "\n")
    if args.json is not None:
        args.json.write_text(document + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
