"""`outpace bench --base-url` in a process of its own, against a server in this one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import held
from outpace.bench.record import read_records
from outpace.server.settings import Settings
from server.live import Live, running
from small import small_model

SMALL = ("--requests", "4", "--max-tokens", "12", "--warm-up", "1", "--ignore-eos")
KEY = "TEST_ENDPOINT_KEY"


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with running(
        small_model(context_tokens=4000), Settings(port=0, api_keys=("sesame",))
    ) as server:
        yield server
        server.idle()


def command(live: Live, *args: str) -> list[str]:
    return [sys.executable, "-m", "outpace.cli", "bench", "--base-url", f"{live.url}/v1",
            *SMALL, *args]  # fmt: skip


def bench(live: Live, *args: str, key: str = "sesame") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(live, *args), capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, KEY: key},
    )  # fmt: skip


def test_one_document_with_settings_compared(live: Live, tmp_path: Path) -> None:
    asked = ("--arms", "off,auto", "-c", "1,2", "--out", str(tmp_path), "--api-key-env", KEY)
    done = bench(live, *asked, "--json", "--slo", "ttft:5000")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [(c["load"], c["arm"]) for c in document["cells"]] == [
        (load, arm) for load in ("closed:1", "closed:2") for arm in ("off", "auto")
    ]
    assert [(c["same_text"], c["texts"]) for c in document["comparisons"]] == [(8, 8), (8, 8)]
    assert all(c["failed"] == 0 and c["goodput_per_s"] > 0 for c in document["cells"])
    assert document["facts"]["base_url"] == live.url
    assert any("latencies are those of this client" in note for note in document["notes"])
    assert "sesame" not in done.stdout + done.stderr + (tmp_path / "records.jsonl").read_text()
    again = bench(live, *asked)
    assert again.returncode == 0, again.stderr
    assert "tokens/pass" in again.stdout
    assert len(read_records(tmp_path / "records.jsonl").requests) == 32, "nothing is asked again"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "refuses the key"),
        (("--api-key-env", "NO_SUCH_VARIABLE"), "api_key_env names NO_SUCH_VARIABLE"),
        (("--api-key-env", KEY, "--model", "other"), "no model 'other'; it lists small"),
        (("--api-key-env", KEY, "--arms", "lookup"), "arm 'lookup'"),
    ],
)
def test_what_is_wrong_is_named(
    live: Live, tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    done = bench(live, *args, "--out", str(tmp_path / "out"))
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_interrupted_it_keeps_what_it_has_and_goes_on(live: Live, tmp_path: Path) -> None:
    args = ("--arms", "as-is", "-c", "2", "--repeats", "4", "--out", str(tmp_path),
            "--api-key-env", KEY)  # fmt: skip
    _, _, _, *words = command(live, *args)
    process = subprocess.Popen(
        held.command(5, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=held.environment(**{KEY: "sesame"}),
    )  # fmt: skip
    path, deadline = tmp_path / "records.jsonl", time.monotonic() + 120
    while not (path.exists() and b'"kind":"block"' in path.read_bytes()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=120)
    assert process.returncode == 130, talk.decode()
    assert b"interrupted; records" in talk
    assert len(read_records(path).done) == 1
    assert bench(live, *args).returncode == 0
    records = read_records(path)
    assert (len(records.done), len(records.requests)) == (4, 16)
