"""The soak in small: everything at once for some seconds, and it stays right, fair and flat."""

import importlib.util
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "soak.py"


def test_some_seconds_of_everything_at_once() -> None:
    spec = importlib.util.spec_from_file_location("soak", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    soak = importlib.util.module_from_spec(spec)
    sys.modules["soak"] = soak
    spec.loader.exec_module(soak)
    args = soak.parse(["--toy", "--minutes", "0.12", "--pool", "600", "--readers", "16"])
    found = soak.run(args)
    assert found["problems"] == []
    assert found["ends"]["length"] > 50
    assert found["ends"]["abort"] > 0, "some readers were meant to leave"
    assert found["ends"]["preempted"] > 0, "the pool was meant to be too small"
    assert found["compared_alone"] == 12
    assert found["idle_checks"] >= 3
