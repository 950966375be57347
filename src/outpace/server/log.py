"""One structured line per response, with a request id, and without what users wrote.

The middleware is plain ASGI: it sees every response, streams included, when its last byte is sent,
and counts it. Prompts are in the log only where the operator asked for them.
"""

import json
import logging
import re
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outpace.server.wire.problems import problem_of

LOG: Final = logging.getLogger("outpace.server")
_NOTES: Final = "outpace.notes"
_ID: Final = re.compile(rb"^[A-Za-z0-9._:-]{1,128}$")
_QUIET: Final = frozenset(("/health", "/ready", "/metrics"))


def note(request: Request, **facts: object) -> None:
    """Add facts to the request's line in the log."""
    request.scope.setdefault(_NOTES, {}).update(facts)


def notes_of(scope: Scope) -> Mapping[str, object]:
    """What was noted of a request so far."""
    found: Mapping[str, object] = scope.get(_NOTES, {})
    return found


def request_id(request: Request) -> str:
    """The id this request has in the log and in its response's headers."""
    return str(request.scope[_NOTES]["request_id"])


class AccessLog:
    """Gives every request an id (its own, if it brought a sane one), logs and counts it.

    answered: told route and status of every response.
    """

    def __init__(self, app: ASGIApp, *, answered: Callable[[str, int], None]) -> None:
        self._app = app
        self._answered = answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s, status = time.perf_counter(), 0
        given = dict(scope["headers"]).get(b"x-request-id", b"")
        own_id = given if _ID.match(given) else f"req-{secrets.token_hex(12)}".encode()
        notes = scope.setdefault(_NOTES, {})
        notes["request_id"] = own_id.decode()

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", own_id)]
            await send(message)

        try:
            await self._app(scope, receive, told)
        except Exception as error:
            LOG.exception("a bug: %s", type(error).__name__, extra={"facts": notes})
            if status:  # too late for another
                raise
            await problem_of(error).response()(scope, receive, told)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            status = status or 499  # nothing was sent: the client had left
            self._answered(route, status)
            level = logging.DEBUG if scope["path"] in _QUIET else logging.INFO
            LOG.log(
                level,
                "response",
                extra={
                    "facts": {
                        **notes,
                        "method": scope["method"],
                        "route": route,
                        "status": status,
                        "seconds": round(time.perf_counter() - began_s, 6),
                    }
                },
            )


class JsonLines(logging.Formatter):
    """A JSON object per record; a record's `facts` are its fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_to_stderr(level: str) -> None:
    """Send our records, uvicorn's and OpenTelemetry's to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("outpace", "uvicorn", "opentelemetry"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level.upper())
        logger.propagate = False
