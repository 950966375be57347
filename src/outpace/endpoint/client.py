"""A small client that remembers what it sent, for endpoints that may answer anything."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from outpace.endpoint.verdict import Failed, Unsupported
from outpace.errors import ConfigError

# Something a drafter that copies will guess, whatever the model.
PROMPT = (
    "one two three four five six seven eight one two three four five six seven eight "
    "one two three four five six seven eight one two three"
)
_SHOWN_CHARS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response: its JSON, or None where it was none."""

    status: int
    document: Any
    text: str

    @property
    def error(self) -> str:
        """What it says went wrong."""
        found = self.document.get("error") if isinstance(self.document, dict) else None
        message = found.get("message") if isinstance(found, dict) else None
        return str(message or self.text)[:_SHOWN_CHARS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One completion. token_ids, logprobs: None where they were not asked or not given."""

    text: str
    finish: str | None
    n_tokens: int
    n_prompt: int
    token_ids: list[int] | None
    logprobs: list[float] | None
    metrics: dict[str, Any] | None
    raw: dict[str, Any]

    @property
    def ids(self) -> list[int]:
        """The token ids; a check that reads them is unsupported without."""
        if self.token_ids is None:
            raise Unsupported("the endpoint gives no token ids (return_token_ids)")
        return self.token_ids


class Endpoint:
    """An endpoint under trial. url: with or without /v1. baseline: the same model without
    speculation, to compare with."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        baseline: "Endpoint | None" = None,
        timeout_s: float = 120.0,
    ) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self.baseline = baseline
        self.sent: list[str] = []
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s)
        self._card: dict[str, Any] | None = None

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    @property
    def model(self) -> str:
        """The first model it lists.

        Raises:
            ConfigError: it lists none, or nobody answers.
        """
        return str(self.card["id"])

    @property
    def card(self) -> dict[str, Any]:
        """What it says of that model."""
        if self._card is None:
            reply = self.get("/v1/models")
            models = reply.document.get("data") if isinstance(reply.document, dict) else None
            if reply.status != 200 or not models:
                raise ConfigError(f"{self.url}/v1/models gave {reply.status}: {reply.error}")
            self._card = dict(models[0])
        return self._card

    @property
    def context_tokens(self) -> int:
        """Its longest text; checks that need it are unsupported where it does not say."""
        found = self.card.get("max_model_len")
        if not isinstance(found, int):
            raise Unsupported("/v1/models does not say max_model_len")
        return found

    def get(self, path: str) -> Reply:
        """Any GET."""
        self._remember("GET", path, None)
        return _reply(self._call("GET", path))

    def post(self, path: str, body: Any) -> Reply:
        """Any POST of JSON; text is sent as it is."""
        self._remember("POST", path, body)
        content = body if isinstance(body, str | bytes) else json.dumps(body)
        return _reply(self._call("POST", path, content=content))

    def complete(self, prompt: Any = PROMPT, **fields: Any) -> Answer:
        """A plain completion, greedy unless said otherwise.

        Raises:
            Unsupported: it was refused. Failed: it broke.
        """
        return self.completions(prompt, **fields)[0]

    def completions(self, prompt: Any = PROMPT, **fields: Any) -> list[Answer]:
        """All choices of one request."""
        body = {"model": self.model, "prompt": prompt, "temperature": 0, "max_tokens": 32, **fields}
        reply = self.post("/v1/completions", body)
        return [answer_of(reply.document, choice) for choice in self.choices(reply)]

    def choices(self, reply: Reply) -> list[dict[str, Any]]:
        """The choices of a reply that should have some."""
        if reply.status in (400, 404, 422, 501):
            raise Unsupported(f"refused with {reply.status}: {reply.error}")
        if reply.status != 200:
            raise Failed(f"status {reply.status}: {reply.error}")
        found = reply.document.get("choices") if isinstance(reply.document, dict) else None
        if not found:
            raise Failed(f"no choices in {reply.text[:_SHOWN_CHARS]}")
        return sorted(found, key=lambda choice: int(choice.get("index", 0)))

    @contextmanager
    def stream(self, path: str, **fields: Any) -> Iterator[Iterator[dict[str, Any]]]:
        """The documents of a stream as they come; the end mark is checked when it is reached.

        Raises:
            Unsupported, Failed: as `choices`.
        """
        body = {"model": self.model, "temperature": 0, "max_tokens": 32, "stream": True, **fields}
        self._remember("POST", path, body)
        try:
            with self._http.stream("POST", path, json=body) as response:
                if response.status_code != 200:
                    response.read()
                    self.choices(_reply(response))
                yield _events(response)
        except httpx.TransportError as error:
            raise self._silent(path, error) from error

    def without_guesses(self) -> dict[str, Any]:
        """Fields that switch speculation off for one request, where the endpoint knows them.

        Raises:
            Unsupported: it does not, or ignores what it does not know.
        """
        body = {"model": self.model, "prompt": "a", "max_tokens": 1, "speculation": "no such mode"}
        if self.post("/v1/completions", body).status == 200:
            raise Unsupported("the endpoint has no field to switch speculation off")
        self.complete("a", max_tokens=1, speculation="off")
        return {"speculation": "off"}

    def streamed(self, path: str, **fields: Any) -> list[dict[str, Any]]:
        """All documents of a stream."""
        with self.stream(path, **fields) as events:
            return list(events)

    def _call(self, method: str, path: str, content: str | bytes | None = None) -> httpx.Response:
        headers = {"Content-Type": "application/json"} if content is not None else {}
        try:
            return self._http.request(method, path, content=content, headers=headers)
        except httpx.TransportError as error:
            raise self._silent(path, error) from error

    def _silent(self, path: str, error: httpx.TransportError) -> ConfigError:
        return ConfigError(
            f"{self.url}{path} does not answer ({type(error).__name__}: {error}); is the server "
            "running?"
        )

    def _remember(self, method: str, path: str, body: Any) -> None:
        text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
        self.sent.append(f"{method} {path} {text}"[:_SHOWN_CHARS].strip())


def answer_of(document: dict[str, Any], choice: dict[str, Any]) -> Answer:
    """A choice of a plain completion."""
    usage = document.get("usage") or {}
    logprobs = choice.get("logprobs") or {}
    return Answer(
        text=choice.get("text") or "",
        finish=choice.get("finish_reason"),
        n_tokens=int(usage.get("completion_tokens", -1)),
        n_prompt=int(usage.get("prompt_tokens", -1)),
        token_ids=choice.get("token_ids"),
        logprobs=logprobs.get("token_logprobs"),
        metrics=document.get("metrics"),
        raw=choice,
    )


def _reply(response: httpx.Response) -> Reply:
    text = response.text
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    return Reply(status=response.status_code, document=document, text=text)


def _events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    done = False
    for line in response.iter_lines():
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            done = True
            continue
        if done:
            raise Failed("events after [DONE]")
        yield json.loads(data)
    if not done:
        raise Failed("the stream ended without [DONE]")
