"""From bytes to a request: size, time, JSON, types, unknown fields; each has its own refusal."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json
from starlette.requests import ClientDisconnect

from outpace.server.settings import Settings
from outpace.server.wire.problems import Problem, bad

T = TypeVar("T", bound=BaseModel)

# Fields of OpenAI's and vLLM's APIs that a client library may send without asking for anything:
# accepted at these values, and refused (not ignored) at any other.
NEUTRAL: Final[Mapping[str, tuple[object, ...]]] = {
    "best_of": (1,),
    "use_beam_search": (False,),
    "length_penalty": (1, 1.0),
    "include_stop_str_in_output": (False,),
    "spaces_between_special_tokens": (True,),
    "continue_final_message": (False,),
    "store": (False,),
    "service_tier": ("auto", "default"),
    "priority": (0,),
    "modalities": (["text"],),
    "stream_interval": (1,),
}
# Labels for the provider's own books; nothing here depends on them.
LABELS: Final = frozenset(("user", "metadata", "safety_identifier", "prompt_cache_key"))
_MOST_NAMED = 5
# A body that is too large is read on, and thrown away, up to so many times the limit: a client
# that is cut off in the middle of sending sees a broken connection and not the reason.
_READ_TIMES = 8


async def read_bytes(request: Request, settings: Settings) -> bytes:
    """The body, bounded in size and in the time it may take.

    Raises:
        Problem: 413, 408 or 415.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        # Also keeps a web page elsewhere from posting here without the browser asking first.
        raise Problem(
            status=415,
            message=f"Content-Type is {kind or 'missing'}; send application/json",
            code="unsupported_media_type",
        )
    limit = settings.bounds.body_bytes
    data, n_read = bytearray(), 0
    try:
        async with asyncio.timeout(settings.bounds.body_s):
            async for chunk in request.stream():
                n_read += len(chunk)
                if n_read <= limit:
                    data += chunk
                elif n_read > _READ_TIMES * limit:
                    break
    except ClientDisconnect:
        raise Problem(status=499, message="the client left before its body was complete") from None
    except TimeoutError:
        raise Problem(
            status=408,
            message=f"the body was not complete after {settings.bounds.body_s:g} s",
            code="timeout",
        ) from None
    if n_read > limit:
        raise Problem(
            status=413,
            message=f"the body has {n_read} bytes or more; at most {limit} are taken",
            code="body_too_large",
            headers={"Connection": "close"},
        )
    return bytes(data)


def parse(data: bytes, shape: type[T], settings: Settings) -> T:
    """A body as a request.

    Raises:
        Problem: 400, naming every field that is wrong or unknown.
    """
    try:
        document = from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise bad(f"the body is not JSON: {error}", code="invalid_json") from None
    if not isinstance(document, dict):
        kind = type(document).__name__
        raise bad(f"the body is a JSON {kind}; send an object", code="invalid_json")
    try:
        request = shape.model_validate(document)
    except ValidationError as error:
        raise _invalid(error) from None
    _check_extra(request.model_extra or {}, settings)
    return request


def _check_extra(extra: Mapping[str, Any], settings: Settings) -> None:
    unknown: list[str] = []
    for name, value in extra.items():
        if name in LABELS or value is None:
            continue
        if name not in NEUTRAL:
            unknown.append(name)
        elif value not in NEUTRAL[name] or isinstance(value, bool) != isinstance(
            NEUTRAL[name][0], bool
        ):
            allowed = " or ".join(repr(v) for v in NEUTRAL[name])
            raise bad(
                f"{name} is {_short(value)}, which this server cannot do; leave it out, or send "
                f"{allowed}",
                param=name,
                code="unsupported_value",
            )
    unknown += [name for name, value in extra.items() if value is None and not _known(name)]
    if unknown and not settings.unknown_fields:
        names = ", ".join(sorted(unknown)[:_MOST_NAMED])
        more = len(unknown) - _MOST_NAMED
        raise bad(
            f"unknown fields: {names}{f' and {more} more' if more > 0 else ''}; leave them out "
            f"(or start the server with --allow-unknown-fields to have them ignored)",
            param=sorted(unknown)[0],
            code="unknown_field",
        )


def _known(name: str) -> bool:
    return name in LABELS or name in NEUTRAL


def _invalid(error: ValidationError) -> Problem:
    """One line per field; a union's many complaints about one field become the first."""
    by_field: dict[str, ErrorDetails] = {}
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        by_field.setdefault(str(detail["loc"][0]) if detail["loc"] else "body", detail)
    lines = [f"{_where(detail)}: {detail['msg']}" for detail in by_field.values()]
    first = next(iter(by_field))
    missing = by_field[first]["type"] == "missing"
    return bad(
        "; ".join(lines[:_MOST_NAMED]),
        param=first,
        code="missing_field" if missing else "invalid_type",
    )


def _where(detail: ErrorDetails) -> str:
    # Parts such as "list[str]" name a union's branch, not a place.
    parts = [str(p) for p in detail["loc"] if isinstance(p, int) or str(p).isidentifier()]
    return ".".join(parts[:1] + [p for p in parts[1:] if p not in ("str", "int", "list")])


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
