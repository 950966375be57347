"""What a check found: a verdict, what was sent, what came back.

pass: it held. fail: it did not, and clients can see it. unsupported: the endpoint refused what the
check needs, or lacks the extension; refusing clearly is no failure, doing it in part is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from outpace.endpoint.client import Endpoint

Verdict = Literal["pass", "fail", "unsupported"]


class Failed(Exception):
    """The promise does not hold; the message says what was found."""


class Unsupported(Exception):
    """The check cannot be made here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A promise, by name. run returns what was found when it holds."""

    name: str
    promise: str
    run: "Callable[[Endpoint], str]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check on one endpoint."""

    name: str
    promise: str
    verdict: Verdict
    sent: str
    found: str
    seconds: float


def expect(ok: bool, found: str) -> None:
    """Fail unless ok."""
    if not ok:
        raise Failed(found)


def same(a: object, b: object, what: str) -> None:
    """Fail unless equal, showing where they part."""
    if a == b:
        return
    if isinstance(a, str | list) and isinstance(b, str | list):
        pairs = zip(a, b, strict=False)
        at = next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))
        raise Failed(f"{what}: they part at {at}: {a[at : at + 12]!r} and {b[at : at + 12]!r}")
    raise Failed(f"{what}: {a!r} and {b!r}")
