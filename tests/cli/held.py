"""Run as a program: the command line, whose work stands still after N items until it is stopped.

    python -m cli.held N COMMAND ARGS ...

However slow or fast the machine, an interrupt finds it in the middle of its work.
"""

import itertools
import os
import sys
from pathlib import Path
from typing import Any

from outpace.batch.run import BatchRun
from outpace.bench import run as bench
from outpace.cli.main import main

TESTS = Path(__file__).parents[1]
# What does one item of a command's work, on a thread that `_stopped` ends.
WORKERS: dict[str, tuple[type, str]] = {
    "batch": (BatchRun, "_answer"), "bench": (bench._Work, "_ask"),
}  # fmt: skip


def command(n: int, *args: str) -> list[str]:
    """How to run it."""
    return [sys.executable, "-m", "cli.held", str(n), *args]


def environment(**more: str) -> dict[str, str]:
    """In which it is found."""
    return {**os.environ, "PYTHONPATH": str(TESTS), **more}


def hold(name: str, n: int) -> None:
    """From the n-th item on, wait."""
    owner, method = WORKERS[name]
    begun, real = itertools.count(), getattr(owner, method)

    def held(self: Any, *args: Any) -> None:
        if next(begun) < n:
            real(self, *args)
        else:
            self._stopped.wait(600)

    setattr(owner, method, held)


if __name__ == "__main__":
    hold(sys.argv[2], int(sys.argv[1]))
    del sys.argv[1]
    main()
