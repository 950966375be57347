"""A server someone runs: any OpenAI-compatible endpoint, over its streamed chat completions.

Times are the client's: a part is there when its event was read. Tokens are counted by the
server's usage, never by cutting the text again; what a server does not say is None.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any

import httpx

from outpace.bench.client import Answer, Messages, failed
from outpace.core.sampling import Sampling
from outpace.errors import ConfigError, RequestError
from outpace.evaluate.arms.adapters import (
    ADAPTERS,
    Adapter,
    counted,
    recognised,
    scraped,
    speculation_of,
)
from outpace.evaluate.arms.arm import Asked, Usage
from outpace.evaluate.plan.arms import EndpointArm

_PROBE_TIMEOUT_S = 10.0
_SHOWN_CHARS = 300
_REPORTED = ("metrics", "timings", "usage", "system_fingerprint")


class RemoteArm:
    """An endpoint arm, its adapter found out.

    key: sent as the bearer token.

    Raises:
        ConfigError: nobody answers, the key is wrong, or there is no such model.
    """

    local = False

    def __init__(self, name: str, arm: EndpointArm, *, key: str | None = None) -> None:
        self.name, self.arm = name, arm
        self.root = arm.endpoint.rstrip("/").removesuffix("/v1")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=512, max_keepalive_connections=64)
        self.http = httpx.Client(
            base_url=self.root,
            headers=headers,
            timeout=arm.timeout_s,
            limits=limits,
            trust_env=False,
        )
        try:
            self._check_model()
            self.adapter = self._adapter()
        except BaseException:
            self.http.close()
            raise
        self.facts: Mapping[str, str] = self._facts()

    def ask(self, messages: Messages, sampling: Sampling, *, want_text: bool = False) -> Answer:  # noqa: ARG002 - texts are always kept
        body = self.body(messages, sampling)
        sent_s = time.perf_counter()
        heard = _Heard()
        try:
            with self.http.stream("POST", "/v1/chat/completions", json=body) as response:
                if response.status_code != httpx.codes.OK:
                    response.read()
                    return failed(sent_s, RequestError(refusal(response)))
                for event in events(response):
                    heard.add(event, time.perf_counter())
        except (httpx.HTTPError, RequestError, ValueError) as error:
            return failed(sent_s, RequestError(f"{type(error).__name__}: {error}"))
        return heard.answer(sent_s, time.perf_counter())

    def body(self, messages: Messages, sampling: Sampling) -> dict[str, Any]:
        """The request; fields beyond OpenAI's own are sent only where they say something."""
        found: dict[str, Any] = {
            "model": self.arm.model,
            "messages": [dict(message) for message in messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
        }
        more: dict[str, Any] = {
            "top_p": sampling.top_p if sampling.top_p < 1 else None,
            "top_k": sampling.top_k or None,
            "min_p": sampling.min_p or None,
            "ignore_eos": sampling.ignore_eos or None,
            "seed": sampling.seed,
            "logprobs": True if sampling.logprobs is not None else None,
            "top_logprobs": sampling.logprobs or None,
            "return_token_ids": self.adapter.ids or None,
        }
        return {**found, **{k: v for k, v in more.items() if v is not None}, **self.arm.body}

    def counters(self) -> Mapping[str, float] | None:
        if self.adapter.name == "none":
            return None
        try:
            return counted(self.adapter, self._metrics() or {})
        except httpx.HTTPError:
            return None

    def usage(self) -> Usage:
        return Usage()

    def fresh(self) -> None:
        """Nothing: what a server that is not ours remembers is not in our power."""

    def settle(self, coming: Seq[Asked]) -> None:
        """Nothing, as `fresh`."""

    def close(self) -> None:
        """Close its connections."""
        self.http.close()

    def tokenize(self, messages: Messages) -> list[int] | None:
        """The ids of a conversation, where the server tells them."""
        for body in ({"model": self.arm.model, "messages": [dict(m) for m in messages]},):
            try:
                reply = self.http.post("/tokenize", json=body, timeout=_PROBE_TIMEOUT_S)
                if reply.status_code == httpx.codes.OK:
                    return [int(token) for token in reply.json()["tokens"]]
            except (httpx.HTTPError, ValueError, KeyError, TypeError):
                continue
        return None

    def _check_model(self) -> None:
        where = f"arm {self.name}: {self.root}"
        try:
            reply = self.http.get("/v1/models", timeout=_PROBE_TIMEOUT_S)
        except httpx.HTTPError as error:
            raise ConfigError(
                f"{where} does not answer ({type(error).__name__}: {error}); start the server, or "
                "correct the endpoint"
            ) from None
        if reply.status_code in (401, 403):
            raise ConfigError(
                f"{where} refuses the key ({reply.status_code}: {refusal(reply)}); put the right "
                f"one into the variable {self.arm.api_key_env or 'that api_key_env names'}"
            )
        names = _models(reply)
        if names is not None and self.arm.model not in names:
            raise ConfigError(
                f"{where} has no model {self.arm.model!r}; it lists {', '.join(names) or 'none'}"
            )
        if names is None and reply.status_code != 404:
            raise ConfigError(f"{where}/v1/models gave {reply.status_code}: {refusal(reply)}")

    def _adapter(self) -> Adapter:
        if self.arm.adapter != "auto":
            return ADAPTERS[self.arm.adapter]
        try:
            return recognised(self._metrics() or {})
        except httpx.HTTPError:
            return ADAPTERS["none"]

    def _metrics(self) -> dict[str, float] | None:
        url = self.arm.metrics_url or f"{self.root}/metrics"
        reply = self.http.get(url, timeout=_PROBE_TIMEOUT_S)
        return scraped(reply.text) if reply.status_code == httpx.codes.OK else None

    def _facts(self) -> dict[str, str]:
        found = {"adapter": self.adapter.name, "model": self.arm.model}
        try:
            reply = self.http.get("/version", timeout=_PROBE_TIMEOUT_S)
            if reply.status_code == httpx.codes.OK:
                found["version"] = str(reply.json().get("version"))
        except (httpx.HTTPError, ValueError, AttributeError):
            pass
        return found


@dataclass(slots=True)
class _Heard:
    """A stream, as far as it was heard."""

    text: list[str] = field(default_factory=list)
    chunks_s: list[float] = field(default_factory=list)
    chunk_tokens: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: str | None = None
    usage: Mapping[str, Any] | None = None
    last: dict[str, Any] = field(default_factory=dict)

    def add(self, event: dict[str, Any], now_s: float) -> None:
        """One event of the stream."""
        if isinstance(event.get("error"), dict):
            raise RequestError(str(event["error"].get("message", event["error"])))
        self.usage = event.get("usage") or self.usage
        self.last.update({k: event[k] for k in _REPORTED if event.get(k) is not None})
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            content = delta.get("content") or ""
            thought = delta.get("reasoning_content") or delta.get("reasoning") or ""
            ids = choice.get("token_ids") or []
            reports = (choice.get("logprobs") or {}).get("content") or []
            if content or thought or ids or delta.get("tool_calls"):
                self.chunks_s.append(now_s)
                self.chunk_tokens.append(len(ids) or len(reports))
            self.text.append(content)
            self.tokens += ids
            self.logprobs += [float(report["logprob"]) for report in reports]
            self.finish = choice.get("finish_reason") or self.finish

    def answer(self, sent_s: float, ended_s: float) -> Answer:
        """What came of it."""
        usage = self.usage or {}
        said = usage.get("completion_tokens")
        n = int(said) if isinstance(said, int) else len(self.tokens) or len(self.chunks_s)
        text = "".join(self.text)
        whole = len(self.tokens) == n
        n_logs = len(self.logprobs)
        return Answer(
            sent_s=sent_s,
            ended_s=ended_s,
            finish=self.finish or "abort",
            error=None if self.finish else "the stream ended without a reason",
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            completion_tokens=n,
            chunks_s=tuple(self.chunks_s),
            chunk_tokens=_shared_out(self.chunk_tokens, n),
            speculation=speculation_of(self.last, n),
            digest=hashlib.sha256(text.encode()).hexdigest()[:16],
            text=text,
            tokens=tuple(self.tokens) if whole and self.tokens else None,
            logprobs=tuple(self.logprobs) if n_logs == n and n else None,
            counted_by="server" if isinstance(said, int) else "client",
            reported=self.last,
        )


def _shared_out(known: Seq[int], n: int) -> tuple[int, ...]:
    """Tokens per part: as the server said, or evenly where it said only how many in all."""
    if sum(known) == n or not known:
        return tuple(known)
    k = len(known)
    return tuple(n // k + (i < n % k) for i in range(k))


def events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """The JSON documents of a stream of server-sent events, up to its end mark."""
    for line in response.iter_lines():
        if line.startswith("data:"):
            data = line.removeprefix("data:").strip()
            if data == "[DONE]":
                return
            document = json.loads(data)
            if isinstance(document, dict):
                yield document


def refusal(response: httpx.Response) -> str:
    """What a response says went wrong."""
    try:
        found = response.json()
        error = found.get("error", found)
        said = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        said = response.text
    return str(said)[:_SHOWN_CHARS]


def _models(reply: httpx.Response) -> list[str] | None:
    """Names that /v1/models lists; None where it lists nothing readable."""
    if reply.status_code != httpx.codes.OK:
        return None
    try:
        return [str(model["id"]) for model in reply.json()["data"]]
    except (ValueError, KeyError, TypeError):
        return None
