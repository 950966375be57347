"""`/` and `/page/…`: files of this package, and headers that keep the page to itself.

Nothing is built, nothing is fetched from elsewhere: the policy allows scripts, styles and requests
of this server only, no inline code, and no frame around it. The page holds nothing secret, so it
is open to everybody; what it then asks for needs a key where the server has keys.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response

from outpace.server.served import Served
from outpace.server.wire.problems import Problem

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
# Where the page says whether to ask for a key, so that it need not be refused to find out.
_KEY_MARK: Final = b'name="outpace-key" content="none"'
_KEY_NEEDED: Final = b'name="outpace-key" content="needed"'
_INDEX: Final = "index.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    data: bytes
    media_type: str
    tag: str


def page_routes(served: Served) -> APIRouter:
    """The page, and each of its files by name."""
    router = APIRouter(include_in_schema=False)
    found = _read(needs_key=bool(served.settings.api_keys))

    @router.api_route("/", methods=["GET", "HEAD"], response_model=None)
    async def index(request: Request) -> Response:
        return _response(request, found[_INDEX])

    @router.api_route("/page/{name}", methods=["GET", "HEAD"], response_model=None)
    async def file(request: Request, name: str) -> Response:
        if name not in found:
            raise Problem(
                status=404, message=f"the page has no file {name!r}; open /", code="not_found"
            )
        return _response(request, found[name])

    return router


def _read(*, needs_key: bool) -> Mapping[str, _File]:
    """Every file of the page, in memory: names from outside reach no file system."""
    found: dict[str, _File] = {}
    for entry in files("outpace.server.page").joinpath("static").iterdir():
        kind = entry.name.rpartition(".")[2]
        if kind not in _TYPES:
            continue
        data = entry.read_bytes()
        if needs_key:
            data = data.replace(_KEY_MARK, _KEY_NEEDED)
        tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
        found[entry.name] = _File(data=data, media_type=_TYPES[kind], tag=tag)
    return found


def _response(request: Request, file: _File) -> Response:
    headers = {**_HEADERS, "ETag": file.tag}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.data, media_type=file.media_type, headers=headers)
