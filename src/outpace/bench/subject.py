"""What is measured: a model in this process, or an endpoint over HTTP. Both open arms.

In this process an arm is a drafter, and every block begins knowing nothing. An endpoint keeps what
it knows from block to block; its arms are values of the request field `speculation`, where it has
that field.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from outpace.api import Model
from outpace.bench.client import Client, InProcess
from outpace.bench.http import OverHttp
from outpace.bench.run import Arm
from outpace.control.limits import parse_speculation
from outpace.engine.service import Service
from outpace.errors import ConfigError, RequestError

AS_IS = "as-is"
_FIELD = "speculation"


class Subject(Protocol):
    """Something whose arms can be asked."""

    def facts(self) -> Mapping[str, object]:
        """What it is; equal for subjects whose records may continue each other."""

    def notes(self) -> Iterator[str]:
        """What limits its figures."""

    def client(self, arm: Arm) -> AbstractContextManager[Client]:
        """An arm, for one block."""


class InThisProcess:
    """A loaded model.

    Raises:
        ConfigError: an arm names no drafter.
    """

    def __init__(self, model: Model, arms: tuple[Arm, ...]) -> None:
        self._model = model
        for arm in arms:
            model.engine_with(arm.drafter)  # a wrong name is found before anything is measured

    def facts(self) -> Mapping[str, object]:
        traits = self._model.runtime.traits
        return {
            "client": "in-process", "model": self._model.name, "runtime": traits.name,
            "digest": traits.digest, "row_invariant": traits.row_invariant,
        }  # fmt: skip

    def notes(self) -> Iterator[str]:
        return iter(())

    @contextmanager
    def client(self, arm: Arm) -> Iterator[Client]:
        with Service(self._model.engine_with(arm.drafter, arm.limits)) as service:
            yield InProcess(self._model, service)


class AtEndpoint:
    """An OpenAI-compatible server; its owner closes the connections.

    Raises:
        ConfigError: there are arms beside `as-is`, and it has no field for them.
    """

    def __init__(self, http: OverHttp, arms: tuple[Arm, ...]) -> None:
        self._http = http
        self._several = len(arms) > 1
        if any(arm.name != AS_IS for arm in arms) and not http.knows(_FIELD):
            raise ConfigError(
                f"{http.url} has no request field {_FIELD!r}, so {AS_IS} is its only arm; compare "
                "two servers by a run of each"
            )

    def facts(self) -> Mapping[str, object]:
        told = self._http.told
        return {
            "client": "http", "base_url": self._http.url, "model": self._http.model,
            "server": self._http.version(), "tokens_counted_by": told.counted_by,
            "tokens_per_part": "told" if told.tokens else "shared evenly",
        }  # fmt: skip

    def notes(self) -> Iterator[str]:
        told_by = self._told_by()
        if told_by == "/metrics":
            yield "guesses are counted by /metrics over whole blocks, other users' included"
        elif told_by is None:
            yield (
                "the endpoint tells nothing of guesses, in its answers or under vLLM's names in "
                "/metrics; whether it speculates is not known"
            )
        if self._http.told.counted_by == "client":
            yield "the endpoint gives no usage: tokens are its streams' parts, which may be fewer"
        yield (
            "latencies are those of this client, the network and the server's queue included; the "
            "server keeps what it remembers from block to block"
            + (", which later arms gain from" if self._several else "")
        )

    @contextmanager
    def client(self, arm: Arm) -> Iterator[Client]:
        self._http.body.pop(_FIELD, None)
        if arm.name != AS_IS:
            self._http.body[_FIELD] = arm.name
        yield self._http

    def _told_by(self) -> str | None:
        if self._http.told.speculation is not None:
            return "answers"
        return "/metrics" if "drafted" in (self._http.counted() or {}) else None


def parse_settings(text: str) -> tuple[Arm, ...]:
    """`as-is`, or settings of an endpoint that knows them: `off,auto,fixed:4`.

    Raises:
        ConfigError: no settings, one twice, or one that does not exist.
    """
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"arms are {text!r}; allowed: different settings, such as off,auto")
    arms = []
    for name in names:
        try:
            limits = None if name == AS_IS else parse_speculation(name)
        except RequestError as error:
            raise ConfigError(f"arm {name!r}: {error}, or {AS_IS} (with --base-url)") from None
        arms.append(Arm(name=name, drafter="", limits=limits))
    return tuple(arms)
