"""What constrains an answer's tokens: one function decides, for every way of asking.

`response_format`, vLLM's `structured_outputs` and `guided_*`, and forced tool calls all come here.
The answer is a maker of masks (each answer needs a matcher of its own) or None: any text will do.
"""

from collections.abc import Callable

from outpace.core.law import TokenMask
from outpace.server.served import Served
from outpace.server.wire.problems import Problem, bad
from outpace.server.wire.requests import ChatRequest, GenerationRequest

MakeMask = Callable[[], TokenMask]

_FORMAT = "response_format"
_FIELDS = ("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar")


def wants_grammar(request: GenerationRequest) -> bool:
    """Whether `grammar_for` may have to compile something: then it is called in a thread."""
    forced = isinstance(request, ChatRequest) and request.tool_choice not in (None, "none", "auto")
    return forced or any(getattr(request, name) is not None for name in (*_FIELDS, _FORMAT))


def grammar_for(request: GenerationRequest, served: Served) -> MakeMask | None:  # noqa: ARG001
    """The mask maker a request needs; it may take long, and any thread may call it.

    Raises:
        Problem: 400; this server cannot constrain an answer that way.
    """
    form = request.response_format
    kind = form.get("type") if form is not None else "text"
    if kind != "text":
        raise _unavailable(_FORMAT, f"response_format of type {kind!r}")
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
