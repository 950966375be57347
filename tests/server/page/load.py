"""A small server under a small load, for a page to show."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from outpace.api import Model
from outpace.control.auto import AutoControl
from outpace.engine.engine import Engine
from server.live import TIMEOUT_S, Live, until
from server.words import worded_model


def measuring_model(*, drafter: str = "lookup", context_tokens: int = 400_000) -> Model:
    """The model of words, under the control that measures what guesses pay."""
    model = worded_model(drafter=drafter, context_tokens=context_tokens)
    control = AutoControl(drafter=model.drafter.name)
    model.engine = Engine(model.runtime, model.drafter, control=control)
    return model


@contextmanager
def busy(live: Live, *, n: int = 2, tokens: int = 300_000) -> Iterator[None]:
    """While the block runs, n answers are written and read, and short ones come to an end."""
    over = threading.Event()

    def read() -> None:
        body = {"prompt": " one two three one two three", "max_tokens": tokens, "stream": True,
                "ignore_eos": True, "temperature": 0}  # fmt: skip
        with (
            httpx.Client(base_url=live.url, timeout=TIMEOUT_S) as http,
            http.stream("POST", "/v1/completions", json=body) as response,
        ):
            for _ in response.iter_lines():
                if over.is_set():
                    return

    threads = [threading.Thread(target=read) for _ in range(n)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            live.complete(" one two one two", max_tokens=20, ignore_eos=True)
        until(lambda: live.service.stats().running == n)
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(TIMEOUT_S)
