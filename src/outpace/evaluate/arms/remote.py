"""A server someone runs: any OpenAI-compatible endpoint, asked as `bench --base-url` asks it.

Beside its answers an adapter reads its counters, and a few questions go to the server itself: how
it cuts a text, and what version it is. What a server does not say is None.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

import httpx

from outpace.bench.client import Answer, Messages
from outpace.bench.http import OverHttp, scraped
from outpace.core.sampling import Sampling
from outpace.errors import ConfigError
from outpace.evaluate.arms.adapters import (
    ADAPTERS,
    Adapter,
    counted,
    recognised,
    timed_guesses,
)
from outpace.evaluate.arms.arm import Asked, Usage
from outpace.evaluate.plan.arms import EndpointArm

_PROBE_TIMEOUT_S = 10.0


class RemoteArm:
    """An endpoint arm, its adapter found out. key: sent as the bearer token.

    Raises:
        ConfigError: nobody answers, the key is wrong, or there is no such model.
    """

    local = False

    def __init__(self, name: str, arm: EndpointArm, *, key: str | None = None) -> None:
        self.name, self.arm = name, arm
        try:
            self.client = OverHttp(
                arm.endpoint, model=arm.model, api_key=key, body=arm.body, timeout_s=arm.timeout_s
            )
        except ConfigError as error:
            hint = f" (the key is in {arm.api_key_env})" if arm.api_key_env else ""
            raise ConfigError(f"arm {name}: {error}{hint}") from None
        self.root = self.client.url
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(
            base_url=self.root, headers=headers, timeout=arm.timeout_s, trust_env=False
        )
        self.adapter = self._adapter()
        self.goes_on = self.adapter.name != "none"  # every engine with an adapter reads ignore_eos
        said = self.client.version()
        self.facts: Mapping[str, str] = {
            "adapter": self.adapter.name, "model": self.client.model,
            **({"version": said} if said else {}),
        }  # fmt: skip

    def ask(self, messages: Messages, sampling: Sampling, *, want_text: bool = False) -> Answer:
        answer = self.client.ask(messages, sampling, want_text=want_text)
        if answer.speculation is None and "timings" in answer.reported:
            guesses = timed_guesses(answer.reported, answer.completion_tokens)
            return replace(answer, speculation=guesses)
        return answer

    def counters(self) -> Mapping[str, float] | None:
        if self.adapter.name == "none":
            return None
        return counted(self.adapter, self._metrics() or {})

    def usage(self) -> Usage:
        return Usage()

    def fresh(self) -> None:
        """Nothing: what a server that is not ours remembers is not in our power."""

    def settle(self, coming: Seq[Asked]) -> None:
        """Nothing, as `fresh`."""

    def close(self) -> None:
        """Close its connections."""
        self.client.close()
        self.http.close()

    def tokenize(self, messages: Messages) -> list[int] | None:
        """The ids of a conversation, where the server tells them."""
        body = {"model": self.client.model, "messages": [dict(m) for m in messages]}
        try:
            reply = self.http.post("/tokenize", json=body, timeout=_PROBE_TIMEOUT_S)
            if reply.status_code == httpx.codes.OK:
                return [int(token) for token in reply.json()["tokens"]]
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            pass  # it has no such route, or another one of that name
        return None

    def _adapter(self) -> Adapter:
        if self.arm.adapter != "auto":
            return ADAPTERS[self.arm.adapter]
        return recognised(self._metrics() or {})

    def _metrics(self) -> dict[str, float] | None:
        url = self.arm.metrics_url or f"{self.root}/metrics"
        try:
            reply = self.http.get(url, timeout=_PROBE_TIMEOUT_S)
        except httpx.HTTPError:
            return None
        return scraped(reply.text) if reply.status_code == httpx.codes.OK else None
