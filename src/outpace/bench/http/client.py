"""Asking an OpenAI-compatible endpoint: streamed chat completions, timed where they arrive.

Tokens are counted by the server (its usage, and its ids per part where it sends them), never by
cutting the text again. What was guessed is taken from the response's own words
(`metrics.speculative_decoding`, as outpace and vLLM say it), or from the difference of `/metrics`
over a block; where neither is told it is absent.

A request is sent again only where that is safe: no connection was made, or the server said that it
took none (429 or 503 with Retry-After). The time that took counts.
"""

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

import httpx

from outpace.bench.client import Answer, Messages, failed
from outpace.bench.http.stream import Heard, events, fields_of, refusal, scraped
from outpace.core.sampling import Sampling
from outpace.errors import ConfigError, RequestError

_PATH: Final = "/v1/chat/completions"
_PROBE_S: Final = 60.0
_SHOWN_CHARS: Final = 300
_TRIES: Final = 6
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 30.0
# Extensions that tell more, the most first; an endpoint that refuses one is asked without it.
_EXTENSIONS: Final[tuple[Mapping[str, Any], ...]] = (
    {"return_token_ids": True, "speculation_metrics": "detailed"},
    {"return_token_ids": True},
    {},
)
_COUNTERS: Final = {
    "tokens": "vllm:generation_tokens_total",
    "drafted": "vllm:spec_decode_num_draft_tokens_total",
    "kept": "vllm:spec_decode_num_accepted_tokens_total",
}


class OverHttp:
    """A `Client` of an endpoint; safe to ask from many threads.

    url: with or without /v1. model: None = the first that is listed. api_key: sent as the bearer
    token. body: fields added to every request. Close it at the end.

    Raises:
        ConfigError: nobody answers, there is no such model, or it refuses a small request.
    """

    def __init__(
        self, url: str, *, model: str | None = None, api_key: str | None = None,
        body: Mapping[str, Any] | None = None, timeout_s: float = 600.0,
    ) -> None:  # fmt: skip
        self.url = url.rstrip("/").removesuffix("/v1")
        self.body = dict(body or {})
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
        )
        try:
            self.model = self._model(model)
            self.extensions, self.told = self._probe()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close its connections; answers under way end with an error."""
        self._http.close()

    def ask(self, messages: Messages, sampling: Sampling, *, want_text: bool = False) -> Answer:  # noqa: ARG002 - the text is there anyway
        sent_s = time.perf_counter()
        try:
            body = {"messages": [dict(m) for m in messages], **fields_of(sampling)}
            return self._answer({**body, **self.extensions}, sent_s)
        except (httpx.HTTPError, RequestError, ValueError, RuntimeError) as error:
            return failed(sent_s, RequestError(f"{type(error).__name__}: {error}"))

    def counted(self) -> Mapping[str, float] | None:
        """Tokens and guesses of everybody so far, by /metrics under vLLM's names."""
        try:
            reply = self._http.get("/metrics", timeout=_PROBE_S)
        except httpx.HTTPError:
            return None
        found = scraped(reply.text) if reply.status_code == httpx.codes.OK else {}
        return {ours: found[its] for ours, its in _COUNTERS.items() if its in found} or None

    def version(self) -> str | None:
        """What it says of its version."""
        try:
            return str(self._http.get("/version", timeout=_PROBE_S).json()["version"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return None

    def knows(self, name: str) -> bool:
        """Whether a field beyond OpenAI's is read: a value that makes no sense is refused."""
        body = {"messages": _hello(), "max_tokens": 1, name: f"no such {name}"}
        with closing(self._open(body)) as response:
            return response.status_code != httpx.codes.OK

    def _answer(self, body: Mapping[str, Any], sent_s: float) -> Answer:
        with closing(self._open(body)) as response:
            if response.status_code != httpx.codes.OK:
                response.read()
                raise RequestError(f"status {response.status_code}: {refusal(response)}")
            heard = Heard()
            for now_s, event in events(response):
                heard.add(event, now_s)
        return heard.answer(sent_s, time.perf_counter())

    def _open(self, body: Mapping[str, Any]) -> httpx.Response:
        """A response whose head is there, after as many tries as are safe."""
        document = {
            "model": self.model, "stream": True, "stream_options": {"include_usage": True},
            **body, **self.body,
        }  # fmt: skip
        pause_s = _FIRST_PAUSE_S
        for left in reversed(range(_TRIES)):
            request = self._http.build_request("POST", _PATH, json=document)
            try:
                response = self._http.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if not left:
                    raise
            else:
                told_s = _retry_after_s(response)
                if not left or told_s is None:
                    return response
                response.close()
                pause_s = max(pause_s, told_s)
            time.sleep(min(pause_s, _LONGEST_PAUSE_S))
            pause_s *= 2
        raise AssertionError("the last try returns or raises")

    def _model(self, wanted: str | None) -> str:
        try:
            reply = self._http.get("/v1/models", timeout=_PROBE_S)
        except httpx.HTTPError as error:
            raise ConfigError(
                f"{self.url} does not answer ({type(error).__name__}: {error}); start the server, "
                f"or correct the URL"
            ) from None
        if reply.status_code in (401, 403):
            raise ConfigError(f"{self.url} refuses the key ({reply.status_code}): {refusal(reply)}")
        try:
            names = [str(model["id"]) for model in reply.json()["data"]]
        except (ValueError, KeyError, TypeError):
            names = []
        if wanted is None and not names:
            raise ConfigError(f"{self.url}/v1/models lists no model; name one with --model")
        if wanted is not None and names and wanted not in names:
            raise ConfigError(f"{self.url} has no model {wanted!r}; it lists {', '.join(names)}")
        return wanted or names[0]

    def _probe(self) -> tuple[Mapping[str, Any], Answer]:
        """The extensions it takes, and a small answer with them."""
        problem = ""
        for extensions in _EXTENSIONS:
            body = {"messages": _hello(), "max_tokens": 4, "temperature": 0, **extensions}
            try:
                return extensions, self._answer(body, time.perf_counter())
            except (httpx.HTTPError, RequestError, ValueError) as error:
                problem = str(error)
        raise ConfigError(f"{self.url}{_PATH} refuses a small request: {problem}")


def _hello() -> list[dict[str, str]]:
    return [{"role": "user", "content": "Hello"}]


def _retry_after_s(response: httpx.Response) -> float | None:
    """When a request that was not taken may come again; None = it was taken, or never may."""
    if response.status_code not in (429, 503):
        return None
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None
