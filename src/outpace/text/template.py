"""Chat templates: a conversation to the one string a chat model was trained on.

A template is a program by a stranger. It runs in jinja2's immutable sandbox, where it reaches no
file, module or attribute that begins with an underscore, and under limits of time, loop turns and
size, so that a hostile one ends with an error and not with a hung or full machine.
"""

import json
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from datetime import datetime
from typing import Any, Final

from jinja2 import TemplateError, TemplateSyntaxError

from outpace.errors import ModelCorrupt, RequestError
from outpace.text.sandbox import Limits, Sandbox, TooMuch

Message = Mapping[str, object]
MAX_SOURCE_CHARS: Final = 1_000_000
_RAW: Final = "pass raw=True (--raw) and write the whole prompt yourself"


class ChatTemplate:
    """A compiled chat template. Rendering changes nothing and may run in any thread.

    bos_token, eos_token: the strings a template may insert. now: the clock behind `strftime_now`.

    Raises:
        ModelCorrupt: the template is larger than a million characters or no valid template.
    """

    def __init__(
        self,
        source: str,
        *,
        bos_token: str = "",
        eos_token: str = "",
        now: Callable[[], datetime] = datetime.now,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
    ) -> None:
        if len(source) > MAX_SOURCE_CHARS:
            raise ModelCorrupt(
                f"the model's chat template has {len(source)} characters, at most "
                f"{MAX_SOURCE_CHARS} are allowed; {_RAW}"
            )
        self.source = source
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._now = now
        self._limits = limits
        try:
            self._sandbox = Sandbox(limits)
            self._template = self._sandbox.from_string(source)
        except (TemplateSyntaxError, TemplateError, RecursionError, ValueError) as error:
            raise ModelCorrupt(f"the model's chat template does not parse ({error}); {_RAW}") from (
                error
            )

    def render(
        self,
        messages: Seq[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Seq[Mapping[str, object]] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> str:
        """The prompt of a conversation. Encode it with `special=True`.

        messages: each with `role` and `content`. add_generation_prompt: whether the answer's
            header ends the prompt. extra: more variables the template knows.

        Raises:
            RequestError: no messages, one without a role, or the template refuses them, fails on
                them, or exceeds its limits.
        """
        _check(messages)
        variables: dict[str, object] = {
            **self._tokens,
            "tools": None if tools is None else [dict(tool) for tool in tools],
            "documents": None,
            **(extra or {}),
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
            "raise_exception": _refuse,
            "strftime_now": lambda form: self._now().strftime(form),
        }
        try:
            with self._sandbox.watched():
                return self._joined(variables)
        except TooMuch as error:
            raise RequestError(f"the model's chat template {error}; {_RAW}") from error
        except TemplateError as error:
            raise RequestError(
                f"the model's chat template does not take these messages: {error}; change them, "
                f"or {_RAW}"
            ) from error
        except Exception as error:  # a template can raise whatever Python's operators raise
            raise RequestError(
                f"the model's chat template failed on these messages "
                f"({type(error).__name__}: {error}); change them, or {_RAW}"
            ) from error

    def _joined(self, variables: Mapping[str, object]) -> str:
        pieces: list[str] = []
        n_chars = 0
        for piece in self._template.generate(variables):
            n_chars += len(piece)
            if n_chars > self._limits.max_chars:
                raise TooMuch(f"wrote more than {self._limits.max_chars} characters")
            pieces.append(piece)
        return "".join(pieces)


def _check(messages: Seq[Message]) -> None:
    if not messages:
        raise RequestError("there are no messages; give at least one, from role 'user'")
    for index, message in enumerate(messages):
        role: Any = message.get("role")
        if not isinstance(role, str) or not role:
            raise RequestError(
                f"message {index} has role {role!r}; a role is a name such as 'system', 'user' or "
                f"'assistant'"
            )
    try:
        json.dumps([dict(message) for message in messages])
    except (TypeError, ValueError) as error:
        raise RequestError(
            f"the messages hold something that is not plain data ({error}); strings, numbers, "
            f"lists and mappings are allowed"
        ) from error


def _refuse(message: object) -> None:
    """`raise_exception` of templates: the model's author refuses these messages."""
    raise TemplateError(str(message))
