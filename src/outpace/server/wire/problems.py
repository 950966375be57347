"""Every way to say no, in OpenAI's shape: `{"error": {message, type, param, code}}`.

One table turns the error tree into statuses. Nothing a client sends ends in a 500; that status is
kept for bugs of ours.
"""

import math
import re
from collections.abc import Mapping

from fastapi.responses import JSONResponse

from outpace.errors import CapacityError, ContractError, OutpaceError, PromptTooLong, RequestError


class Problem(Exception):
    """A refusal. param: the field at fault. headers: such as Retry-After."""

    def __init__(
        self,
        *,
        status: int,
        message: str,
        type: str = "invalid_request_error",  # noqa: A002 (OpenAI's name)
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    def body(self) -> dict[str, object]:
        """The JSON document."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }

    def response(self) -> JSONResponse:
        """The whole response."""
        return JSONResponse(self.body(), status_code=self.status, headers=self.headers)


def bad(message: str, *, param: str | None = None, code: str | None = None) -> Problem:
    """A 400."""
    return Problem(status=400, message=message, param=param, code=code)


def busy(message: str, *, retry_after_s: float) -> Problem:
    """A 429; the client may come back after so many seconds."""
    return Problem(
        status=429,
        message=message,
        type="rate_limit_error",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(max(1, math.ceil(retry_after_s)))},
    )


def unavailable(message: str, code: str) -> Problem:
    """A 503: this server takes no requests."""
    return Problem(
        status=503, message=message, type="server_error", code=code, headers={"Retry-After": "5"}
    )


def problem_of(error: BaseException) -> Problem:
    """What a client is told of an error."""
    match error:
        case Problem():
            return error
        case PromptTooLong():
            return bad(str(error), code="context_length_exceeded")
        case RequestError():
            return bad(str(error), param=_param_of(str(error)), code="invalid_value")
        case CapacityError(retry_after_s=None):
            return unavailable(str(error), "shutting_down")
        case CapacityError():
            return busy(str(error), retry_after_s=error.retry_after_s or 1.0)
        case ContractError():
            return Problem(status=500, message=str(error), type="server_error", code="engine_error")
        case OutpaceError():
            return Problem(status=500, message=str(error), type="server_error")
        case _:
            name = type(error).__name__
            message = f"a bug in outpace ({name}); the server's log has the rest"
            return Problem(status=500, message=message, type="server_error", code="bug")


_NAME = re.compile(r"[a-z_]+")
_FIELDS = frozenset(
    [
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "min_tokens",
        "max_tokens",
        "stop",
        "stop_token_ids",
        "seed",
        "logprobs",
        "prompt_logprobs",
        "speculation",
        "prompt",
        "messages",
        "response_format",
        "structured_outputs",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "tools",
    ]
)


def _param_of(message: str) -> str | None:
    """Errors of a field begin with its name, or with a place in it (`a.b[0]: ..`)."""
    first = _NAME.match(message)
    return first[0] if first and first[0] in _FIELDS else None
