"""Structured outputs from the command line."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from cli.conftest import Run

SCHEMA = {
    "type": "object", "required": ["name", "ok"], "additionalProperties": False,
    "properties": {"name": {"type": "string", "maxLength": 5}, "ok": {"type": "boolean"}},
}  # fmt: skip


def test_an_answer_may_have_to_be_json(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    done = run("generate", "hi", "-n", "200", "--json-schema", str(path), "--json", "--compare")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["same_text"] is True
    assert document["finish_reason"] == "eos"
    jsonschema.validate(json.loads(document["text"]), SCHEMA)


def test_an_answer_may_have_to_match_or_to_be_one_of_a_few(run: Run) -> None:
    done = run("generate", "hi", "--regex", "[a-f]{3}-[0-9]{2}", "-t", "1")
    assert re.fullmatch(r"[a-f]{3}-[0-9]{2}\n", done.stdout), done.stderr
    done = run("generate", "hi", "--choice", "ja", "--choice", "nein", "-t", "1", "--seed", "2")
    assert done.stdout in ("ja\n", "nein\n"), done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--regex", "["], ["--regex", "unclosed"]),
        (["--regex", ""], ["--regex is empty"]),
        (["--regex", "a", "--choice", "b"], ["--regex and --choice", "one of them"]),
        (["--json-schema", "no/such/file"], ["--json-schema: cannot read no/such/file"]),
        (["--json-schema", __file__], ["--json-schema is no JSON", "line 1"]),
        (["--choice", "ja", "--min-tokens", "9"], ["no token is allowed next", "min_tokens"]),
    ],
)
def test_what_is_wrong_is_named(run: Run, args: list[str], words: list[str]) -> None:
    done = run("generate", "hi", *args)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
