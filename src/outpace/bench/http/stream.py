"""What a request says and a stream answers, in OpenAI's words: no connection, only documents."""

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from outpace.bench.client import Answer, Speculation
from outpace.core.sampling import Sampling
from outpace.errors import RequestError

_SHOWN_CHARS: Final = 300
_METRIC: Final = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{[^}]*\})? (\S+)")


def fields_of(sampling: Sampling) -> dict[str, Any]:
    """A request's fields; those beyond OpenAI's own only where they say something.

    Raises:
        RequestError: an option that no such API has.
    """
    if sampling.banned or sampling.forced or sampling.rule:
        raise RequestError("banned, forced and rule cannot be asked of an endpoint; leave them out")
    neutral = Sampling()
    found: dict[str, Any] = {"temperature": sampling.temperature}
    if sampling.max_tokens is not None:
        found["max_tokens"] = sampling.max_tokens
    for name in (
        "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
        "min_tokens", "ignore_eos", "seed",
    ):  # fmt: skip
        if getattr(sampling, name) != getattr(neutral, name):
            found[name] = getattr(sampling, name)
    if sampling.stop:
        found["stop"] = list(sampling.stop)
    if sampling.stop_token_ids:
        found["stop_token_ids"] = sorted(sampling.stop_token_ids)
    if sampling.logit_bias:
        found["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias.items()}
    if sampling.logprobs is not None:
        found |= {"logprobs": True, "top_logprobs": sampling.logprobs}
    return found


def scraped(text: str) -> dict[str, float]:
    """Prometheus' text format as metric -> value, summed over labels (engines report one each)."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if match := _METRIC.match(line):
            try:
                found[match[1]] = found.get(match[1], 0.0) + float(match[2])
            except ValueError:
                continue
    return found


def events(response: httpx.Response) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """The documents of a stream of server-sent events, each with the time it was read.

    By bytes: a reader of text lines would also break at line breaks inside of a document.
    """
    rest = b""
    for data in response.iter_bytes():
        now_s = time.perf_counter()
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            text = line.removeprefix(b"data:").strip()
            if text == b"[DONE]":
                return
            if line.startswith(b"data:") and text:
                document = json.loads(text)
                if isinstance(document, dict):
                    yield now_s, document


@dataclass(slots=True)
class Heard:
    """A stream, as far as it was heard."""

    text: list[str] = field(default_factory=list)
    chunks_s: list[float] = field(default_factory=list)
    chunk_tokens: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    reported: dict[str, Any] = field(default_factory=dict)

    def add(self, event: Mapping[str, Any], now_s: float) -> None:
        """One event of the stream.

        Raises:
            RequestError: it is an error.
        """
        if event.get("error"):
            error = event["error"]
            raise RequestError(
                str(error.get("message", error) if isinstance(error, dict) else error)
            )
        self.usage = event.get("usage") or self.usage
        for name in ("metrics", "timings", "system_fingerprint"):
            if event.get(name) is not None:
                self.reported[name] = event[name]
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            words = [delta.get(k) or "" for k in ("reasoning_content", "reasoning", "content")]
            ids = choice.get("token_ids") or []
            logprobs = (choice.get("logprobs") or {}).get("content") or []
            if any(words) or ids or delta.get("tool_calls"):
                self.chunks_s.append(now_s)
                self.chunk_tokens.append(len(ids) or len(logprobs))
            self.text.append(words[-1])
            self.tokens += ids
            self.logprobs += [float(entry["logprob"]) for entry in logprobs]
            self.finish = choice.get("finish_reason") or self.finish

    def answer(self, sent_s: float, ended_s: float) -> Answer:
        """What came of it."""
        said = self.usage.get("completion_tokens")
        n = said if isinstance(said, int) else len(self.tokens) or len(self.chunks_s)
        text = "".join(self.text)
        whole = len(self.tokens) == n > 0
        chunks_s, chunk_tokens = _parts(self.chunks_s, self.chunk_tokens, n)
        return Answer(
            sent_s=sent_s,
            ended_s=ended_s,
            finish=self.finish or "abort",
            error=None if self.finish else "the stream ended without a finish_reason",
            prompt_tokens=int(self.usage.get("prompt_tokens") or 0),
            completion_tokens=n,
            chunks_s=chunks_s,
            chunk_tokens=chunk_tokens,
            speculation=speculation_of(self.reported, n),
            digest=hashlib.sha256((repr(self.tokens) if whole else text).encode()).hexdigest()[:16],
            text=text,
            tokens=tuple(self.tokens) if whole else None,
            logprobs=tuple(self.logprobs) if len(self.logprobs) == n > 0 else None,
            counted_by="server" if isinstance(said, int) else "client",
            reported=self.reported,
        )


def _parts(
    chunks_s: Seq[float], known: Seq[int], n: int
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """When parts came, and their tokens: as the server said, or evenly where it told the sum only.

    Where parts are more than tokens, the last of them count.
    """
    if sum(known) == n and all(known):
        return tuple(chunks_s), tuple(known)
    k = len(chunks_s)
    if 0 < n < k:
        chunks_s, k = [*chunks_s[:1], *chunks_s[k - n + 1 :]], n
    if not n or not k:
        return (), ()
    return tuple(chunks_s), tuple(n // k + (i < n % k) for i in range(k))


def speculation_of(reported: Mapping[str, Any], n_tokens: int) -> Speculation | None:
    """What a response says of its guesses under `metrics`; None = nothing.

    A pass gives one token of the target's own besides the guesses that were kept, so passes follow
    from the answer's length where only those with guesses are counted.
    """
    metrics = reported.get("metrics") or {}
    said = metrics.get("speculative_decoding") if isinstance(metrics, Mapping) else None
    if not isinstance(said, Mapping):
        return None
    kept, drafted = int(said["num_accepted_draft_tokens"]), int(said["num_draft_tokens"])
    lengths = _lengths(said, drafted)
    n_told = sum(n for _, _, n in lengths)
    rounds = max(n_tokens - kept, n_told, 1 if n_tokens else 0)
    if lengths and rounds > n_told:
        lengths = [(0, 0, rounds - n_told), *lengths]
    return Speculation(rounds=rounds, drafted=drafted, kept=kept, lengths=tuple(lengths))


def _lengths(said: Mapping[str, Any], drafted: int) -> list[tuple[int, int, int]]:
    """Rounds by length and kept; a histogram that mixes lengths tells nothing of positions."""
    by_length = said.get("acceptance_histogram_by_draft_length")
    if by_length is None:
        deepest, steps = int(said.get("num_spec_tokens") or 0), int(said.get("num_spec_steps") or 0)
        if deepest * steps != drafted:
            return []
        by_length = {str(deepest): said.get("acceptance_histogram") or []}
    return [
        (int(length), n_kept, n)
        for length, histogram in by_length.items()
        for n_kept, n in enumerate(histogram)
        if n
    ]


def refusal(response: httpx.Response) -> str:
    """What a response says went wrong."""
    try:
        found = response.json()
        error = found.get("error", found)
        said = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        said = response.text
    return str(said)[:_SHOWN_CHARS]
