"""The order of questions before a request is read: who, whether anybody is served, how many."""

from fastapi import Request

from outpace.server.limits import Lease
from outpace.server.log import note
from outpace.server.served import Served
from outpace.server.wire.problems import unavailable


def identify(request: Request, served: Served) -> str:
    """The caller's name, fit for logs.

    Raises:
        Problem: 401.
    """
    address = request.client.host if request.client else "local"
    caller = served.door.caller(request.headers.get("authorization"), address)
    note(request, caller=caller)
    return caller


def admit(request: Request, served: Served) -> Lease:
    """Let a request for an answer in.

    Raises:
        Problem: 401, 429, or 503 while the server drains or its engine is dead.
    """
    caller = identify(request, served)
    health = served.service.health()
    if health.state != "running":
        code = "engine_dead" if health.state == "dead" else "shutting_down"
        raise unavailable(f"{health.reason}; send the request elsewhere", code)
    return served.quotas.enter(caller)
