"""`/health`, `/ready`, `/version` and `/metrics`: for probes and scrapers, open to everybody.

`/health` is about being alive: red when the engine's thread died, or when requests are open and no
pass has ended for minutes (a hung engine answers no probe that only asks whether HTTP works).
`/ready` is about being of use: green once a token was generated, red again while draining.
"""

import time
from typing import Final

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from outpace import __version__
from outpace.server.metrics.expose import registry_of
from outpace.server.served import Served

# Longer than any single pass takes on a machine that is merely slow.
STALL_S: Final = 300.0


def health_routes(served: Served) -> APIRouter:
    """All of them."""
    router = APIRouter()
    registry = registry_of(served.service, served.meters, served.model.name)

    @router.get("/health", response_model=None)
    async def health() -> Response:
        """Whether this process is alive."""
        found = served.service.health()
        if found.state in ("dead", "stopped"):
            return _state(503, found.state, found.reason)
        if _stalled(served):
            return _state(503, "stalled", f"requests are open, no pass ended for {STALL_S:g} s")
        return _state(200, found.state, found.reason)

    @router.get("/ready", response_model=None)
    async def ready() -> Response:
        """Whether it answers requests, proved by a token."""
        found = served.service.health()
        if found.state != "running":
            return _state(503, found.state, found.reason)
        if not served.service.stats().tokens:
            return _state(503, "starting", "no token was generated yet")
        return _state(200, "ready", "")

    @router.get("/version", response_model=None)
    async def version() -> dict[str, str]:
        """outpace's version."""
        return {"version": __version__}

    @router.get("/metrics", response_model=None)
    async def metrics() -> Response:
        """Counters in Prometheus' text format."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router


def _stalled(served: Served) -> bool:
    stats = served.service.stats()
    last_s = served.meters.last_pass_s
    if last_s is None or not stats.running + stats.waiting:
        return False
    return time.perf_counter() - last_s > STALL_S


def _state(status: int, state: str, reason: str) -> JSONResponse:
    return JSONResponse({"status": state, "reason": reason or None}, status_code=status)
