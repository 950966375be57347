"""Arms: the ways of serving that a plan compares.

What an arm *is* follows from its keys: `endpoint` is a server someone runs, `serve` a server this
evaluation starts and stops, and everything else a configuration inside this process.
"""

import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Discriminator, Field, Tag, model_validator

from outpace.evaluate.plan.shape import (
    AtLeastOne,
    Count,
    Document,
    Many,
    Positive,
    Shape,
    Text,
    wrong,
)

Adapter = Literal["auto", "outpace", "vllm", "sglang", "llama.cpp", "none"]
Engine = Literal["outpace", "vllm", "llama.cpp", "command"]
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_READY: dict[str, str] = {"vllm": "/health", "llama.cpp": "/health", "outpace": "/ready"}


class Planted(Shape):
    """Faults put in on purpose, to see that an evaluation finds them; never for real use.

    synthetic: acceptance as wished (`alpha=0.7`, `wrong`, ...), in place of the drafter.
    temperature_factor: the arm samples at so many times the temperature it was asked for.
    slowdown: every answer takes so many times as long. accept_all: guesses are kept unchecked.
    """

    synthetic: Text | None = None
    temperature_factor: Positive | None = None
    slowdown: Annotated[float, Field(ge=1)] | None = None
    accept_all: bool = False


class InProcessArm(Shape):
    """A configuration inside this process, on the plan's `target`.

    depth: most guesses per round; without it the control decides. force: hold the control in a
    state: `breaker_open` as after a collapse, `abstain` as if no guess ever paid.
    """

    drafter: Text = "auto"
    depth: Count | None = None
    speculation: Literal["auto", "off"] = "auto"
    rule: Literal["auto", "match", "token", "block", "traversal"] = "auto"
    force: Literal["breaker_open", "abstain"] | None = None
    test_only: Planted | None = None

    @model_validator(mode="after")
    def _one_setting(self) -> Self:
        if self.speculation == "off" and self.depth:
            raise wrong(
                f"depth {self.depth} with speculation off; allowed: one of them", key="depth"
            )
        return self

    @property
    def setting(self) -> str:
        """For `control.limits.parse_speculation`: auto, off or fixed:N."""
        if self.depth is None:
            return self.speculation
        return f"fixed:{self.depth}" if self.depth else "off"

    @property
    def guesses(self) -> bool:
        """Whether it may speculate."""
        planted = self.test_only is not None and self.test_only.synthetic is not None
        return (self.drafter != "none" or planted) and self.setting != "off" and not self.force


class EndpointArm(Shape):
    """A server that someone else runs. body: fields added to every request.

    api_key_env: the *name* of the variable that holds the key; plans are kept and shown.
    adapter: how its counters are read; `auto` finds out, `none` measures from the client alone.
    """

    endpoint: Text
    model: Text
    api_key_env: Annotated[str, Field(pattern=_VARIABLE)] | None = None
    adapter: Adapter = "auto"
    metrics_url: Text | None = None
    timeout_s: Positive = 600.0
    body: Document = Field(default_factory=dict)

    @model_validator(mode="after")
    def _urls(self) -> Self:
        for key in ("endpoint", "metrics_url"):
            url = getattr(self, key)
            problem = _url_problem(url) if url is not None else ""
            if problem:
                raise wrong(
                    f"{url!r} {problem}; allowed: such as http://127.0.0.1:8000/v1", key=key
                )
        return self


class Managed(Shape):
    """A server to start, wait for, probe and stop.

    executable: the program, where it is not the engine's usual one. command: the whole command
    line of an engine that is not known. `{port}` in args or command is the port's place. model:
    what to serve; the plan's target if left out. ready: the path that answers 200 when it is up.
    """

    engine: Engine
    args: Many[str] = ()
    command: Many[Text] = ()
    executable: Text | None = None
    model: Text | None = None
    served_name: Text | None = None
    port: Literal["auto"] | Annotated[int, Field(ge=1, le=65535)] = "auto"
    ready: Annotated[str, Field(pattern="^/")] | None = None
    ready_within_s: Positive = 600.0
    env: dict[Annotated[str, Field(pattern=_VARIABLE)], str] = Field(default_factory=dict)
    adapter: Adapter = "auto"
    timeout_s: Positive = 600.0
    body: Document = Field(default_factory=dict)

    @model_validator(mode="after")
    def _command(self) -> Self:
        if self.engine == "command" and not self.command:
            raise wrong("engine command needs the whole command line, as a list", key="command")
        if self.engine != "command" and self.command:
            raise wrong(
                f"engine {self.engine} makes its own command line; allowed: args", key="command"
            )
        has_place = any("{port}" in part for part in (*self.command, *self.args))
        if self.engine == "command" and self.port == "auto" and not has_place:
            raise wrong("port auto needs {port} in the command or args", key="command")
        return self

    @property
    def ready_path(self) -> str:
        """Where to ask whether it is up."""
        return self.ready or _READY.get(self.engine, "/v1/models")


class ServeArm(Shape):
    """A server that the evaluation manages."""

    serve: Managed


def _kind(found: Any) -> str:  # Any: a document, or an arm already made
    if isinstance(found, Shape):
        found = found.model_dump()
    keys: set[object] = set(found) if isinstance(found, dict) else set()
    return (
        "served arm" if "serve" in keys else "endpoint arm" if "endpoint" in keys else "local arm"
    )


Arm = Annotated[
    Annotated[InProcessArm, Tag("local arm")]
    | Annotated[EndpointArm, Tag("endpoint arm")]
    | Annotated[ServeArm, Tag("served arm")],
    Discriminator(_kind),
]


class Target(Shape):
    """The model of in-process arms, and of managed servers that name no other."""

    model: Text
    runtime: Text = "auto"
    weights: Text = "auto"
    device: Text = "auto"
    threads: AtLeastOne | None = None


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"is no URL ({error})"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "is no http or https URL with a host"
    if parts.username or parts.password:
        return "holds a user or password, which plans must not (use api_key_env)"
    if parts.query or parts.fragment or re.search(r"\s", url):
        return "has a query, a fragment or spaces"
    return ""
