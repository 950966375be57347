"""Server-sent events: one response, one writer, and one eye on the client.

A client that goes away, or leaves a piece unread for too long, ends the response at once; closing
the events closes the streams behind them, which frees what their requests held.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

DONE: Final = b"data: [DONE]\n\n"
# Line breaks of Unicode, which many a client's line reader takes for the end of an event.
_BREAKS: Final = {char.encode(): f"\\u{ord(char):04x}".encode() for char in "\x85\u2028\u2029"}


def event(document: bytes | str) -> bytes:
    """One `data:` event of a JSON document without line breaks between its parts."""
    data = document.encode() if isinstance(document, str) else document
    for char, escape in _BREAKS.items():
        if char in data:
            data = data.replace(char, escape)
    return b"data: " + data + b"\n\n"


async def gone(receive: Receive) -> None:
    """Return when the client has left. Only after the body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Sends events as they come. on_end runs once, however it ends."""

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        *,
        send_s: float,
        on_end: Callable[[], None],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._events = events
        self._send_s = send_s
        self._on_end = on_end
        self.status_code = 200
        self.background = None
        self.init_headers(
            {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", **(headers or {})}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        pump = asyncio.create_task(self._pump(send))
        watch = asyncio.create_task(gone(receive))
        try:
            await asyncio.wait({pump, watch}, return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                pump.result()
        finally:
            for task in (pump, watch):
                task.cancel()
            await asyncio.gather(pump, watch, return_exceptions=True)
            await self._events.aclose()
            self._on_end()

    async def _pump(self, send: Send) -> None:
        with suppress(OSError, TimeoutError):  # gone, or not reading
            await self._send(
                send, {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            )
            async for data in self._events:
                await self._send(
                    send, {"type": "http.response.body", "body": data, "more_body": True}
                )
            await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, message: dict[str, object]) -> None:
        async with asyncio.timeout(self._send_s):
            await send(message)
