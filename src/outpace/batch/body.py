"""One request of a batch: an OpenAI body into prompts and a `Sampling`, or a named refusal.

Every field is honoured or refused; none is ignored, except those that say nothing about the text
(`user`, `metadata`, `store`, `model`: a batch runs on the model it was started with). Beyond
OpenAI's fields a body may have every field of `Sampling` and `speculation`.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Literal

from outpace.control.limits import Limits, parse_speculation
from outpace.core.sampling import Sampling
from outpace.errors import RequestError

Kind = Literal["chat", "text"]
URLS: dict[str, Kind] = {"/v1/chat/completions": "chat", "/v1/completions": "text"}
MAX_CHOICES = 64
# Fields of `Sampling` that a body has under their own name and in their own shape.
_SAME = (
    "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty", "min_tokens", "max_tokens", "ignore_eos", "seed", "rule",
    "prompt_logprobs",
)  # fmt: skip
_RESHAPED = (
    "logit_bias", "banned", "forced", "stop", "stop_token_ids", "logprobs", "n", "speculation",
)  # fmt: skip
_SILENT = ("model", "user", "metadata", "store")
_OF_KIND: dict[Kind, tuple[str, ...]] = {
    "chat": ("messages", "max_completion_tokens", "top_logprobs"),
    "text": ("prompt",),
}
# Fields that have one value here; a client that writes it out is not wrong.
_ONLY: dict[str, tuple[object, ...]] = {
    "stream": (False, None), "stream_options": (None,), "response_format": (None, {"type": "text"}),
    "echo": (False, None), "suffix": (None,), "best_of": (1, None), "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
}  # fmt: skip
_TEXT_TOKENS = 16  # what OpenAI's completions do without max_tokens
_NUMBERS = (
    "temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
)  # fmt: skip

Prompt = str | Seq[int] | Seq[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a body asks: each prompt, n times over, and how. `limits` None = the control's."""

    kind: Kind
    prompts: tuple[Prompt, ...]
    n: int
    sampling: Sampling
    limits: Limits | None

    def sampling_of(self, choice: int) -> Sampling:
        """Choices of one seed must differ: the i-th adds i to it."""
        if self.sampling.seed is None or choice == 0:
            return self.sampling
        from dataclasses import replace

        return replace(self.sampling, seed=(self.sampling.seed + choice) % 2**64)


def read_body(body: object, kind: Kind) -> Job:
    """A body as a job.

    Raises:
        RequestError: a field that is unknown, or whose value is not allowed; it is named.
    """
    if not isinstance(body, dict):
        raise RequestError(f"body is {_short(body)}; allowed: an object")
    known = {*_SAME, *_RESHAPED, *_SILENT, *_ONLY, *_OF_KIND[kind]}
    unknown = sorted(set(map(str, body)) - known)
    if unknown:
        raise RequestError(
            f"unknown fields {', '.join(unknown)}; allowed: {', '.join(sorted(known))}"
        )
    for name, values in _ONLY.items():
        if name in body and body[name] not in values:
            raise RequestError(f"{name} is {_short(body[name])}; in a batch only {values[0]!r}")
    n = body.get("n", 1)
    if not _is_count(n) or not 1 <= n <= MAX_CHOICES:
        raise RequestError(f"n is {_short(n)}; allowed: 1 to {MAX_CHOICES}")
    prompts = (_messages(body),) if kind == "chat" else _prompts(body)
    speculation = body.get("speculation", "auto")
    if not isinstance(speculation, str):
        raise RequestError(f"speculation is {_short(speculation)}; allowed: a text")
    return Job(
        kind=kind,
        prompts=prompts,
        n=n,
        sampling=_sampling(body, kind),
        limits=parse_speculation(speculation),
    )


def _sampling(body: Mapping[str, Any], kind: Kind) -> Sampling:
    given = {name: body[name] for name in _SAME if body.get(name) is not None}
    for name in _NUMBERS:
        value = given.get(name, 0.0)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise RequestError(f"{name} is {_short(value)}; allowed: a number")
    if not isinstance(given.get("ignore_eos", False), bool):
        raise RequestError(f"ignore_eos is {_short(given['ignore_eos'])}; allowed: true or false")
    given.setdefault("temperature", 1.0)  # OpenAI's, not ours
    most = body.get("max_completion_tokens")
    if most is not None:
        if given.get("max_tokens", most) != most:
            raise RequestError("max_tokens and max_completion_tokens differ; give one")
        given["max_tokens"] = most
    if kind == "text":
        given.setdefault("max_tokens", _TEXT_TOKENS)
    stop = body.get("stop")
    given["stop"] = (stop,) if isinstance(stop, str) else tuple(_list(stop, "stop"))
    given["stop_token_ids"] = frozenset(_ids(body.get("stop_token_ids"), "stop_token_ids"))
    given["forced"] = tuple(_ids(body.get("forced"), "forced"))
    given["banned"] = tuple(
        tuple(_ids(ids, "banned")) for ids in _list(body.get("banned"), "banned")
    )
    given["logit_bias"] = _bias(body.get("logit_bias"))
    given["logprobs"] = _logprobs(body, kind)
    return Sampling(**given)


def _logprobs(body: Mapping[str, Any], kind: Kind) -> int | None:
    wanted, n_top = body.get("logprobs"), body.get("top_logprobs")
    if kind == "text":
        if wanted is not None and not _is_count(wanted):
            raise RequestError(f"logprobs is {_short(wanted)}; allowed: a whole number")
        return wanted
    if wanted not in (None, False, True):
        raise RequestError(f"logprobs is {_short(wanted)}; allowed: true or false")
    if n_top is not None and not (wanted and _is_count(n_top)):
        raise RequestError(f"top_logprobs is {_short(n_top)}; allowed: a number, with logprobs")
    return (n_top or 0) if wanted else None


def _messages(body: Mapping[str, Any]) -> Seq[Mapping[str, object]]:
    messages = _list(body.get("messages"), "messages")
    if not messages:
        raise RequestError("messages is missing or empty; give at least one")
    for i, message in enumerate(messages):
        if not isinstance(message, dict):
            raise RequestError(f"messages[{i}] is {_short(message)}; allowed: an object")
        content = message.get("content")
        if isinstance(content, list):  # parts: only those that are text can be read
            message["content"] = "".join(_part(part, i) for part in content)
        elif not isinstance(content, str):
            raise RequestError(f"messages[{i}].content is {_short(content)}; allowed: a text")
    return messages


def _part(part: object, at: int) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise RequestError(f"messages[{at}] has a part {_short(part)}; allowed: parts of text")
    return text


def _prompts(body: Mapping[str, Any]) -> tuple[Prompt, ...]:
    prompt = body.get("prompt")
    if isinstance(prompt, str) and prompt:
        return (prompt,)
    if isinstance(prompt, list) and prompt:
        if all(_is_count(token) for token in prompt):
            return (tuple(prompt),)
        if all((isinstance(p, str) and p) or _is_ids(p) for p in prompt):
            return tuple(p if isinstance(p, str) else tuple(p) for p in prompt)
    raise RequestError(
        f"prompt is {_short(prompt)}; allowed: a text, token ids, or a list of either; none empty"
    )


def _list(value: object, name: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise RequestError(f"{name} is {_short(value)}; allowed: a list")
    return value


def _ids(value: object, name: str) -> list[int]:
    if value is not None and not (value == [] or _is_ids(value)):
        raise RequestError(f"{name} is {_short(value)}; allowed: a list of token ids")
    return _list(value, name)


def _bias(value: object) -> dict[int, float]:
    if value is None:
        return {}
    try:
        if not isinstance(value, dict):
            raise TypeError
        return {int(token): float(bias) for token, bias in value.items()}
    except (TypeError, ValueError):
        raise RequestError(
            f"logit_bias is {_short(value)}; allowed: an object of token ids and numbers"
        ) from None


def _is_ids(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_count(token) for token in value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
