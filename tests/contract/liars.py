"""Servers that break one promise each: a middleware that drops a field or falsifies an answer."""

import json
import re
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

Document = dict[str, Any]
Change = Callable[[Document], None]


class Liar:
    """Changes bodies on their way in, documents and events on their way out."""

    def __init__(
        self, app: ASGIApp, *, ask: Change | None = None, say: Change | None = None,
        text: Callable[[str], str] | None = None,
    ) -> None:  # fmt: skip
        self._app, self._ask, self._say, self._text = app, ask, say, text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = [pair for pair in scope["headers"] if pair[0] != b"content-length"]
        await self._app({**scope, "headers": headers}, self._reading(receive), self._writing(send))

    def _reading(self, receive: Receive) -> Receive:
        async def changed() -> Message:
            message = await receive()
            if message["type"] != "http.request" or self._ask is None:
                return message
            data = bytearray(message.get("body", b""))
            while message.get("more_body"):
                message = await receive()
                data += message.get("body", b"")
            return {**message, "body": _edited(bytes(data), self._ask), "more_body": False}

        return changed

    def _writing(self, send: Send) -> Send:
        async def changed(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message["headers"] if pair[0].lower() != b"content-length"]
                message = {**message, "headers": kept}
            elif self._say is not None and message.get("body"):
                parts = message["body"].decode().split("\n\n")
                message = {**message, "body": "\n\n".join(map(self._told, parts)).encode()}
            elif self._text is not None and message.get("body"):
                message = {**message, "body": self._text(message["body"].decode()).encode()}
            await send(message)

        return changed

    def _told(self, part: str) -> str:
        if not self._say:
            return part
        prefix = "data: " if part.startswith("data: {") else ""
        return prefix + _edited(part.removeprefix(prefix).encode(), self._say).decode()


def _edited(data: bytes, change: Change) -> bytes:
    try:
        document = json.loads(data)
    except ValueError:
        return data
    if isinstance(document, dict):
        change(document)
    return json.dumps(document).encode()


def dropping(*fields: str) -> Callable[[ASGIApp], ASGIApp]:
    """Ignores these fields of requests."""

    def drop(body: Document) -> None:
        for name in fields:
            body.pop(name, None)

    return lambda app: Liar(app, ask=drop)


def saying(change: Callable[[Document], None]) -> Callable[[ASGIApp], ASGIApp]:
    """Changes every choice it answers with."""

    def each(document: Document) -> None:
        for choice in document.get("choices", []):
            change(choice)

    return lambda app: Liar(app, say=each)


def answering(change: Change) -> Callable[[ASGIApp], ASGIApp]:
    """Changes every document it answers with."""
    return lambda app: Liar(app, say=change)


def writing(pattern: str, replacement: str) -> Callable[[ASGIApp], ASGIApp]:
    """Changes the text of whatever it answers with."""
    return lambda app: Liar(app, text=lambda text: re.sub(pattern, replacement, text))
