"""A `GrammarSpec` -> a compiled grammar, within limits; compiled ones are remembered.

Compiling may take long and a grammar may be a bomb, so whoever takes a request does it on their
own thread, before the engine sees the request. Size and nesting are limited before compiling, the
library's work and memory while it compiles and follows a text (llguidance counts lexer fuel,
states and parser items), and the time it took afterwards: the first mask included, which builds
most of the automaton.
"""

import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from llguidance import LLMatcher, LLParserLimits
from llguidance.gbnf_to_lark import gbnf_to_lark

from outpace.errors import RequestError
from outpace.text.grammar.calls import calls_lark
from outpace.text.grammar.mask import Compiled, GrammarMask
from outpace.text.grammar.spec import Blanks, GrammarSpec, nesting, parse_json, places
from outpace.text.grammar.words import Words
from outpace.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

# Between parts of JSON: nothing, or what this matches, once.
_BLANKS = r"\n {0,24}| "
# Per-rule options of the library's Lark that a mask cannot express.
_INEXPRESSIBLE = re.compile(r"^[ \t]*[\w-]+[ \t]*\[[^\]\n]*\b(temperature|max_tokens|stop)\b", re.M)
_UNKNOWN_KEYS = re.compile(r"Unimplemented keys: (\[.*\])")
_WORDS_OF_A_MESSAGE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarLimits:
    """Bounds on one grammar.

    source_bytes, nesting, choices: what is read at all. compile_s: the longest a compiled
    grammar may have taken. lexer_states: about 2 kB each, over all texts that follow the grammar.
    symbols: of the context-free part. remembered: grammars kept compiled.
    """

    source_bytes: int = 128 * 1024
    nesting: int = 48
    choices: int = 2000
    compile_s: float = 5.0
    lexer_states: int = 20_000
    symbols: int = 200_000
    remembered: int = 32

    def parser(self) -> LLParserLimits:
        """As the library takes them."""
        return LLParserLimits(
            max_lexer_states=self.lexer_states,
            max_grammar_size=self.symbols,
            verbose_errors=False,  # they would quote the text being written
        )


class Grammars:
    """Compiles grammars for one model's vocabulary. Safe to share between threads.

    vocab_size: of the model, whose logits may be padded beyond the tokenizer's ids. eos_ids: what
    ends a text.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        vocab_size: int,
        eos_ids: frozenset[int],
        limits: GrammarLimits | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.limits = limits or GrammarLimits()
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._eos_ids = eos_ids
        self._clock = clock
        self._lock = Lock()
        self._words: Words | None = None
        self._known: OrderedDict[GrammarSpec, Compiled] = OrderedDict()

    def mask(
        self, spec: GrammarSpec, *, stop_token_ids: frozenset[int] = frozenset()
    ) -> GrammarMask:
        """A mask for one answer, at its beginning; `maker` has the arguments and errors."""
        return self.maker(spec, stop_token_ids=stop_token_ids)()

    def maker(
        self, spec: GrammarSpec, *, stop_token_ids: frozenset[int] = frozenset()
    ) -> Callable[[], GrammarMask]:
        """Compile now, which may take long; each call of what is returned makes a mask, at once.

        stop_token_ids: the request's; those that are control tokens may end the text where the
        grammar may end, as an EOS does (those that are text stay what the grammar makes of them).

        Raises:
            RequestError: what in the grammar is wrong, unsupported or too much.
        """
        ends = self._eos_ids | (stop_token_ids & self._tokenizer.special_ids)
        if not ends:
            raise RequestError(
                f"{spec.name} needs an end of text, and this model has none; give stop_token_ids "
                "a control token"
            )
        compiled = self._compiled(spec)
        return partial(
            GrammarMask,
            compiled,
            n_words=self.words().n_words,
            vocab_size=self._vocab_size,
            ends=ends,
        )

    def words(self) -> Words:
        """The vocabulary's trie, made at first use: it takes a second for large vocabularies."""
        with self._lock:
            if self._words is None:
                self._words = Words(self._tokenizer)
            return self._words

    def _compiled(self, spec: GrammarSpec) -> Compiled:
        with self._lock:
            found = self._known.get(spec)
            if found is not None:
                self._known.move_to_end(spec)
                return found
        words = self.words()
        source = to_library(spec, self.limits)
        began = self._clock()
        parser = self.limits.parser()
        made = Compiled(lambda: LLMatcher(words.trie, source, log_level=0, limits=parser))
        first = made.start.deep_copy()
        if not first.is_error():
            first.compute_bitmask()
        took_s = self._clock() - began
        if first.is_error():
            raise RequestError(f"{spec.name}: {_reason(spec, first.get_error())}")
        if took_s > self.limits.compile_s:
            raise RequestError(
                f"{spec.name} took {took_s:.1f} s to compile; allowed: {self.limits.compile_s:g} "
                "s; make it smaller: fewer alternatives, shorter repetitions"
            )
        with self._lock:
            self._known[spec] = made
            while len(self._known) > self.limits.remembered:
                self._known.popitem(last=False)
        return made


def to_library(spec: GrammarSpec, limits: GrammarLimits) -> str:
    """The grammar in llguidance's own form.

    Raises:
        RequestError: more than the limits allow, or what the library would silently drop.
    """
    n_bytes = len(spec.source.encode("utf-8"))
    if n_bytes > limits.source_bytes:
        raise RequestError(
            f"{spec.name} has {n_bytes} bytes; allowed: {limits.source_bytes}; make it smaller"
        )
    match spec.kind:
        case "json_object":
            return _json({"type": "object"}, spec)
        case "json_schema":
            return _json(_schema(spec, limits), spec)
        case "regex":
            return LLMatcher.grammar_from_regex(_ascii_digits(spec.source))
        case "choice":
            return LLMatcher.grammar_from_lark(_one_of(spec, limits))
        case "ebnf":
            return LLMatcher.grammar_from_lark(_from_ebnf(spec))
        case "calls":
            return LLMatcher.grammar_from_lark(_calls(spec, limits))
    found = _INEXPRESSIBLE.search(spec.source)
    if found:
        raise RequestError(
            f"{spec.name} gives a rule the option {found[1]!r}, which no mask of tokens can keep; "
            "leave it out, and end lazy rules with suffix= in place of stop="
        )
    return LLMatcher.grammar_from_lark(spec.source)


def _ascii_digits(pattern: str) -> str:
    r"""The pattern with `\d` meaning 0 to 9, as in ECMA-262 and in JSON schemas' patterns.

    The library's own `\d` is any digit of its Unicode version, which whoever parses the answer may
    not know. Inside brackets this makes nested classes, which it reads.
    """
    digits = {r"\d": "[0-9]", r"\D": "[^0-9]"}
    return re.sub(r"\\.", lambda found: digits.get(found[0], found[0]), pattern, flags=re.S)


# Never partly: an unsupported keyword is an error, and oneOf is not loosened to anyOf.
_STRICTLY: "JsonCompileOptions" = {"lenient": False, "coerce_one_of": False}


def _spacing(blanks: Blanks) -> "JsonCompileOptions":
    if blanks == "flexible":
        return {"whitespace_pattern": _BLANKS}
    return {"whitespace_flexible": False}


def _json(schema: dict[str, object], spec: GrammarSpec) -> str:
    return LLMatcher.grammar_from_json_schema(
        schema, defaults=_spacing(spec.blanks), overrides=_STRICTLY
    )


def _schema(spec: GrammarSpec, limits: GrammarLimits) -> dict[str, object]:
    schema = _shallow(spec, limits)
    if not isinstance(schema, dict):
        raise RequestError(f"{spec.name} is no JSON schema: it must be an object")
    return schema


def _shallow(spec: GrammarSpec, limits: GrammarLimits) -> object:
    found = parse_json(spec.source, spec.name)
    depth = nesting(found)
    if depth > limits.nesting:
        raise RequestError(
            f"{spec.name} is nested {depth} deep; allowed: {limits.nesting}; flatten it, for "
            "example with $defs and $ref"
        )
    return found


def _calls(spec: GrammarSpec, limits: GrammarLimits) -> str:
    document: Any = _shallow(spec, limits)
    return calls_lark(document, options={**_spacing(spec.blanks), **_STRICTLY})


def _one_of(spec: GrammarSpec, limits: GrammarLimits) -> str:
    options = parse_json(spec.source, spec.name)
    if not isinstance(options, list) or not all(isinstance(o, str) for o in options):
        raise RequestError(f"{spec.name} is no list of strings")
    if len(options) > limits.choices:
        raise RequestError(
            f"{spec.name} has {len(options)} choices; allowed: {limits.choices}; a regex may say "
            "the same in less"
        )
    return "start: " + " | ".join(json.dumps(o, ensure_ascii=False) for o in options)


def _from_ebnf(spec: GrammarSpec) -> str:
    try:
        return gbnf_to_lark(spec.source)
    except Exception as error:  # whatever the converter meets in a foreign grammar
        raise RequestError(f"{spec.name} is no EBNF grammar: {_short(str(error))}") from None


def _reason(spec: GrammarSpec, message: str) -> str:
    """The library's complaint, with the place of a keyword it does not know."""
    unknown = _UNKNOWN_KEYS.search(message)
    if spec.kind not in ("json_schema", "calls") or unknown is None:
        return f"{_short(message)}; this grammar cannot be enforced as it stands"
    schema = parse_json(spec.source, spec.name)
    keys: Seq[str] = json.loads(unknown[1])
    found = [f"{key!r} (at {next(places(schema, key), '$')})" for key in keys]
    return (
        f"the schema uses {', '.join(found)}, which cannot be enforced while writing; leave it "
        "out and check the answer for it"
    )


def _short(message: str) -> str:
    # The library appends its state after a line of its own; what is wrong stands before it.
    text = " ".join(message.split("\n<state>", maxsplit=1)[0].split())
    return text if len(text) <= _WORDS_OF_A_MESSAGE else f"{text[:_WORDS_OF_A_MESSAGE]} .."
