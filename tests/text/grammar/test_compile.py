"""Compiled within limits, remembered, and every refusal says what in the grammar it is about."""

import itertools
import json
from threading import Thread

import pytest

from outpace.errors import RequestError
from outpace.text.grammar import spec
from outpace.text.grammar.compile import GrammarLimits, Grammars
from outpace.text.grammar.spec import GrammarSpec
from outpace.text.tokenizer import Tokenizer
from small import EOS, byte_backend
from text.grammar.tokens import byte_grammars, wide_grammars

GRAMMARS = byte_grammars()


def nested(depth: int) -> dict[str, object]:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            spec.json_schema(
                {"properties": {"tags": {"type": "array", "uniqueItems": True}}}, name="guided_json"
            ),
            ["guided_json", "'uniqueItems' (at $.properties.tags)", "leave it out"],
        ),
        (
            spec.json_schema({"anyOf": [{}, {"not": {}, "contains": {}}]}),
            ["'not' (at $.anyOf[1])", "'contains' (at $.anyOf[1])"],
        ),
        (spec.json_schema({"type": "strin"}), ["Invalid type: strin"]),
        (spec.json_schema({"$ref": "http://elsewhere/x"}), ["http://elsewhere/x"]),
        (spec.json_schema({"$ref": "#/$defs/q"}), ["/$defs/q", "does not exist"]),
        (spec.json_schema({"minimum": 5, "maximum": 2, "type": "integer"}), ["Unsatisfiable"]),
        (spec.json_schema({"type": "string", "format": "colour"}), ["Unknown format: colour"]),
        (
            spec.json_schema(
                {"x-guidance": {"lenient": True}, "type": "array", "uniqueItems": True}
            ),
            ["uniqueItems"],
        ),
        (
            spec.json_schema({"oneOf": [{"type": "string"}, {"maxLength": 3, "type": "string"}]}),
            ["oneOf"],
        ),
        (spec.json_schema(nested(60)), ["nested 61 deep", "allowed: 48"]),
        (spec.json_schema({"description": "x" * 200_000}), ["bytes", "allowed: 131072"]),
        (spec.regex("(?=a)b"), ["look-around"]),
        (spec.regex(r"(a)\1"), ["backreferences"]),
        (spec.regex("["), ["unclosed"]),
        (spec.choice([str(i) for i in range(2001)]), ["2001 choices", "allowed: 2000"]),
        (spec.grammar('begin: "a"'), ["no start rule"]),
        (spec.grammar("start: nowhere"), ['unknown name: "nowhere"']),
        (spec.grammar("start: <tool>"), ["unknown special token"]),
        (spec.grammar('start: x "!"\nx[temperature=0.5]: /a+/'), ["'temperature'", "leave it out"]),
        (spec.grammar('start: x "!"\nx[lazy, max_tokens=5]: /a+/'), ["'max_tokens'"]),
        (spec.grammar('start: x "!"\nx[stop="c"]: /a+/'), ["'stop'", "suffix="]),
        (spec.grammar("root ::= ( "), ["no EBNF grammar"]),
        (GrammarSpec(kind="choice", source="[1]"), ["no list of strings"]),
    ],
    ids=lambda value: value.kind if isinstance(value, GrammarSpec) else None,
)
def test_what_cannot_be_enforced_is_refused_by_name(asked: GrammarSpec, words: list[str]) -> None:
    with pytest.raises(RequestError) as caught:
        GRAMMARS.mask(asked)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


def test_a_grammar_that_took_too_long_is_refused_and_not_kept() -> None:
    ticks = itertools.count(0, 10)
    slow = Grammars(
        Tokenizer.wrap(byte_backend()), vocab_size=EOS + 1, eos_ids=frozenset({EOS}),
        clock=lambda: next(ticks),
    )  # fmt: skip
    for _ in range(2):
        with pytest.raises(RequestError, match=r"took 10\.0 s to compile; allowed: 5 s"):
            slow.mask(spec.regex("a"))


def test_compiled_grammars_are_remembered_up_to_a_number() -> None:
    ticks = itertools.count()
    few = Grammars(
        Tokenizer.wrap(byte_backend()), vocab_size=EOS + 1, eos_ids=frozenset({EOS}),
        limits=GrammarLimits(remembered=2), clock=lambda: next(ticks) / 1000,
    )  # fmt: skip
    compiled = []
    for pattern in ("a", "b", "a", "c", "a", "b"):
        before = next(ticks)
        few.mask(spec.regex(pattern))
        compiled.append(next(ticks) > before + 1)
    assert compiled == [True, True, False, True, False, True], "b was the oldest when c came"


def test_masks_of_one_grammar_do_not_disturb_each_other() -> None:
    a, b = (GRAMMARS.mask(spec.choice(["xy", "yx"])) for _ in range(2))
    x, y = (Tokenizer.wrap(byte_backend()).encode(c, special=False)[0] for c in "xy")
    a.advance(x)
    assert b.accepts((), x)
    assert b.accepts((), y)
    assert not a.accepts((), x)


def test_threads_compile_at_once() -> None:
    shared = byte_grammars()
    failed: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for i in range(10):
                mask = shared.mask(spec.regex(f"[a-{'xyz'[(n + i) % 3]}]{{1,9}}"))
                assert mask.allowed(()).any()
        except BaseException as error:
            failed.append(error)

    threads = [Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_model_without_an_end_of_text_needs_a_stop_token() -> None:
    tokenizer = Tokenizer.wrap(byte_backend())
    endless = Grammars(tokenizer, vocab_size=EOS + 1, eos_ids=frozenset())
    with pytest.raises(RequestError, match="needs an end of text"):
        endless.mask(spec.regex("a"))
    with pytest.raises(RequestError, match="needs an end of text"):
        endless.mask(spec.regex("a"), stop_token_ids=frozenset({65}))
    assert endless.mask(spec.regex("a?"), stop_token_ids=frozenset({EOS})).accepts((), EOS)


def test_a_schema_keeps_the_order_of_its_properties() -> None:
    grammars, tokenizer = wide_grammars()
    mask = grammars.mask(
        spec.json_schema(
            {
                "type": "object", "properties": {"z": {"const": 1}, "a": {"const": 2}},
                "required": ["a", "z"], "additionalProperties": False,
            },
            blanks="compact",
        )
    )  # fmt: skip
    assert tokenizer.decode(mask.forced(())) == json.dumps({"z": 1, "a": 2}, separators=(",", ":"))


@pytest.mark.parametrize(
    ("asked", "taken", "refused"),
    [
        (spec.regex(r"\d"), "7", "৪"),
        (spec.regex(r"[\d.]"), ".", "৪"),
        (spec.regex(r"[^\d]"), "৪", "7"),
        (spec.regex(r"\D"), "৪", "7"),
        (spec.regex(r"\\d"), "\\d", "7"),
        (spec.json_schema({"type": "string", "pattern": r"^\d$"}), '"7"', '"৪"'),
    ],
)
def test_a_digit_is_one_that_every_parser_knows(
    asked: GrammarSpec, taken: str, refused: str
) -> None:
    mask = byte_grammars().mask(asked)

    def fits(text: str) -> bool:
        ids = tuple(Tokenizer.wrap(byte_backend()).encode(text, special=False))
        return all(mask.accepts(ids[:i], ids[i]) for i in range(len(ids)))

    assert fits(taken)
    assert not fits(refused)
