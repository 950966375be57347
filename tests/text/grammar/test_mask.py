"""The mask is a function of the tokens alone, says what it means, and survives its own limits."""

import random

import pytest

from outpace.text.grammar import spec
from outpace.text.grammar.compile import GrammarLimits
from outpace.text.grammar.mask import GrammarMask
from outpace.text.grammar.spec import GrammarSpec
from outpace.text.tokenizer import Tokenizer
from small import EOS, byte_backend
from text.grammar.tokens import byte_grammars, compact, wide_grammars

PADDED = 5
V = EOS + 1 + PADDED
BYTES = Tokenizer.wrap(byte_backend())
GRAMMARS = byte_grammars(padded=PADDED)
WIDE, WIDE_TOKENIZER = wide_grammars()
SPECS = [
    spec.regex("(foo|foobar|bar)+é?"),
    spec.choice(["yes", "yes!", "no", "nö"]),
    spec.json_object(),
    spec.json_schema({"properties": {"kind": {"enum": ["ab", "abc"]}, "x": {"type": "null"}}}),
    spec.grammar('start: "(" start ")" | "abc"'),
    spec.grammar('root ::= "a" root "b" | "true"'),
    spec.json_schema(
        {"type": "array", "items": {"properties": {"kind": {"const": True}}}}, blanks="compact"
    ),
]


def ids(text: str) -> list[int]:
    return BYTES.encode(text, special=False)


def allowed(mask: GrammarMask, guesses: list[int] | None = None) -> list[int]:
    found: list[int] = mask.allowed(guesses or []).nonzero().flatten().tolist()
    return found


def written(grammar: GrammarSpec, text: list[int], *, wide: bool = False) -> GrammarMask:
    """A new mask at the end of a text."""
    mask = (WIDE if wide else GRAMMARS).mask(grammar)
    for token in text:
        mask.advance(token)
    return mask


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("grammar", SPECS, ids=lambda s: s.source[:20])
def test_whatever_was_asked_before_the_answer_is_that_of_a_new_mask(
    grammar: GrammarSpec, wide: bool
) -> None:
    rng = random.Random(7)
    mask, text = written(grammar, [], wide=wide), list[int]()
    n_ids = WIDE_TOKENIZER.vocab_size if wide else V
    for _ in range(30):
        path: list[int] = []
        for _ in range(rng.randrange(6)):
            here = allowed(mask, path)
            assert here == allowed(written(grammar, [*text, *path], wide=wide))
            for token in rng.sample(range(n_ids), 12) + here[:3]:
                other = written(grammar, text, wide=wide)
                assert other.accepts(path, token) == mask.accepts(path, token) == (token in here)
            forced = list(mask.forced(path))
            for at, token in enumerate(forced):
                assert allowed(mask, [*path, *forced[:at]]) == [token]
            path.append(rng.choice(here))
        text.append(rng.choice(path[:1] or allowed(mask)))
        mask.advance(text[-1])


def test_a_mask_is_what_a_list_of_all_texts_says() -> None:
    options = ["tea", "teas", "eat", "é"]
    mask = GRAMMARS.mask(spec.choice(options))
    spelled = [ids(option) for option in options]
    waiting: list[list[int]] = [[]]
    while waiting:
        path = waiting.pop()
        wanted = {s[len(path)] for s in spelled if s[: len(path)] == path and len(s) > len(path)}
        waiting += [[*path, token] for token in wanted]
        wanted |= {EOS} if path in spelled else set()
        assert allowed(mask, path) == sorted(wanted)


def test_each_mask_of_a_round_is_computed_once_and_kept_ones_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mask = GRAMMARS.mask(spec.regex("[ab]*"))
    a, b = ids("ab")
    computed: list[tuple[int, ...]] = []
    real = mask._compute

    def counted(path: tuple[int, ...]) -> bytes:
        computed.append(path)
        return real(path)

    monkeypatch.setattr(mask, "_compute", counted)
    tree = [(), (a,), (a, a), (a, b), (b,), (b, a)]
    for _ in range(3):
        for path in tree:
            mask.allowed(path)
    assert computed == tree
    mask.advance(a)
    for path in [(), (a,), (b,)]:
        mask.allowed(path)
    assert computed == tree


def test_padded_and_control_ids_are_never_text() -> None:
    mask = GRAMMARS.mask(spec.regex("(?s:.*)"))
    found = allowed(mask)
    assert EOS in found
    assert max(found) == EOS
    assert not any(mask.accepts((), token) for token in (EOS + 1, V - 1, V, V + 9, -1))
    assert allowed(mask, [V - 1]) == []
    assert not mask.accepts([V - 1], ids("a")[0])
    spelled = WIDE.mask(spec.choice(["<call>"]))
    call = WIDE_TOKENIZER.id_of("<call>")
    assert call is not None
    assert not spelled.accepts((), call), "a control token is not its name"


def test_a_grammar_may_call_a_control_token_by_name() -> None:
    call = WIDE_TOKENIZER.id_of("<call>")
    assert call is not None
    mask = WIDE.mask(spec.grammar('start: <call> "abc"'))
    assert allowed(mask) == [call]
    mask.advance(call)
    assert WIDE_TOKENIZER.decode(mask.forced(())[:1]) == "abc"


def test_after_the_end_only_the_end_is_allowed_and_the_matcher_is_not_asked() -> None:
    mask = GRAMMARS.mask(spec.choice(["a"]))
    (a,) = ids("a")
    assert list(mask.forced(())) == [a]
    assert list(mask.forced([a])) == [EOS]
    assert allowed(mask, [a]) == allowed(mask, [a, EOS]) == allowed(mask, [a, EOS, EOS]) == [EOS]
    assert list(mask.forced([a, EOS])) == []
    mask.advance(a)
    assert (mask.may_end, mask.ended) == (True, False)
    for _ in range(3):
        mask.advance(EOS)
        assert mask.ended
        assert allowed(mask) == [EOS]
        assert not mask.accepts((), a)
    assert mask._matcher.is_error() is False


def test_a_rejected_end_leaves_the_text_where_it_was() -> None:
    mask = GRAMMARS.mask(spec.regex("a?"))
    (a,) = ids("a")
    assert allowed(mask, [EOS]) == [EOS]
    assert allowed(mask, [a, EOS]) == [EOS]
    mask.advance(a)
    assert allowed(mask) == [EOS]
    assert not mask.ended


def test_stop_tokens_end_a_text_where_the_grammar_may_end_if_they_are_no_text() -> None:
    call, brace = WIDE_TOKENIZER.id_of("<call>"), WIDE_TOKENIZER.id_of("}")
    assert call is not None
    assert brace is not None
    mask = WIDE.mask(spec.regex(r"a\}?"), stop_token_ids=frozenset({call, brace}))
    assert not mask.accepts((), call)
    (a,) = WIDE_TOKENIZER.encode("a", special=False)
    assert mask.accepts([a], call)
    assert mask.accepts([a], brace)
    assert not mask.accepts([a, brace], brace)
    assert mask.accepts([a, brace], call)


@pytest.mark.parametrize(
    "value",
    [
        'q"uote', "back\\slash", "line\nbreak", "tab\t", "nul\0", "é", "日本", "😀", "a\u2028b",
    ],
)  # fmt: skip
@pytest.mark.parametrize("wide", [False, True])
def test_every_string_that_json_can_write_can_be_written(value: str, wide: bool) -> None:
    tokenizer = WIDE_TOKENIZER if wide else BYTES
    text = compact({"kind": value, "more": [value, {}]})
    mask = written(spec.json_object(), tokenizer.encode(text, special=False), wide=wide)
    assert mask.may_end, text


@pytest.mark.parametrize(
    "text", ['{"a":"\n"}', '{"a":"\x7f"}', '{"a":"\\x"}', "{'a':1}", '{"a":01}', "[]", " {}"]
)
def test_what_is_no_json_object_is_refused_where_it_goes_wrong(text: str) -> None:
    mask = GRAMMARS.mask(spec.json_object())
    tokens = ids(text)
    assert any(not mask.accepts(tokens[:at], token) for at, token in enumerate(tokens))


def test_a_token_may_span_several_of_jsons_own() -> None:
    grammar = spec.json_schema(
        {
            "type": "array", "maxItems": 1,
            "items": {"type": "object", "properties": {"kind": {"type": "boolean"}},
                      "required": ["kind"], "additionalProperties": False},
        },
        blanks="compact",
    )  # fmt: skip
    spanning = WIDE_TOKENIZER.id_of("true}]")
    assert spanning is not None
    text = WIDE_TOKENIZER.encode('[{"kind":', special=False)
    mask = written(grammar, text, wide=True)
    assert mask.accepts((), spanning)
    assert list(mask.forced([spanning])) == sorted(mask._ends), "nothing can follow but the end"


def test_half_a_character_is_no_end_of_a_string() -> None:
    mask = GRAMMARS.mask(spec.json_object())
    start, (first, second), quote = ids('{"'), ids("é"), ids('"')[0]
    assert not mask.accepts([*start, first], quote)
    assert mask.accepts([*start, first, second], quote)


def test_a_matcher_that_gives_up_on_a_guess_still_serves_the_text() -> None:
    tight = byte_grammars(limits=GrammarLimits(lexer_states=120))
    mask = tight.mask(spec.regex("x[ab]*|y[ab]*a[ab]{12}"))
    x, y, a, b = ids("xyab")
    rng = random.Random(1)
    wild = [y, *(rng.choice([a, b]) for _ in range(400))]
    dead = next(n for n in range(len(wild)) if not allowed(mask, wild[: n + 1]))
    assert dead > 10, "the limit is met in the middle of the guesses"
    assert allowed(mask, [x, a]) == sorted([a, b, EOS])
    mask.advance(x)
    assert allowed(mask) == sorted([a, b, EOS])


def test_a_text_that_left_the_grammar_is_a_dead_end_and_no_crash() -> None:
    mask = written(spec.choice(["ab"]), ids("b"))
    assert allowed(mask) == []
    assert list(mask.forced(())) == []
    mask.advance(ids("a")[0])
    assert allowed(mask, ids("b")) == []
