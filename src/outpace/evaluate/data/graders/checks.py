"""Checks as a data file writes them: what an answer must be, said before anybody answers."""

import json
import re
from collections.abc import Iterator
from typing import Annotated, Literal, Self

import jsonschema
from pydantic import Field, JsonValue, TypeAdapter, model_validator
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from outpace.evaluate.plan.shape import Many, Shape, wrong

Word = Annotated[str, Field(min_length=1)]


class Exact(Shape):
    """The whole answer is one of these, space around it aside. normalised: also letter case,
    punctuation and spacing (`graders.text.normal`)."""

    type: Literal["exact"]
    answers: Annotated[Many[Word], Field(min_length=1)]
    normalised: bool = False


class Contains(Shape):
    """All of `all`, at least one of `any` where it has any, and none of `none`, as whole words
    where `normalised` (letter case, punctuation and spacing aside), else as they are written."""

    type: Literal["contains"]
    all: Many[Word] = ()
    any: Many[Word] = ()
    none: Many[Word] = ()
    normalised: bool = True

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.all or self.any or self.none):
            raise wrong("none of all, any, none: every answer would pass")
        return self


class Numeric(Shape):
    """The last number of the answer is this one, within tolerance, an absolute difference."""

    type: Literal["numeric"]
    answer: float
    tolerance: Annotated[float, Field(ge=0)] = 1e-6


class Regex(Shape):
    """A Python pattern is found. whole: it matches the whole answer, space around it aside."""

    type: Literal["regex"]
    pattern: Word
    whole: bool = False

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise wrong(f"{self.pattern!r} is no pattern: {error}", key="pattern") from None
        return self


class Json(Shape):
    """The answer has a JSON document, alone or in a fence, that fits a JSON Schema. equals: and
    is this value; 1 and 1.0 are one number, the order of keys is none."""

    type: Literal["json"]
    fits: dict[str, JsonValue] = Field(default_factory=dict)
    equals: JsonValue = None

    @model_validator(mode="after")
    def _is_schema(self) -> Self:
        try:
            jsonschema.Draft202012Validator.check_schema(self.fits)
        except jsonschema.SchemaError as error:
            raise wrong(f"no JSON Schema (2020-12): {error.message}", key="fits") from None
        whole = Registry().with_resource("", DRAFT202012.create_resource(self.fits))
        for ref in _references(self.fits):
            try:
                whole.resolver().lookup(ref)
            except Unresolvable:
                message = f"$ref {ref!r} leads out of the schema; other documents are not fetched"
                raise wrong(message, key="fits") from None
        return self


def _references(schema: JsonValue) -> Iterator[str]:
    if isinstance(schema, dict):
        found = schema.get("$ref")
        if isinstance(found, str):
            yield found
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


class Python(Shape):
    """The code in the answer passes these tests: Python, with the standard library alone."""

    type: Literal["python"]
    tests: Word

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        try:
            compile(self.tests, "tests", "exec")
        except (SyntaxError, ValueError) as error:
            raise wrong(f"the tests are no Python: {error}", key="tests") from None
        return self


Check = Annotated[Exact | Contains | Numeric | Regex | Json | Python, Field(discriminator="type")]
ADAPTER: TypeAdapter[Check] = TypeAdapter(Check)


def canonical(check: Check) -> str:
    """A check with one spelling, for digests; what is not said is not in it."""
    said = ADAPTER.dump_python(check, mode="json", exclude_unset=True)
    return json.dumps(said, sort_keys=True, ensure_ascii=False)
