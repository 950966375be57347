"""The published shapes, as JSON Schema: plan, ledger entry, record, report.

They follow from the types: `python -m outpace.evaluate.schemas` writes the files anew after a
change, and a test compares them.
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def published() -> dict[str, str]:
    """File name -> content, as it must be."""
    from outpace.evaluate import ledger, measurement
    from outpace.evaluate.plan.document import Plan
    from outpace.evaluate.report import shape

    made = {
        "plan": ("A plan of outpace evaluate", Plan.model_json_schema()),
        "ledger": ("A line of outpace evaluate's ledger", ledger.adapter().json_schema()),
        "report": (
            "A report of outpace evaluate",
            shape.adapter().json_schema(mode="serialization"),
        ),
        "record": ("A line of outpace evaluate's records", measurement.adapter().json_schema()),
    }
    return {f"{name}.schema.json": _text(title, schema) for name, (title, schema) in made.items()}


def _text(title: str, schema: dict[str, Any]) -> str:
    _close(schema)
    document = {"$schema": _DRAFT, **schema, "title": title}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _close(schema: object) -> None:
    """Objects with named properties have no others, as readers insist."""
    if isinstance(schema, dict):
        if "properties" in schema and schema.get("type") == "object":
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            _close(part)
    elif isinstance(schema, list):
        for part in schema:
            _close(part)
