"""What clients send -> one grammar, or an error that names the field."""

import pytest

from outpace.errors import RequestError
from outpace.text.grammar.request import grammar_of
from outpace.text.grammar.spec import GrammarSpec

SCHEMA = {"type": "object", "properties": {"z": {}, "a": {}}}


def test_no_field_and_plain_text_ask_for_nothing() -> None:
    assert grammar_of() is None
    assert grammar_of(response_format={"type": "text"}) is None


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"response_format": {"type": "json_object"}}, GrammarSpec(kind="json_object")),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "strict": True, "schema": SCHEMA},
                }
            },
            GrammarSpec(
                kind="json_schema", source='{"type": "object", "properties": {"z": {}, "a": {}}}'
            ),
        ),
        ({"guided_json": '{"a":1}'}, GrammarSpec(kind="json_schema", source='{"a": 1}')),
        ({"guided_json": True}, GrammarSpec(kind="json_schema", source="{}")),
        ({"guided_regex": "a+"}, GrammarSpec(kind="regex", source="a+")),
        ({"guided_choice": ["é", "b", "é"]}, GrammarSpec(kind="choice", source='["é", "b"]')),
        ({"guided_grammar": 'start: "a"'}, GrammarSpec(kind="lark", source='start: "a"')),
        ({"guided_grammar": 'root ::= "a"'}, GrammarSpec(kind="ebnf", source='root ::= "a"')),
        (
            {"structured_outputs": {"regex": "a", "json": None}},
            GrammarSpec(kind="regex", source="a"),
        ),
        ({"structured_outputs": {"json_object": True}}, GrammarSpec(kind="json_object")),
        (
            {"structured_outputs": {"json": {}, "disable_any_whitespace": True}},
            GrammarSpec(kind="json_schema", source="{}", blanks="compact"),
        ),
        ({"structured_outputs": {"choice": ["a"]}}, GrammarSpec(kind="choice", source='["a"]')),
    ],
)  # fmt: skip
def test_every_way_of_asking_is_one_grammar(fields: dict[str, object], wanted: GrammarSpec) -> None:
    assert grammar_of(**fields) == wanted


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"response_format": "json"}, ["response_format is 'json'", "json_object"]),
        ({"response_format": {"type": "xml"}}, ["response_format.type is 'xml'", "json_schema"]),
        ({"response_format": {"type": "text", "x": 1}}, ["response_format.x", "not supported"]),
        ({"response_format": {"type": "json_schema"}}, ["response_format.json_schema is None"]),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
            ["response_format.json_schema.schema is missing"],
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": 3}}},
            ["response_format.json_schema.schema is 3", "object"],
        ),
        ({"guided_json": "{"}, ["guided_json is no JSON", "line 1"]),
        ({"guided_json": "[" * 100_000}, ["guided_json", "too deeply"]),
        ({"guided_json": False}, ["guided_json is False"]),
        ({"guided_json": {"a": float("nan")}}, ["guided_json", "plain JSON"]),
        ({"guided_json": {"a": {1, 2}}}, ["guided_json", "plain JSON"]),
        ({"guided_regex": ""}, ["guided_regex is empty"]),
        ({"guided_regex": ["a"]}, ["guided_regex is ['a']", "a regular expression"]),
        ({"guided_choice": []}, ["guided_choice is []", "at least one"]),
        ({"guided_choice": "ab"}, ["guided_choice is 'ab'", "list"]),
        ({"guided_choice": ["a", 1]}, ["guided_choice[1] is 1"]),
        ({"guided_choice": ["\ud800"]}, ["guided_choice", "surrogate"]),
        ({"guided_grammar": 7}, ["guided_grammar is 7"]),
        ({"guided_regex": "a", "guided_json": {}}, ["guided_json and guided_regex", "one of them"]),
        ({"structured_outputs": {}}, ["structured_outputs has none of them"]),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, ["regex and choice"]),
        ({"structured_outputs": {"structural_tag": {}}}, ["structured_outputs.structural_tag"]),
        ({"structured_outputs": {"json_object": 1}}, ["structured_outputs.json_object is 1"]),
        (
            {"structured_outputs": {"regex": "a", "disable_any_whitespace": True}},
            ["disable_any_whitespace", "leave it out"],
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_field(fields: dict[str, object], words: list[str]) -> None:
    with pytest.raises(RequestError) as caught:
        grammar_of(**fields)
    for word in words:
        assert word in str(caught.value)


def test_the_field_is_for_messages_and_not_part_of_the_grammar() -> None:
    one = grammar_of(guided_regex="a+")
    other = grammar_of(structured_outputs={"regex": "a+"})
    assert one is not None
    assert other is not None
    assert (one.name, other.name) == ("guided_regex", "structured_outputs.regex")
    assert one == other
    assert hash(one) == hash(other)
