"""A real server on a free port of loopback, over a tiny model, in a thread of this process."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from starlette.types import ASGIApp

from outpace.api import Model
from outpace.control.limits import Limits
from outpace.core.draft import Drafter
from outpace.engine.engine import Engine
from outpace.engine.schedule import Budget
from outpace.engine.service import Service
from outpace.server.app import create_app
from outpace.server.run import address_of, listen
from outpace.server.settings import Settings
from small import small_model

# Of what should take no time, on a machine that has none to give.
TIMEOUT_S = 90.0


@dataclass(slots=True)
class Live:
    """A running server. http: a client of it."""

    url: str
    model: Model
    service: Service
    http: httpx.Client = field(repr=False)

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.http.post(path, json=body)

    def chat(self, text: str = "hello hello hello", **body: Any) -> dict[str, Any]:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 40, **body}
        return answered(self.post("/v1/chat/completions", **body))

    def complete(self, prompt: Any = "hello hello", **body: Any) -> dict[str, Any]:
        return answered(self.post("/v1/completions", **{"prompt": prompt, **body}))

    def events(self, path: str, **body: Any) -> list[dict[str, Any]]:
        """The documents of a stream, its end mark checked."""
        with self.http.stream("POST", path, json={**body, "stream": True}) as response:
            assert response.status_code == 200, response.read()
            lines = [line for line in response.iter_lines() if line]
        assert all(line.startswith("data: ") for line in lines)
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line[6:]) for line in lines[:-1]]

    def idle(self) -> None:
        """Nothing runs, nothing is held."""
        until(lambda: not self.service.stats().running + self.service.stats().waiting)
        until(lambda: self.service.engine.idle)
        self.service.engine.check_integrity()


def answered(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def refused(response: httpx.Response, status: int = 400) -> dict[str, Any]:
    """The error of a refusal, its shape checked."""
    assert response.status_code == status, response.text
    document = response.json()
    assert set(document) == {"error"}
    error: dict[str, Any] = document["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


def until(condition: Callable[[], object]) -> None:
    """Wait for something another thread does."""
    end_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end_s, "it did not come to that in time"
        time.sleep(0.01)


@contextmanager
def running(
    model: Model | None = None,
    settings: Settings | None = None,
    *,
    behind: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> Iterator[Live]:
    """Serve a model (the small one) until the block ends, behind a middleware if one is given."""
    model = model or small_model()
    settings = settings or Settings(port=0)
    with Service(model.engine, check_when_idle=True) as service:
        listener = listen(settings)
        app = behind(create_app(model, service, settings))
        server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=5)
        )
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        url = address_of(listener)
        try:
            until(lambda: server.started)
            with httpx.Client(base_url=url, timeout=TIMEOUT_S) as http:
                yield Live(url=url, model=model, service=service, http=http)
        finally:
            server.should_exit = True
            thread.join(TIMEOUT_S)
            listener.close()
        assert not thread.is_alive()


def limited(model: Model, *, drafter: Drafter | None = None, budget: Budget | None = None) -> None:
    """Give a model another engine."""
    model.engine = Engine(
        model.runtime, drafter or model.drafter, limits=Limits(max_nodes=4, max_depth=4),
        budget=budget,
    )  # fmt: skip
