"""The published schemas are those of the types, and say yes and no where readers do."""

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from evaluate.plans import WHOLE, changed
from evaluate.test_ledger import statement
from evaluate.test_measurement import measurement, window
from outpace.evaluate.ledger import LEDGER, Ledger
from outpace.evaluate.measurement import to_line
from outpace.evaluate.schemas import FOLDER, published


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_published_is_what_the_types_say() -> None:
    for name, content in published().items():
        assert (FOLDER / name).read_text("utf-8") == content, (
            "run python -m outpace.evaluate.schemas"
        )
    assert {path.name for path in FOLDER.glob("*.json")} == set(published())


def test_plans() -> None:
    check = validator("plan")
    assert not list(check.iter_errors(yaml.safe_load(WHOLE)))
    for step in [
        ("desing", {}),
        ("criteria.2.min_efect", 1.2),
        ("criteria.2.alpha", 2),
        ("arms.candidate.draftr", "x"),
        ("load.scenarios.2.time_unit", "sec"),
    ]:
        assert list(check.iter_errors(yaml.safe_load(changed(step)))), step


@pytest.mark.parametrize("record", [measurement(), window()], ids=["measurement", "window"])
def test_records(record: object) -> None:
    check = validator("record")
    line = json.loads(json.dumps(to_line(record)))  # type: ignore[arg-type]
    assert not list(check.iter_errors(line))
    assert list(check.iter_errors({**line, "who": "x"}))
    assert list(check.iter_errors({**line, "phase": "x"}))


def test_ledger_lines(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.append(statement("lock", note="x"))
    line = json.loads((tmp_path / LEDGER).read_text("utf-8"))
    check = validator("ledger")
    assert not list(check.iter_errors(line))
    assert list(check.iter_errors({**line, "sha256": "short"}))
    assert list(check.iter_errors({**line, "who": "x"}))
