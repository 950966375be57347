"""`outpace evaluate` in processes of its own: from `init` to a verdict and a report."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from evaluate.steps.lab import document, write

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    cache = tmp_path_factory.mktemp("cache")
    return {**os.environ, "OUTPACE_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}


@pytest.fixture
def call(tmp_path: Path, environment: dict[str, str]) -> Call:
    """Run `outpace evaluate ARGS` in a folder of its own."""

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "outpace.cli", "evaluate", *args],
            capture_output=True, text=True, check=False, timeout=240, cwd=tmp_path,
            stdin=subprocess.DEVNULL, env=environment,
        )  # fmt: skip

    return run


def tiny(folder: Path, **changes: object) -> dict[str, Any]:
    """A plan on a tiny model: the baseline is slowed down, so the candidate is faster."""
    return document(
        target={"model": str(folder), "threads": 1},
        arms={
            "baseline": {"drafter": "none", "test_only": {"slowdown": 6}},
            "candidate": {"drafter": "lookup", "depth": 2},
        },
        **changes,
    )


def test_from_a_plan_to_a_report(call: Call, folder: Path, tmp_path: Path) -> None:
    write(tmp_path, tiny(folder))
    linted = call("lint", "toy.yaml", "--json")
    assert linted.returncode == 0, linted.stderr
    assert json.loads(linted.stdout)["errors"] == 0
    done = call("run", "toy.yaml", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["words"], verdict["stopped"]) == ("SUPPORTED", None)
    study = tmp_path / "evaluation-toy"
    assert (study / "report.html").stat().st_size > 10_000
    assert json.loads((study / "report.json").read_text())["schema"] == 1
    status = json.loads(call("status", "evaluation-toy", "--json").stdout)
    assert set(status["done"]) == {"lock", "verify", "test", "confirm", "verdict"}
    assert status["next"] is None
    (study / "report.html").unlink()
    again = call("report", "evaluation-toy")
    assert again.returncode == 0, again.stderr
    assert "SUPPORTED" in again.stdout
    assert (study / "report.html").exists()
    same = call("compare", "evaluation-toy", "evaluation-toy", "--json")
    assert same.returncode == 0, same.stderr
    assert json.loads(same.stdout)["verdicts"] == ["SUPPORTED", "SUPPORTED"]


def test_phase_by_phase_and_a_second_lock(call: Call, folder: Path, tmp_path: Path) -> None:
    write(tmp_path, tiny(folder), 20)
    early = call("test", "toy.yaml")
    assert early.returncode == 4
    assert "test needs verify before it" in early.stderr
    assert call("lock", "toy.yaml").returncode == 0
    verified = call("verify", "toy.yaml")
    assert verified.returncode == 0, verified.stderr
    looked = call("tune", "toy.yaml", "--json")
    assert looked.returncode == 0, looked.stderr
    assert json.loads(looked.stdout)["comparisons"][0]["arm"] == "candidate"
    assert call("deviate", "toy.yaml", "--what", "the fan was loud").returncode == 0
    plan = yaml.safe_load((tmp_path / "toy.yaml").read_text())
    plan["design"]["blocks"] = 4
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(plan))
    changed = call("test", "toy.yaml")
    assert changed.returncode == 4
    assert "a changed plan is a new plan" in changed.stderr
    other = call("lock", "toy.yaml", "--out", "other")
    assert other.returncode == 0, other.stderr
    differ = call("compare", "evaluation-toy", "other")
    assert differ.returncode == 4
    assert "differ in plan, which nobody declared" in differ.stderr
    assert call("compare", "evaluation-toy", "other", "--treatment", "plan").returncode == 0


def test_interrupted_it_says_so_and_goes_on(
    folder: Path, tmp_path: Path, call: Call, environment: dict[str, str]
) -> None:
    write(tmp_path, tiny(folder))
    process = subprocess.Popen(
        [sys.executable, "-m", "outpace.cli", "evaluate", "run", "toy.yaml"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    records, deadline = tmp_path / "evaluation-toy" / "records.jsonl", time.monotonic() + 120
    while not (records.exists() and records.read_bytes().count(b"\n") > 9):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=60)
    assert process.returncode == 130, talk
    assert b"everything measured is kept" in talk
    kept = records.read_text().splitlines()
    assert len(kept) > 9
    done = call("run", "toy.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert records.read_text().splitlines()[: len(kept)] == kept


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("criteria:", "criterai:"), "there is no such key; did you mean criteria?"),
        (("drafter: lookup", "drafter: lokup"), "did you mean lookup"),
        (("dev: 0.2", "dev: 0.5"), "dev + test + confirm = 1.3; allowed: exactly 1"),
        (("source: prompts.jsonl", "source: none.jsonl"), "none.jsonl"),
        (("model: FOLDER", "model: no-such-model"), "no-such-model"),
    ],
)
def test_a_mistake_is_said_before_anything_is_measured(
    call: Call, folder: Path, tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    path = write(tmp_path, tiny(folder))
    old, new = (text.replace("FOLDER", str(folder)) for text in change)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    done = call("run", "toy.yaml")
    assert done.returncode == 4, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "evaluation-toy" / "records.jsonl").exists()


def test_wrong_use_is_no_verdict(call: Call, tmp_path: Path) -> None:
    assert call("run").returncode == 4
    assert call("run", "none.yaml").returncode == 4
    assert call("nonsense").returncode == 4
    assert call("status", str(tmp_path)).returncode == 4


def test_init_writes_plans_that_can_be_read(call: Call, tmp_path: Path) -> None:
    made = call("init", "mine.yaml", "--owner", "me: myself", "--statement", 'Say "yes"')
    assert made.returncode == 0, made.stderr
    linted = call("lint", "mine.yaml", "--json")
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert call("init", "mine.yaml").returncode == 4, "nothing is written over"
    ends = ("--baseline", "http://127.0.0.1:1/v1", "--candidate", "http://127.0.0.1:2/v1")
    made = call("init", "two.yaml", *ends, "--model", "m", "--prompts", "builtin")
    assert made.returncode == 0, made.stderr
    nobody = call("run", "two.yaml")
    assert nobody.returncode == 4
    assert "arm baseline: http://127.0.0.1:1 does not answer" in nobody.stderr
