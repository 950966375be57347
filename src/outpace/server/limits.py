"""How much one caller may do at a time, and per minute."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from outpace.server.settings import Bounds
from outpace.server.wire.problems import busy

_MINUTE_S: Final = 60.0
# Callers without a request in flight and with a full bucket are forgotten beyond this many.
_KEPT_CALLERS: Final = 4096


@dataclass(slots=True)
class _Account:
    tokens: float
    seen_s: float
    in_flight: int = 0


class Lease:
    """A place among a caller's requests in flight; release it once, or more often."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back

    def release(self) -> None:
        """The request is over."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


class Quotas:
    """Requests in flight and a token bucket per caller. For one event loop; keeps no clock."""

    def __init__(self, bounds: Bounds, clock: Callable[[], float]) -> None:
        self._bounds = bounds
        self._clock = clock
        self._accounts: dict[str, _Account] = {}

    @property
    def in_flight(self) -> int:
        """Requests of all callers."""
        return sum(account.in_flight for account in self._accounts.values())

    def enter(self, caller: str) -> Lease:
        """Take a place.

        Raises:
            Problem: 429 with Retry-After.
        """
        account = self._account(caller)
        limit = self._bounds.in_flight
        if account.in_flight >= limit:
            raise busy(
                f"{account.in_flight} requests of yours are in flight, as many as are allowed; "
                f"wait for one of them to end",
                retry_after_s=1.0,
            )
        per_minute = self._bounds.requests_per_minute
        if per_minute:
            if account.tokens < 1:
                wait_s = (1 - account.tokens) * _MINUTE_S / per_minute
                raise busy(
                    f"{per_minute} requests a minute are allowed; the next one in {wait_s:.1f} s",
                    retry_after_s=wait_s,
                )
            account.tokens -= 1
        account.in_flight += 1

        def give_back() -> None:
            account.in_flight -= 1

        return Lease(give_back)

    def _account(self, caller: str) -> _Account:
        now = self._clock()
        per_minute = float(self._bounds.requests_per_minute)
        account = self._accounts.get(caller)
        if account is None:
            if len(self._accounts) >= _KEPT_CALLERS:
                self._forget_idle(now)
            account = self._accounts[caller] = _Account(tokens=per_minute, seen_s=now)
        refill = (now - account.seen_s) * per_minute / _MINUTE_S
        account.tokens = min(per_minute, account.tokens + refill)
        account.seen_s = now
        return account

    def _forget_idle(self, now: float) -> None:
        self._accounts = {
            caller: account
            for caller, account in self._accounts.items()
            if account.in_flight or now - account.seen_s < _MINUTE_S
        }
