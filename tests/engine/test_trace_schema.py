"""The published schemas: every line validates, and they say what the code says."""

import copy
import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from jsonschema import Draft202012Validator

import outpace
from engine.trace_world import SCENES, Scene, leaves, parsed, put, record
from outpace.engine.tracing import lines

PACKAGE = Path(outpace.__file__).parent


def _schema(name: str) -> Draft202012Validator:
    schema = json.loads((PACKAGE / name).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


TRACE = _schema("engine/trace.schema.json")
GENERATE = _schema("cli/generate.schema.json")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: str(scene.name))
def test_every_line_validates(scene: Scene, tmp_path: Path) -> None:
    record(tmp_path / "t.jsonl", scene)
    for line in parsed(tmp_path / "t.jsonl"):
        TRACE.validate(line)


def test_a_value_of_another_type_does_not_validate(tmp_path: Path) -> None:
    record(tmp_path / "t.jsonl", SCENES[6])
    for line in parsed(tmp_path / "t.jsonl")[:3]:
        for place, _ in leaves(line):
            changed = copy.deepcopy(line)
            put(changed, place, {"an": "object"})
            assert not TRACE.is_valid(changed), place
        assert not TRACE.is_valid({**line, "more": 1})


def test_the_schema_has_the_formats_fields_and_no_others() -> None:
    defs = json.loads((PACKAGE / "engine/trace.schema.json").read_text(encoding="utf-8"))["$defs"]
    seen: set[str] = set()
    for kind in (lines.Header, lines.Request, lines.Round, lines.End):
        _compare(kind, defs, seen)
    assert seen == set(defs)


def _compare(kind: type, defs: dict[str, Any], seen: set[str]) -> None:  # Any: a JSON document
    name = kind.__name__[0].lower() + kind.__name__[1:]
    if name in seen or not is_dataclass(kind):
        return
    seen.add(name)
    expected = {field.name for field in fields(kind)}
    if "kind" in expected:
        expected.add("sha256")
    assert set(defs[name]["properties"]) == expected
    assert set(defs[name]["required"]) == expected
    assert defs[name]["additionalProperties"] is False
    for hint in get_type_hints(kind).values():
        for part in (hint, *getattr(hint, "__args__", ())):
            if isinstance(part, type):
                _compare(part, defs, seen)


DOCUMENT: dict[str, Any] = {
    "text": "a b",
    "token_ids": [1, 2],
    "finish_reason": "length",
    "prompt_tokens": 3,
    "completion_tokens": 2,
    "model": "table",
    "drafter": "lookup",
    "rule": "match",
    "seed": 2**64 - 1,
    "rounds": 1,
    "drafted": 4,
    "kept": 1,
    "acceptance_length": 2.0,
    "tokens_per_s": 10.5,
    "seconds": dict.fromkeys(
        ("load", "prefill", "draft", "score", "accept", "resample", "other", "total"), 0.5
    ),
}
EXTRA = {
    "promise": "same text",
    "weights": "safetensors bf16",
    "runtime": "native",
    "prompt_token_ids": [5],
}


def test_the_json_of_generate_validates_with_and_without_a_comparison() -> None:
    GENERATE.validate(DOCUMENT)
    GENERATE.validate({**DOCUMENT, **EXTRA})
    plain = {**DOCUMENT, **EXTRA, "drafter": "none"}
    GENERATE.validate({**DOCUMENT, "plain": plain, "same_text": True, "speedup": 1.5})


def test_a_wrong_document_of_generate_does_not_validate() -> None:
    for key in DOCUMENT:
        assert not GENERATE.is_valid({k: v for k, v in DOCUMENT.items() if k != key})
        assert not GENERATE.is_valid({**DOCUMENT, key: None})
    assert not GENERATE.is_valid({**DOCUMENT, "more": 1})
    assert not GENERATE.is_valid({**DOCUMENT, "speedup": 1.5})
    assert not GENERATE.is_valid({**DOCUMENT, "promise": "faster"})
    nested = {**DOCUMENT, "plain": DOCUMENT, "same_text": True, "speedup": 1.0}
    assert not GENERATE.is_valid({**nested, "plain": nested})
