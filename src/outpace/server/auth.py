"""Who is calling: API keys, compared in constant time, known afterwards by a number only."""

import hashlib
import hmac
from collections.abc import Sequence as Seq
from typing import Final

from outpace.server.wire.problems import Problem

_SCHEME: Final = "bearer"


class Doorkeeper:
    """Lets callers in by `Authorization: Bearer KEY`; without keys, everybody.

    Keys are kept as digests, so that neither an error, a log nor a debugger shows one, and every
    comparison looks at all of them for the same time.
    """

    def __init__(self, keys: Seq[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    def caller(self, authorization: str | None, address: str) -> str:
        """A name for whoever calls, fit for logs: `key 1`, or their address where none is asked.

        Raises:
            Problem: 401.
        """
        if not self._digests:
            return address
        scheme, _, key = (authorization or "").partition(" ")
        found = _digest(key.strip())
        matches = [hmac.compare_digest(found, known) for known in self._digests]
        if scheme.lower() != _SCHEME or not any(matches):
            what = "that API key is not one of this server's" if authorization else "no API key"
            raise Problem(
                status=401,
                message=f"{what}; send the header 'Authorization: Bearer KEY'",
                type="authentication_error",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return f"key {matches.index(True) + 1}"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
