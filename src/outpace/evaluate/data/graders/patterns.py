"""Patterns, matched by a process that can be stopped: a pattern may take time without end.

Python's `re` cannot be interrupted. The pattern is the plan's, the text the model's, and the two
together can take longer than the universe, so a regex, or a JSON Schema that has one, is judged in
a child with a deadline. The child is trusted; it is not the sandbox.
"""

import json
import subprocess
import sys

from jsonschema import Draft202012Validator
from pydantic import JsonValue
from referencing import Registry

from outpace.evaluate.data.graders.checks import Regex
from outpace.evaluate.data.graders.text import Found, short

DEADLINE_S = 10.0
_MATCH = """
import json, re, sys
q = json.load(sys.stdin)
match = re.fullmatch if q["whole"] else re.search
print(json.dumps(match(q["pattern"], q["text"]) is not None))
"""
_FIT = """
import json, sys
from jsonschema import Draft202012Validator
from referencing import Registry
q = json.load(sys.stdin)
validator = Draft202012Validator(q["schema"], registry=Registry())
error = next(iter(validator.iter_errors(q["document"])), None)
print(json.dumps("" if error is None else f"{error.json_path}: {error.message}"[:300]))
"""


def regex(check: Regex, text: str, *, deadline_s: float = DEADLINE_S) -> Found:
    """Whether the pattern is found."""
    question = {"pattern": check.pattern, "whole": check.whole, "text": text.strip()}
    answer = _ask(_MATCH, question, deadline_s, site=False)
    if answer is None:
        return False, f"{short(check.pattern)} was not done with this answer in {deadline_s:g} s"
    return (True, "") if answer else (False, f"{short(check.pattern)} does not match")


def fits(
    schema: dict[str, JsonValue], document: object, *, deadline_s: float = DEADLINE_S
) -> Found:
    """Whether a document fits a schema."""
    answer: object
    if _has_pattern(schema):
        answer = _ask(_FIT, {"schema": schema, "document": document}, deadline_s, site=True)
        if answer is None:
            return False, f"a pattern of the schema was not done in {deadline_s:g} s"
    else:
        answer = misfit(schema, document)
    return not answer, str(answer)


def misfit(schema: dict[str, JsonValue], document: object) -> str:
    """Why a document does not fit; nothing where it does. Other documents are never fetched."""
    validator = Draft202012Validator(schema, registry=Registry())
    try:
        error = next(iter(validator.iter_errors(document)), None)
    except RecursionError:
        return "nested too deep"
    return "" if error is None else f"{error.json_path}: {error.message}"[:300]


def _has_pattern(schema: object) -> bool:
    if isinstance(schema, dict):
        return any(k in ("pattern", "patternProperties") or _has_pattern(schema[k]) for k in schema)
    return isinstance(schema, list) and any(map(_has_pattern, schema))


def _ask(program: str, question: object, deadline_s: float, *, site: bool) -> object:
    """What the child says; None = it was stopped."""
    flags = ["-I"] if site else ["-I", "-S"]
    try:
        done = subprocess.run(
            [sys.executable, *flags, "-c", program], input=json.dumps(question).encode(),
            capture_output=True, check=True, timeout=deadline_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    said: object = json.loads(done.stdout)
    return said
