"""Tools of a request: which may be called, whether one must be, and how calls look."""

from collections.abc import Sequence as Seq

from outpace.server.answer.tools import ToolFormat, format_of
from outpace.server.served import Served
from outpace.server.wire.problems import bad
from outpace.server.wire.requests import ChatRequest, Tool

_ALLOWED = 'none, auto, required, or {"type": "function", "function": {"name": ..}}'


def forces_call(request: ChatRequest) -> bool:
    """Whether an answer without a call is none."""
    return request.tool_choice not in (None, "none", "auto")


def callable_tools(request: ChatRequest) -> Seq[Tool]:
    """Those that may be called: all, or the one that is named.

    Raises:
        Problem: a choice of none of the tools, or of no kind there is.
    """
    tools, choice = request.tools or [], request.tool_choice
    if choice in (None, "auto", "required"):
        return tools
    named = choice.get("function") if isinstance(choice, dict) else None
    if (
        not isinstance(choice, dict)
        or choice.get("type") != "function"
        or not isinstance(named, dict)
    ):
        raise bad(f"tool_choice is {choice!r:.60}; allowed: {_ALLOWED}", param="tool_choice")
    found = [tool for tool in tools if tool.function.name == named.get("name")]
    if not found:
        names = ", ".join(tool.function.name for tool in tools)
        raise bad(
            f"tool_choice names {named.get('name')!r:.60}; the tools are {names}",
            param="tool_choice",
        )
    return found


def tool_format(request: ChatRequest, served: Served) -> ToolFormat | None:
    """How to find calls; None where the model is not to make any.

    Raises:
        Problem: a forced call without tools, or tools the model's template does not know.
    """
    if not request.tools:
        if forces_call(request):
            raise bad("tool_choice names a tool, and there are no tools", param="tool_choice")
        return None
    if request.tool_choice == "none":
        return None
    callable_tools(request)
    template = served.model.template
    form = format_of(template.source) if template is not None else None
    if form is None:
        raise bad(
            f"the chat template of {served.model.name} teaches no tool calls in a format this "
            f"server reads; leave tools out, or send tool_choice: none",
            param="tools",
            code="not_available",
        )
    return form
