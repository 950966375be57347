"""Run as a program: studies whose process is killed again and again, until they are done.

    python -m evaluate.steps.killed FOLDER N_KILLS SEED

It imports once and forks for every attempt, so that a kill costs no start.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from evaluate.steps.lab import WorkTime, document, study_of, walked, write
from outpace.evaluate.measurement import RECORDS

ARMS = {
    "baseline": {"drafter": "none", "test_only": {"slowdown": 5}},
    "candidate": {"drafter": "lookup"},
}


def attempt(path: Path, after_s: float) -> str:
    """Work on the study in a process of its own, and kill it: killed, done, or failed."""
    pid = os.fork()
    if pid == 0:
        try:
            walked(path)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    deadline = time.monotonic() + after_s
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return "done" if status == 0 else "failed"
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "killed"


def main() -> None:
    """Print one JSON line per study that came to its end."""
    folder, n_kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    WorkTime().rule(pytest.MonkeyPatch())
    rng = random.Random(seed)
    kills, number, usual_s = 0, 0, 3.0
    while kills < n_kills:
        number += 1
        home = folder / str(number)
        home.mkdir()
        path = write(home, document(arms=ARMS))
        mine, lines, kept = 0, b"", True
        began = time.monotonic()
        while True:
            limit_s = rng.uniform(0, usual_s) if kills < n_kills else 120.0
            what = attempt(path, limit_s)
            records = path.parent / "study" / RECORDS
            now = records.read_bytes() if records.exists() else b""
            kept = kept and now.startswith(lines)
            lines = now[: now.rfind(b"\n") + 1]
            if what != "killed":
                break
            kills, mine = kills + 1, mine + 1
        usual_s = max(0.3, min(usual_s, time.monotonic() - began))
        study = study_of(path)
        state = study.state()
        stated = state.done["verdict"].body if "verdict" in state.done else {}
        print(json.dumps({
            "ended": what, "kills": mine, "kept": kept, "stated": stated.get("words"),
            "openings": state.n_openings, "answered": len(study.measurements().done),
            "folder": str(home),
        }), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
