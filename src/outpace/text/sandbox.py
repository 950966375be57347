"""The cage chat templates run in: jinja2's immutable sandbox plus limits.

jinja2's own sandbox keeps a template away from Python's insides; it does not bound what the
template computes. Here every turn of a loop and every call of a macro counts and looks at the
clock, and no operation may build a string or list beyond a size.
"""

import functools
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

# Random output, or output as large as a number in the template says; no chat template needs them.
_DROPPED_FILTERS: Final = (
    "random", "center", "wordwrap", "format", "urlize", "xmlattr", "filesizeformat",
    "pprint", "batch", "slice",
)  # fmt: skip
_TICK: Final = "__outpace_tick__"
_JOIN: Final = "__outpace_join__"
# A width of four digits or more, or one taken from a value, in a % or {} format.
_WIDE_PERCENT: Final = re.compile(r"%[-+ #0]*(\*|\d{4,})")
_WIDE_BRACES: Final = re.compile(r"\{[^}]*(\d{4,}|\{)")


class TooMuch(Exception):
    """A template went beyond its limits; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """max_s: seconds of rendering. max_turns: loop turns and calls. max_chars: all that is written,
    and the longest text or list a template may build on the way."""

    max_s: float = 5.0
    max_turns: int = 2_000_000
    max_chars: int = 20_000_000


@dataclass(slots=True)
class _Budget:
    turns: int
    chars: int
    deadline: float


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks the assistant's part for training; it stays."""

    tags = {"generation"}  # noqa: RUF012 (as the base class declares it)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of one chat template, with the extras templates of the hub rely on."""

    intercepted_binops = frozenset(("*", "**", "+", "%"))

    def __init__(self, limits: Limits) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            finalize=self._written,
        )
        self._limits = limits
        self._budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)
        for name in _DROPPED_FILTERS:
            self.filters.pop(name, None)
        self.globals.pop("lipsum", None)  # random text
        self.filters["tojson"] = _tojson
        for name, function in list(self.filters.items()):
            self.filters[name] = self._guarded(function)
        self.globals[_TICK] = self._tick
        self.globals[_JOIN] = self._join

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Limits apply within; they are this call's own, also when threads share a template."""
        limits = self._limits
        budget = _Budget(limits.max_turns, limits.max_chars, time.monotonic() + limits.max_s)
        token = self._budget.set(budget)
        try:
            yield
        finally:
            self._budget.reset(token)

    def _tick(self, n_chars: int = 0) -> None:
        """Count one turn that writes `n_chars` of the template's own text."""
        budget = self._budget.get()
        if budget is not None:
            self._charge(budget, max(0, n_chars))  # a template may call this, too
            budget.turns -= 1
            if budget.turns < 0:
                raise TooMuch(f"looped more than {self._limits.max_turns} times")
            if budget.turns % 64 == 0 and time.monotonic() > budget.deadline:
                raise TooMuch(f"took longer than {self._limits.max_s} s")

    def _charge(self, budget: _Budget, n_chars: int) -> None:
        budget.chars -= n_chars
        if budget.chars < 0:
            raise TooMuch(f"wrote more than {self._limits.max_chars} characters")

    def _written(self, value: object) -> object:
        """Count what an expression writes; also within blocks whose output is captured."""
        budget = self._budget.get()
        if budget is not None and isinstance(value, str):
            self._charge(budget, len(value))
        return value

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Put a tick at the top of every loop and macro, and bound every `~`."""
        tree = super()._parse(source, name, filename)
        loops: list[nodes.For | nodes.Macro | nodes.CallBlock] = [
            *tree.find_all(nodes.For), *tree.find_all(nodes.Macro), *tree.find_all(nodes.CallBlock)
        ]  # fmt: skip
        for node in loops:
            n_chars = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
            tick = _call(_TICK, [nodes.Const(n_chars, lineno=node.lineno)], node.lineno)
            node.body.insert(0, nodes.ExprStmt(tick, lineno=node.lineno))
        bounded: nodes.Template = _Joins().visit(tree)
        return bounded

    def _join(self, *parts: object) -> str:
        texts = [str(part) for part in parts]
        self._bound(sum(map(len, texts)))
        return "".join(texts)

    def _bound(self, size: int) -> None:
        if size > self._limits.max_chars:
            raise TooMuch(f"built a value of {size} parts; at most {self._limits.max_chars}")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """`*`, `+`, `**` and `%` with their result's size known before it is computed."""
        sized = [len(side) for side in (left, right) if isinstance(side, (str, list, tuple))]
        if operator == "+":
            self._bound(sum(sized))
        elif operator == "%" and isinstance(left, str):
            if _WIDE_PERCENT.search(left):
                raise TooMuch(f"formats with the width of {left[:40]!r}; at most 999 are allowed")
        elif operator == "*" and sized:
            times = [side for side in (left, right) if isinstance(side, int)]
            self._bound(sized[0] * max(times, default=0))
        elif operator in ("*", "**"):
            self._bound(_bits(left) * (_as_int(right) if operator == "**" else 1))
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Every call a template makes: no argument may ask for more than the limits allow."""
        if getattr(__obj, "__func__", None) in (Sandbox._tick, Sandbox._join):
            return __obj(*args)
        __self._tick()
        __self._check_arguments(args, kwargs)
        # jinja2 wraps str.format; the string it belongs to is found behind the wrapper
        owner = getattr(getattr(__obj, "__wrapped__", __obj), "__self__", None)
        name = getattr(__obj, "__name__", "")
        if isinstance(owner, str):
            if name == "replace":
                __self._bound(_replaced_size(owner, *args[:2]))
            elif name in ("format", "format_map") and _WIDE_BRACES.search(owner):
                raise TooMuch(f"formats with the width of {owner[:40]!r}; at most 999 are allowed")
            elif name in ("translate", "expandtabs"):
                raise TooMuch(f"calls str.{name}, which outpace does not allow")
            elif name == "join" and args:
                args = (list(args[0]), *args[1:])
                total = sum(len(str(x)) for x in args[0]) + len(owner) * len(args[0])
                __self._bound(total)
        return super().call(__context, __obj, *args, **kwargs)

    def _check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for value in (*args, *kwargs.values()):
            if isinstance(value, int):
                self._bound(abs(value))

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter under the same bounds; `wraps` keeps the marks jinja2 reads."""

        @functools.wraps(function)
        def bounded(*args: Any, **kwargs: Any) -> Any:
            self._tick()
            self._check_arguments(args[1:], kwargs)
            if function.__name__ == "do_replace":
                texts = [str(value) for value in args if isinstance(value, (str, int, float))]
                self._bound(_replaced_size(*texts[:3]))
            found = function(*args, **kwargs)
            if isinstance(found, (str, list, tuple)):
                self._bound(len(found))
            return found

        return bounded


class _Joins(NodeTransformer):
    """Every `a ~ b` becomes a call that knows how long the result may be."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 (the visitor's name)
        self.generic_visit(node)
        return _call(_JOIN, list(node.nodes), node.lineno)


def _call(name: str, arguments: list[nodes.Expr], line: int) -> nodes.Call:
    target = nodes.Name(name, "load", lineno=line)
    return nodes.Call(target, arguments, [], None, None, lineno=line)


def _bits(value: object) -> int:
    return value.bit_length() if isinstance(value, int) else 1


def _as_int(value: object) -> int:
    return abs(int(value)) if isinstance(value, (int, float)) else 1


def _replaced_size(text: str, old: object = "", new: object = "", *_: object) -> int:
    return len(text) + text.count(str(old)) * len(str(new))


def _tojson(
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT002 (the signature templates use)
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT002
) -> str:
    """JSON without jinja2's HTML escapes, which models were not trained on."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
