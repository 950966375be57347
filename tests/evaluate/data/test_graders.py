"""A check passes the answers it is meant to pass and says why it does not pass others."""

import time

import pytest
from pydantic import ValidationError

from outpace.evaluate.data.graders.checks import ADAPTER, Json, Regex, canonical
from outpace.evaluate.data.graders.document import find_document, same
from outpace.evaluate.data.graders.grade import grade_text
from outpace.evaluate.data.graders.patterns import fits, regex
from outpace.evaluate.data.graders.program import find_code
from outpace.evaluate.data.graders.text import last_number, normal
from outpace.evaluate.measurement import Grade


def graded(text: str, **check: object) -> Grade:
    return grade_text(ADAPTER.validate_python(check), text)


def passes(text: str, **check: object) -> bool:
    passed = graded(text, **check).passed
    assert passed is not None
    return passed


def test_exact_is_the_whole_answer_but_for_the_space_around_it() -> None:
    assert passes(" Paris \n", type="exact", answers=["Paris"])
    assert not passes("paris", type="exact", answers=["Paris"])
    assert not passes("It is Paris", type="exact", answers=["Paris"])
    assert passes("Lyon", type="exact", answers=["Paris", "Lyon"])


def test_normalised_sets_case_punctuation_spacing_and_width_aside() -> None:
    assert passes("**The  answer:** it's PARIS!", type="exact", normalised=True,
                  answers=["the answer its paris"])  # fmt: skip
    assert normal("Ｆｕｌｌ－ｗｉｄｔｈ, naïve “quotes”") == "full width naïve quotes"
    assert normal("50 % + 2") == "50 % + 2"


def test_contains_finds_words_not_pieces_of_words() -> None:
    assert passes("The cat sat.", type="contains", all=["Cat", "SAT"])
    assert not passes("A category.", type="contains", all=["cat"])
    assert passes("dog", type="contains", any=["cat", "dog"])
    assert not passes("bird", type="contains", any=["cat", "dog"])
    assert not passes("a cat and a dog", type="contains", all=["cat"], none=["dog"])
    assert passes("今日は図書館へ行きます。", type="contains", all=["図書館"])
    assert not passes("Cat", type="contains", all=["cat"], normalised=False)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 42.", 42),
        ("3 + 4 = 7", 7),
        ("1,234,567.5 euros", 1234567.5),
        ("1.234.567,5 Euro", 1234567.5),
        ("12,5 %", 12.5),
        ("It costs 1,200", 1200),
        ("1\u202f234,5", 1234.5),
        ("−5 °C", -5),
        ("from 10-5", 5),
        ("about -3.2e-4 m", -0.00032),
        ("$0.75", 0.75),
        ("**17**", 17),
        ("x = 2, y = 3,", 3),
        ("version v2", None),
        ("none", None),
    ],
)
def test_the_last_number_is_read_as_people_write_it(text: str, number: float | None) -> None:
    assert last_number(text) == number


def test_numeric_allows_its_tolerance_and_no_more() -> None:
    assert passes("so 3.14", type="numeric", answer=3.1416, tolerance=0.01)
    assert not passes("so 3.2", type="numeric", answer=3.1416, tolerance=0.01)
    assert graded("none", type="numeric", answer=3).reason == "no number; wanted 3"


def test_regex_is_found_anywhere_or_whole() -> None:
    assert passes("on 2024-05-01.", type="regex", pattern=r"\d{4}-\d\d-\d\d")
    assert not passes("on 2024-05-01.", type="regex", pattern=r"\d{4}-\d\d-\d\d", whole=True)
    assert passes(" 2024-05-01\n", type="regex", pattern=r"\d{4}-\d\d-\d\d", whole=True)


def test_a_pattern_that_never_ends_is_ended() -> None:
    began = time.monotonic()
    check = Regex(type="regex", pattern=r"(a|aa|a+)+$")
    passed, reason = regex(check, "a" * 60 + "!", deadline_s=1.0)
    assert not passed
    assert "not done" in reason
    schema = {"type": "string", "pattern": r"^(a|aa|a+)+$"}
    passed, reason = fits(schema, "a" * 60 + "!", deadline_s=2.0)  # type: ignore[arg-type]
    assert not passed
    assert "not done" in reason
    assert time.monotonic() - began < 100


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def test_json_is_found_alone_in_a_fence_or_in_a_sentence() -> None:
    good = '{"name": "Ada", "age": 36}'
    for text in (good, f"Here:\n```json\n{good}\n```\nDone.", f"Sure! {good} is it."):
        assert passes(text, type="json", fits=PERSON, equals={"age": 36.0, "name": "Ada"})
    assert not passes('{"name": "Ada"}', type="json", fits=PERSON)
    assert graded("no document", type="json").reason == "no JSON document in the answer"
    assert not passes('{"name": "Bo", "age": 36}', type="json", equals={"name": "Ada", "age": 36})
    assert not passes('{"a": NaN}', type="json")
    assert not passes("[" * 100_000, type="json")


def test_json_with_patterns_fits_or_not() -> None:
    schema = {"type": "array", "items": {"pattern": "^a"}}
    assert passes('["ab"]', type="json", fits=schema)
    assert graded('["b"]', type="json", fits=schema).reason == "$[0]: 'b' does not match '^a'"


def test_null_can_be_wanted_and_truth_is_no_number() -> None:
    assert passes("null", type="json", equals=None)
    assert not passes("0", type="json", equals=None)
    assert same([1, {"a": 1.0}], [1.0, {"a": 1}])
    assert not same(True, 1)
    assert not same([1], [1, 2])
    assert find_document("first {bad} then [1, 2] and {}") == [1, 2]


def test_code_is_what_the_fences_hold() -> None:
    assert find_code("def f(): ...") == "def f(): ..."
    assert find_code("So:\n```python\na = 1\n```\nand\n```\nb = 2\n```\n") == "a = 1\n\nb = 2\n"
    assert find_code("Run\n```bash\nls\n```\n```py\na = 1\n```") == "a = 1\n"
    assert find_code("```python\na = 1") == "a = 1"


def test_python_is_graded_by_its_tests() -> None:
    check = {"type": "python", "tests": "assert f(2) == 4"}
    grade = graded("```python\ndef f(x): return x * 2\n```", **check)
    assert grade.passed in (True, None)
    if grade.passed is None:
        assert "wall" in grade.reason
    else:
        assert graded("def f(x): return x", **check).passed is False


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ({"type": "exact", "answers": []}, "answers"),
        ({"type": "exact", "answer": "x"}, "no such key"),
        ({"type": "contains"}, "every answer would pass"),
        ({"type": "regex", "pattern": "("}, "no pattern"),
        ({"type": "json", "fits": {"type": "objekt"}}, "no JSON Schema"),
        ({"type": "json", "fits": {"$ref": "https://schemas.invalid/x.json"}}, "x.json"),
        ({"type": "json", "fits": {"items": {"$ref": "#/$defs/none"}}}, "defs/none"),
        ({"type": "python", "tests": "assert ("}, "no Python"),
        ({"type": "numeric", "answer": "4"}, "number"),
        ({"type": "numeric", "answer": 4, "tolerance": -1}, "greater"),
        ({"type": "sentiment"}, "tag"),
    ],
)
def test_a_check_that_is_wrong_is_refused_at_once(check: object, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        ADAPTER.validate_python(check)


def test_an_endless_answer_fails_without_being_read() -> None:
    grade = graded("x" * (2 << 20), type="contains", all=["x"])
    assert grade.passed is False
    assert "characters" in grade.reason


def test_the_spelling_of_a_check_does_not_change_its_digest() -> None:
    a = ADAPTER.validate_python({"type": "json", "fits": {"a": 1, "b": 2}})
    b = ADAPTER.validate_python({"fits": {"b": 2, "a": 1}, "type": "json"})
    assert canonical(a) == canonical(b)
    assert canonical(Json(type="json", equals=None)) != canonical(Json(type="json"))
