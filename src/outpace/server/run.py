"""Serving until told to stop, and stopping without dropping anybody.

The first SIGTERM or SIGINT drains: requests in flight finish, new ones get a 503 while the socket
still answers, and only then does it close. A second signal ends everything at once.
"""

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Final

import uvicorn

from outpace.api import Model
from outpace.core.sampling import Sampling
from outpace.engine.service import Service
from outpace.errors import ConfigError
from outpace.server.app import create_app
from outpace.server.served import Served
from outpace.server.settings import Settings

if TYPE_CHECKING:
    from outpace.server.telemetry.trace import Telemetry

_LOG = logging.getLogger(__name__)
# For responses to be written once their requests have ended.
_LAST_WORDS_S: Final = 10.0
_BACKLOG: Final = 2048
# Longer than clients keep idle connections, so that none is closed under a request.
_KEEP_ALIVE_S: Final = 75


def serve(
    model: Model,
    service: Service,
    settings: Settings,
    *,
    ready: Callable[[str], None],
    telemetry: "Telemetry | None" = None,
) -> None:
    """Answer requests until a signal says stop; the service is shut down at the end.

    ready: told the address once requests are taken. telemetry: traces them, and is shut down too.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    listener = listen(settings)
    try:
        warm_up(model, service)
        app = create_app(model, service, settings, telemetry=telemetry)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=int(_LAST_WORDS_S),
        )
        DrainingServer(config, app.state.served, lambda: ready(address_of(listener))).run(
            sockets=[listener]
        )
    finally:
        listener.close()
        service.shutdown(0.0)
        if telemetry is not None:
            telemetry.shutdown()


def listen(settings: Settings) -> socket.socket:
    """A listening socket; port 0 takes any free one.

    Raises:
        ConfigError: naming host and port.
    """
    host, port = settings.host, settings.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        family, kind, protocol, _, address = found[0]
        # With its protocol: asyncio sends at once (TCP_NODELAY) only on sockets that name it;
        # else every piece after the first may wait 40 ms for the client's acknowledgement.
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on host {host}, port {port}: {error.strerror or error}; choose another "
            f"port (0 takes any free one) or another host"
        ) from None
    listener.listen(_BACKLOG)
    return listener


def address_of(listener: socket.socket) -> str:
    """Its URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def warm_up(model: Model, service: Service) -> None:
    """Generate a token, so that what only happens once has happened, and ready means ready."""
    ids = model.tokenizer.encode("Hello", special=False) or [0]
    service.submit(ids, Sampling(max_tokens=1)).wait()


class DrainingServer(uvicorn.Server):
    """uvicorn, with an end of our own."""

    def __init__(self, config: uvicorn.Config, served: Served, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._served = served
        self._ready = ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = False
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """A signal: the first drains, the second ends."""
        _LOG.info("%s received", signal.Signals(sig).name)
        if self._loop is None or self._told:
            self.should_exit = self.force_exit = True
            return
        self._told = True
        self._loop.call_soon_threadsafe(self._begin_drain)

    def _begin_drain(self) -> None:
        self._draining = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        service, quotas = self._served.service, self._served.quotas
        finished = await asyncio.to_thread(service.shutdown, self._served.settings.drain_s)
        _LOG.info("drained: %s", "all answers finished" if finished else "some were cut off")
        end_s = time.monotonic() + _LAST_WORDS_S
        while quotas.in_flight and time.monotonic() < end_s:
            await asyncio.sleep(0.02)
        self.should_exit = True
