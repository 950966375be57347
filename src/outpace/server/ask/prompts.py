"""Prompts of requests as token ids: conversations through the template, texts as they are."""

import json
from collections.abc import Mapping
from typing import Any

from outpace.errors import RequestError
from outpace.server.served import Served
from outpace.server.wire.problems import bad
from outpace.server.wire.requests import ChatRequest, CompletionRequest, Message, TokenizeRequest

# No vocabulary's tokens are longer on average, whatever the text.
_MOST_BYTES_PER_TOKEN = 128
# What a template is given by the server itself.
_RESERVED = frozenset(("messages", "tools", "add_generation_prompt", "documents"))


def chat_prompt(
    request: ChatRequest | TokenizeRequest, served: Served, *, with_tools: bool
) -> list[int]:
    """A conversation's ids.

    Raises:
        Problem: content other than text. RequestError: the template refuses it.
    """
    template = served.model.template
    if template is None:
        raise bad(
            f"{served.model.name} has no chat template; use /v1/completions and write the whole "
            f"prompt yourself",
            param="messages",
        )
    extra = getattr(request, "chat_template_kwargs", None) or {}
    if reserved := _RESERVED & set(extra):
        raise bad(f"chat_template_kwargs may not set {', '.join(sorted(reserved))}",
                  param="chat_template_kwargs")  # fmt: skip
    tools = request.tools if with_tools else None
    text = template.render(
        [_turn(index, message) for index, message in enumerate(request.messages or [])],
        add_generation_prompt=request.add_generation_prompt is not False,
        tools=[tool.model_dump(exclude_unset=True) for tool in tools] if tools else None,
        extra=extra,
    )
    return encoded(text, served)


def text_prompts(request: CompletionRequest, served: Served) -> list[list[int]]:
    """The ids of one prompt or of several, given as text or as ids.

    Raises:
        Problem: an empty one.
    """
    prompt = request.prompt
    given: list[str | list[int]] = []
    if isinstance(prompt, str):
        given = [prompt]
    elif ids := [item for item in prompt if isinstance(item, int)]:
        given = [ids]
    else:
        given = [item for item in prompt if not isinstance(item, int)]
    if not given:
        raise bad("prompt is an empty list; send at least one prompt", param="prompt")
    bos = request.add_special_tokens is not False
    return [_ids(prompt, served, bos=bos) for prompt in given]


def check_prompt(prompt: tuple[int, ...], served: Served) -> None:
    """Bounds an operator may set below what the model reads.

    Raises:
        Problem: a prompt beyond them.
    """
    limit = served.settings.bounds.prompt_tokens
    if limit is not None and len(prompt) > limit:
        raise bad(
            f"the prompt has {len(prompt)} tokens; this server takes at most {limit}",
            code="context_length_exceeded",
        )


def encoded(text: str, served: Served, *, bos: bool = True) -> list[int]:
    """A text's ids; one that cannot fit is refused before the work.

    Raises:
        Problem: a text too long for any number of tokens the model reads.
    """
    most = served.model.runtime.traits.context_tokens * _MOST_BYTES_PER_TOKEN
    if len(text) > most:
        raise bad(
            f"the prompt has {len(text)} characters; at {_MOST_BYTES_PER_TOKEN} a token, the "
            f"model's context ends after {most}",
            code="context_length_exceeded",
        )
    return served.model.tokenizer.encode(text, special=True, bos=bos)


def _ids(prompt: str | list[int], served: Served, *, bos: bool) -> list[int]:
    if not prompt:
        raise bad("a prompt is empty; send at least one character or token id", param="prompt")
    if isinstance(prompt, list):
        return prompt
    return encoded(prompt, served, bos=bos)


def _turn(index: int, message: Message) -> Mapping[str, object]:
    turn: dict[str, Any] = message.model_dump(exclude_unset=True)
    if isinstance(message.content, list):
        turn["content"] = "".join(_part(index, part) for part in message.content)
    elif message.content is None:
        if not message.tool_calls and message.role != "assistant":
            raise bad(f"message {index} ({message.role}) has no content", param="messages")
        turn["content"] = ""
    if message.tool_calls:
        turn["tool_calls"] = [_call(index, call) for call in message.tool_calls]
    return turn


def _part(index: int, part: Mapping[str, Any]) -> str:
    if part.get("type") != "text" or not isinstance(part.get("text"), str):
        raise bad(
            f"message {index} has a part of type {part.get('type')!r}; this model reads text only",
            param="messages",
            code="not_available",
        )
    return str(part["text"])


def _call(index: int, call: Mapping[str, Any]) -> Mapping[str, Any]:
    """Arguments arrive as JSON in a string; templates expect the object."""
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise bad(f"message {index} has a tool call without a function's name", param="messages")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise RequestError(
                f"messages: the arguments of a tool call in message {index} are not JSON ({error})"
            ) from None
    return {**call, "function": {**function, "arguments": arguments}}
