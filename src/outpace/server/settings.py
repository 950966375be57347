"""What an operator may set of a server; made once, checked at birth, never changed."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal, get_args

from outpace.errors import ConfigError

# How much a response says about its own speculation.
MetricsLevel = Literal["none", "summary", "detailed"]


_POSITIVE = (
    "body_bytes", "choices", "in_flight", "body_s", "send_s", "biases", "stop_chars",
    "grammar_bytes", "grammar_s", "grammars",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What one request, and one caller, may ask for.

    body_bytes: the JSON document. prompt_tokens: None = what the model reads. choices: answers of
    one request, prompts times n. top_logprobs: alternatives per token. biases: entries of
    logit_bias, and of stop_token_ids. stop_chars: of all stop strings together. in_flight:
    requests of one key at a time. requests_per_minute: of one key; 0 = any number. body_s: time
    to send a body. send_s: how long a reader may leave a piece unread. grammar_bytes, grammar_s:
    of a schema, regex or grammar, and for compiling it. grammars: how many stay compiled.
    """

    body_bytes: int = 8 << 20
    prompt_tokens: int | None = None
    choices: int = 64
    top_logprobs: int = 20
    biases: int = 1024
    stop_chars: int = 16_384
    in_flight: int = 128
    requests_per_minute: int = 0
    body_s: float = 30.0
    send_s: float = 60.0
    grammar_bytes: int = 128 << 10
    grammar_s: float = 5.0
    grammars: int = 64

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            _require(getattr(self, name) > 0, name, getattr(self, name), "more than 0")
        for name in ("top_logprobs", "requests_per_minute"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        n = self.prompt_tokens
        _require(n is None or n > 0, "prompt_tokens", n, "1 or more, or none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a server behaves.

    host: the address it will be bound to, which decides whether keys are needed. api_keys: any of
    these lets a caller in; none = no key is asked for. allow_unauthenticated: bind to another
    address than loopback without keys. unknown_fields: whether fields nobody knows pass (ignored)
    instead of being refused. metrics: how much responses say of their speculation by default.
    log_prompts: whether logs contain what users wrote. drain_s: how long answers may still take
    once the server is told to stop. piece_s: least time between two pieces of a stream; what comes
    faster is one piece (0 = every round is a piece).

    Raises:
        ConfigError: naming the key.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    allow_unauthenticated: bool = False
    unknown_fields: bool = False
    metrics: MetricsLevel = "summary"
    log_prompts: bool = False
    drain_s: float = 30.0
    piece_s: float = 0.025
    bounds: Bounds = field(default_factory=Bounds)

    def __post_init__(self) -> None:
        _require(0 <= self.port <= 65535, "port", self.port, "0 (any free one) to 65535")
        _require(self.drain_s >= 0, "drain_s", self.drain_s, "0 or more seconds")
        _require(0 <= self.piece_s <= 1, "piece_s", self.piece_s, "0 to 1 second")
        levels = get_args(MetricsLevel)
        _require(self.metrics in levels, "metrics", self.metrics, " or ".join(levels))
        _require(all(self.api_keys), "api_keys", "an empty key", "keys of at least one character")
        if not (self.api_keys or self.allow_unauthenticated or is_loopback(self.host)):
            raise ConfigError(
                f"host is {self.host}, which other machines can reach, and there is no API key; "
                f"set api_key_file (or OUTPACE_API_KEY), bind to 127.0.0.1, or allow everybody "
                f"with allow_unauthenticated"
            )

    @property
    def one_tenant(self) -> bool:
        """Whether all callers may be taken for one: guesses may come from others' answers."""
        open_to_all = self.allow_unauthenticated and not is_loopback(self.host)
        return len(self.api_keys) <= 1 and not open_to_all


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False  # a name may resolve to anything


def _require(ok: bool, name: str, found: object, allowed: str) -> None:
    if not ok:
        raise ConfigError(f"{name} is {found!r}; allowed: {allowed}")
