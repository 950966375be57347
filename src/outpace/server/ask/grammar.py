"""What constrains an answer's tokens: one function decides, for every way of asking.

`response_format`, vLLM's `structured_outputs` and `guided_*`, and tool calls (forced ones, and
those of functions with `strict`) all come here. The answer is a maker of masks (each answer needs
a matcher of its own) or None: any text will do.
"""

import json
from collections.abc import Callable

from outpace.core.law import TokenMask
from outpace.server.answer.tools import ToolFormat
from outpace.server.ask.tools import callable_tools, forces_call
from outpace.server.served import Served
from outpace.server.wire.problems import bad
from outpace.server.wire.requests import ChatRequest, GenerationRequest
from outpace.server.wire.requests import Tool as AskedTool
from outpace.text.grammar.calls import Place, Tool, calls
from outpace.text.grammar.request import grammar_of
from outpace.text.grammar.spec import GrammarSpec

MakeMask = Callable[[], TokenMask]

_FIELDS = (
    "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice",
    "guided_grammar",
)  # fmt: skip
_ANY_ARGUMENTS = {"type": "object"}
_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}


def wants_grammar(request: GenerationRequest) -> bool:
    """Whether `grammar_for` may have to compile something: then it is called in a thread."""
    tools = isinstance(request, ChatRequest) and bool(request.tools)
    return tools or any(getattr(request, name) is not None for name in _FIELDS)


def grammar_for(
    request: GenerationRequest, served: Served, form: ToolFormat | None
) -> MakeMask | None:
    """The mask maker a request needs; compiling may take long, and any thread may do it.

    form: how calls look, None where there are none to make.

    Raises:
        Problem, RequestError: what in the request is wrong, unsupported or too much.
    """
    spec = grammar_of(**{name: getattr(request, name) for name in _FIELDS})
    if form is not None and isinstance(request, ChatRequest):
        spec = _with_calls(request, form, spec)
    if spec is None:
        return None
    stops = frozenset(request.stop_token_ids or ())
    return served.grammars.maker(spec, stop_token_ids=stops)


def _with_calls(
    request: ChatRequest, form: ToolFormat, answer: GrammarSpec | None
) -> GrammarSpec | None:
    forced, several = forces_call(request), request.parallel_tool_calls is not False
    if isinstance(request.tool_choice, dict):
        several = False  # the function that is named is called once
    asked = callable_tools(request)
    schema = _schema(answer) if answer is not None else None
    place: Place = "only" if forced else "free" if answer is None else "answer"
    if forced and answer is not None:
        raise bad(
            f"tool_choice and {answer.name} both shape the answer; give one of them",
            param="tool_choice",
        )
    if place == "free" and several and not any(tool.function.strict for tool in asked):
        return None
    return calls(
        [_tool(tool, enforced=forced or bool(tool.function.strict)) for tool in asked],
        marks=(form.begin, form.end),
        place=place,
        several=several,
        answer=schema,
    )


def _tool(tool: AskedTool, *, enforced: bool) -> Tool:
    function = tool.function
    if function.parameters is None:
        return Tool(name=function.name, arguments=_NO_ARGUMENTS)
    return Tool(name=function.name, arguments=function.parameters if enforced else _ANY_ARGUMENTS)


def _schema(answer: GrammarSpec) -> dict[str, object]:
    """The schema of an answer that may be given in place of calls."""
    if answer.kind == "json_object":
        return dict(_ANY_ARGUMENTS)
    if answer.kind != "json_schema":
        raise bad(
            f"{answer.name} and tools both shape the answer; send tool_choice: none, or ask for "
            f"JSON with response_format",
            param="tools",
        )
    schema: dict[str, object] = json.loads(answer.source)
    return schema
