"""Everything outpace raises on purpose, sorted by who must act.

    OutpaceError
    ├── ConfigError            the operator: a model, a drafter, a flag, a file
    │   ├── ModelNotFound      no such name, file, directory or hub id
    │   ├── ModelCorrupt       truncated, overlapping or unreadable weights
    │   ├── ModelUnsupported   an architecture, layer or format outpace cannot run exactly
    │   ├── UnsafeFile         a pickle, remote code, a path that leaves its folder
    │   ├── OfflineError       nothing answered; what was tried is named
    │   ├── DiskSpaceError     too little room, in bytes
    │   ├── MemoryShort        too little memory, in bytes, found before loading
    │   ├── HeadMismatch       a trained drafter that belongs to other weights
    │   └── CapabilityError    this runtime cannot do what was asked
    ├── RequestError           the caller: one request is wrong, others go on
    │   └── PromptTooLong      more tokens than the model reads
    ├── CapacityError          try again later; nothing is broken
    ├── TraceError             a trace that cannot be read or does not hold
    └── ContractError          a bug in outpace or in a plugged-in part

A message says what was found, what is allowed and what to do; the numbers are attributes too.
"""


class OutpaceError(Exception):
    """The root: `except OutpaceError` catches all that outpace raises on purpose."""


class ConfigError(OutpaceError):
    """The operator must act: a model, a drafter, a flag or a file is wrong."""


class ModelNotFound(ConfigError):
    """No model by that name, path or hub id."""


class ModelCorrupt(ConfigError):
    """The weights on disk are truncated, overlapping or not what they claim to be."""


class ModelUnsupported(ConfigError):
    """The model cannot be run exactly: an unknown architecture, or a cache that cannot forget."""


class UnsafeFile(ConfigError):
    """A file that could execute code or write outside its folder; never opened."""


class OfflineError(ConfigError):
    """No source could be reached; the message names each one tried."""


class DiskSpaceError(ConfigError):
    """Too little disk space; nothing was written."""

    def __init__(self, message: str, *, needed_bytes: int = 0, free_bytes: int = 0) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes


class MemoryShort(ConfigError):
    """Too little memory, computed before loading anything."""

    def __init__(self, message: str, *, needed_bytes: int = 0, free_bytes: int = 0) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes


class HeadMismatch(ConfigError):
    """A trained drafter meets a target it was not trained for, or none comes for this one."""


class CapabilityError(ConfigError):
    """Two parts do not fit: the runtime lacks what the drafter, rule or option needs."""


class RequestError(OutpaceError):
    """The caller must change this request; every other request goes on."""


class PromptTooLong(RequestError):
    """More prompt tokens than the model can read and still answer with one."""

    def __init__(self, *, n_tokens: int, limit_tokens: int) -> None:
        super().__init__(
            f"the prompt has {n_tokens} tokens, the model reads at most {limit_tokens} "
            f"and needs one for its answer; shorten the prompt by "
            f"{n_tokens - limit_tokens + 1} tokens or more"
        )
        self.n_tokens = n_tokens
        self.limit_tokens = limit_tokens


class CapacityError(OutpaceError):
    """Full for now: the same request can succeed later."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TraceError(OutpaceError):
    """A trace that cannot be read, or whose numbers do not lead to its decisions."""


class ContractError(OutpaceError):
    """A part broke its protocol: a bug in outpace or in a plugged-in drafter or runtime."""
