"""What constrains an answer's tokens: one function decides, for every way of asking.

`response_format`, vLLM's `structured_outputs` and `guided_*`, and forced tool calls all come here.
The answer is a maker of masks (each answer needs a matcher of its own) or None: any text will do.
"""

from collections.abc import Callable

from outpace.core.law import TokenMask
from outpace.server.wire.problems import Problem, bad
from outpace.server.wire.requests import ChatRequest, GenerationRequest

MakeMask = Callable[[], TokenMask]

_FIELDS = ("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar")


def grammar_for(request: GenerationRequest) -> MakeMask | None:
    """The mask maker a request needs.

    Raises:
        Problem: 400; this server cannot constrain an answer that way.
    """
    form = request.response_format
    kind = form.get("type") if form is not None else "text"
    if kind != "text":
        raise _unavailable("response_format", f"response_format of type {kind!r}")
    for name in _FIELDS:
        if getattr(request, name) is not None:
            raise _unavailable(name, name)
    if isinstance(request, ChatRequest) and request.tool_choice not in (None, "none", "auto"):
        raise _unavailable("tool_choice", "a tool_choice that forces a call")
    return None


def _unavailable(param: str, what: str) -> Problem:
    return bad(
        f"{what} is not available on this server, and an answer that merely might fit is not "
        f"given; leave {param} out",
        param=param,
        code="not_available",
    )
