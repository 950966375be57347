"""`outpace batch` in a process of its own: what it says, and what survives kill -9."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.conftest import Run
from cli.held import command as held_command
from cli.held import environment


def requests_of(path: Path, n: int, max_tokens: int) -> Path:
    lines = [
        {"custom_id": f"r{i}", "method": "POST", "url": "/v1/completions",
         "body": {"prompt": f"number {i}", "max_tokens": max_tokens, "temperature": 0,
                  "ignore_eos": True}}
        for i in range(n)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    return path


def texts_of(path: Path) -> dict[str, str]:
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    texts = {x["custom_id"]: x["response"]["body"]["choices"][0]["text"] for x in lines}
    assert len(texts) == len(lines), "a line was answered twice"
    return texts


def start(
    folder: Path, *args: str, cache: Path, held: int | None = None
) -> subprocess.Popen[bytes]:
    """The command line in a process of its own. held: its work stands still after so many items."""
    command = [sys.executable, "-m", "outpace.cli", *args] if held is None else (
        held_command(held, *args)
    )  # fmt: skip
    return subprocess.Popen(
        [*command, "--model", str(folder), "--threads", "1"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=environment(OUTPACE_CACHE=str(cache), HF_HUB_OFFLINE="1"),
    )  # fmt: skip


def test_a_batch_is_answered_and_talks_on_stderr(run: Run, tmp_path: Path) -> None:
    asked, out = requests_of(tmp_path / "in.jsonl", 5, 6), tmp_path / "out.jsonl"
    done = run("batch", str(asked), str(out), "-c", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "5 answered now, 0 of them with an error; 0 left" in done.stderr
    assert len(texts_of(out)) == 5
    again = run("batch", str(asked), str(out))
    assert "5 lines were answered before" in again.stderr


def test_files_that_are_none_are_named(run: Run, tmp_path: Path) -> None:
    done = run("batch", str(tmp_path / "none"), str(tmp_path / "out.jsonl"))
    assert done.returncode == 2
    assert "cannot read" in done.stderr
    assert run("batch", "x", str(tmp_path / "no" / "out.jsonl")).returncode == 2


@pytest.fixture(scope="module")
def whole(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The answers of a run that nobody interrupted."""
    root = tmp_path_factory.mktemp("whole")
    asked = requests_of(root / "in.jsonl", 24, 60)
    assert run("batch", str(asked), str(root / "out.jsonl")).returncode == 0
    return texts_of(root / "out.jsonl")


def await_growth(out: Path, before: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while (not out.exists() or out.stat().st_size == before) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_killed_at_any_point_it_goes_on(
    run: Run, folder: Path, tmp_path: Path, whole: dict[str, str]
) -> None:
    asked, out = requests_of(tmp_path / "in.jsonl", 24, 60), tmp_path / "out.jsonl"
    for _ in range(2):
        before = out.stat().st_size if out.exists() else 0
        process = start(folder, "batch", str(asked), str(out), "-c", "4", cache=tmp_path)
        await_growth(out, before, process)
        time.sleep(random.uniform(0, 0.1))
        process.kill()
        process.communicate(timeout=120)
    assert run("batch", str(asked), str(out)).returncode == 0
    assert texts_of(out) == whole


def test_interrupted_it_says_so_and_goes_on(
    run: Run, folder: Path, tmp_path: Path, whole: dict[str, str]
) -> None:
    asked, out = requests_of(tmp_path / "in.jsonl", 24, 60), tmp_path / "out.jsonl"
    process = start(folder, "batch", str(asked), str(out), "-c", "4", cache=tmp_path, held=8)
    await_growth(out, 0, process)
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=120)
    assert process.returncode == 130, talk.decode()
    assert b"again to continue" in talk
    assert 1 <= len(texts_of(out)) <= 8
    assert run("batch", str(asked), str(out)).returncode == 0
    assert texts_of(out) == whole
