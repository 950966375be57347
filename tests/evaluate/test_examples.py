"""The shipped plans are plans, and nothing in them is an error."""

from pathlib import Path

import pytest

from outpace.evaluate.steps.locking import findings
from outpace.evaluate.study import found_at

PLANS = sorted((Path(__file__).parents[2] / "examples" / "plans").glob("*.yaml"))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_shipped_plan_can_be_locked(path: Path, tmp_path: Path) -> None:
    found = findings(found_at(path, tmp_path / "study"))
    assert not [f for f in found if f.level == "error"], found


def test_there_are_some() -> None:
    assert {path.stem for path in PLANS} >= {"smollm2-auto", "vllm-ngram"}
