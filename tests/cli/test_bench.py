"""`outpace bench` in a process of its own: table, JSON, records, and going on after a kill."""

import json
import signal
import time
from pathlib import Path

import pytest

from cli.conftest import Run
from cli.test_batch import start
from outpace.bench.record import read_records

SMALL = ("--requests", "4", "--max-tokens", "12", "--warm-up", "1", "--ignore-eos")


def test_one_document_with_arms_compared(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("bench", *SMALL, "-c", "1,2", "--arms", "none,lookup@fixed:4", "--out", str(out),
               "--json", "--slo", "ttft:5000")  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [(c["load"], c["arm"]) for c in document["cells"]] == [
        (load, arm) for load in ("closed:1", "closed:2") for arm in ("none", "lookup@fixed:4")
    ]
    for compared in document["comparisons"]:
        assert compared["same_text"] == compared["texts"] == 8
        assert compared["e2el"]["n"] == 4
    assert all(c["goodput_per_s"] > 0 and c["failed"] == 0 for c in document["cells"])
    assert document["cells"][0]["acceptance"]["waste"] is None
    assert len(read_records(out / "records.jsonl").requests) == 32
    again = run("bench", *SMALL, "-c", "1,2", "--arms", "none,lookup@fixed:4", "--out", str(out))
    assert again.returncode == 0, again.stderr
    assert "no data" in again.stdout
    assert "tokens/pass" in again.stdout
    assert len(read_records(out / "records.jsonl").requests) == 32, "nothing is measured again"
    other = run("bench", *SMALL, "-c", "4", "--out", str(out))
    assert other.returncode == 2
    assert "different: arms, loads" in other.stderr


def test_arrivals_by_chance_and_by_trace(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n0,9,3\n100,30,5\n200,9,4\n")
    made = run("bench", *SMALL, "--arms", "none", "--repeats", "1", "--trace", str(trace),
               "--time-unit", "ms", "--out", str(tmp_path / "a"), "--json")  # fmt: skip
    assert made.returncode == 0, made.stderr
    records = read_records(tmp_path / "a" / "records.jsonl")
    assert sorted(r.completion_tokens for r in records.requests) == [3, 4, 5]
    made = run("bench", *SMALL, "--arms", "none", "--repeats", "1", "--rate", "50",
               "--out", str(tmp_path / "b"))  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert "poisson:50" in made.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--arms", "nnone"), "no drafter"),
        (("--arms", "auto@x"), "speculation"),
        (("-c", "x"), "--concurrency"),
        (("-c", "0"), "concurrency is 0"),
        (("--slo", "speed:3"), "objective"),
        (("--trace", "t.csv"), "--time-unit"),
        (("--prompts", "none.jsonl"), "cannot read the prompts"),
        (("-n", "0"), "max_tokens"),
    ],
)
def test_what_is_wrong_is_named(run: Run, args: tuple[str, ...], message: str) -> None:
    done = run("bench", *args)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_it_keeps_what_it_has_and_goes_on(
    run: Run, folder: Path, tmp_path: Path, how: signal.Signals
) -> None:
    out = tmp_path / "out"
    args = ("bench", *SMALL, "-c", "2", "--repeats", "4", "--arms", "none,lookup@fixed:4",
            "--out", str(out))  # fmt: skip
    held = 5 if how == signal.SIGINT else None  # the second block's first request ends, no other
    process = start(folder, *args, cache=tmp_path, held=held)
    path, deadline = out / "records.jsonl", time.monotonic() + 120
    while not (path.exists() and b'"kind":"block"' in path.read_bytes()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(how)
    _, talk = process.communicate(timeout=120)
    if how == signal.SIGINT:
        assert process.returncode == 130, talk.decode()
        assert b"interrupted; records" in talk
        assert len(read_records(path).done) == 1
    assert run(*args).returncode == 0
    records = read_records(path)
    assert (len(records.done), len(records.requests)) == (8, 32)
