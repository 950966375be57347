"""Killed at any moment, a study goes on and comes to the verdict of its records."""

import json
import os
import subprocess
import sys
from pathlib import Path

from evaluate.steps.lab import study_of
from outpace.evaluate.judge import conclude

TESTS = Path(__file__).parents[2]


def test_killed_at_twenty_points_nothing_measured_is_lost(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "evaluate.steps.killed", str(tmp_path), "20", "1"],
        capture_output=True, text=True, check=False, timeout=280, cwd=TESTS,
        env={**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    studies = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(s["kills"] for s in studies) == 20
    for found in studies:
        assert found["ended"] == "done", done.stderr
        assert found["kept"], "a line that was written is gone"
        assert (found["stated"], found["openings"]) == ("SUPPORTED", 1), "opened once"
        # 20 test and 12 confirmation prompts, two arms, two blocks.
        assert found["answered"] == 2 * 2 * 32
        study = study_of(Path(found["folder"]) / "toy.yaml")
        again = conclude(study.plan, study.measurements(), study.statements)
        assert found["stated"] == again.words
