"""Workers as the harness sees them: started, asked one at a time, stopped while they wait."""

import json
import os
import selectors
import signal
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self  # Any: a reply's fields are checked where they are used

from benchmarks.peers.environments import REPOSITORY, Environment
from benchmarks.peers.protocol import Setup

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LOG_LINES = 3


class WorkerFailedError(Exception):
    """A worker died, hung, or its peer raised; the message says what it said last."""


class Worker:
    """One peer's process, in a group of its own so that it can be stopped as a whole."""

    def __init__(self, name: str, environment: Environment, log: Path, threads: int) -> None:
        self.name = name
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w", encoding="utf-8") as stderr:
            self._process = subprocess.Popen(
                [str(environment.python), "-m", f"benchmarks.peers.workers.{environment.peer}"],
                cwd=REPOSITORY,
                env=_environment(threads),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        self._partial = b""

    def open(self, setup: Setup, timeout_s: float) -> dict[str, Any]:
        """Load the model; the facts the worker states about itself.

        Raises:
            WorkerFailedError: it could not.
        """
        facts = self._ask(asdict(setup), timeout_s)["facts"]
        assert isinstance(facts, dict)
        return facts

    def ask(self, message: dict[str, object], timeout_s: float = 600.0) -> dict[str, Any]:
        """Wake it, ask it, put it back to sleep.

        Raises:
            WorkerFailedError: it did not answer, or answered with an error.
        """
        self.wake()
        try:
            return self._ask(message, timeout_s)
        finally:
            self.sleep()

    def _ask(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
            reply = json.loads(self._line(timeout_s))
        except (OSError, ValueError) as error:
            raise WorkerFailedError(f"{error}; it said last: {self.last_words()}") from error
        if not isinstance(reply, dict) or "error" in reply:
            raise WorkerFailedError(reply.get("error", "no answer"))
        return reply

    def _line(self, timeout_s: float) -> bytes:
        """One line of its output, read without a buffer that could hide the next.

        Raises:
            OSError: it ended or took too long.
        """
        assert self._process.stdout is not None
        until = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._partial:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise TimeoutError(f"no answer within {timeout_s:.0f} s")
                piece = os.read(self._process.stdout.fileno(), 1 << 16)
                if not piece:
                    raise BrokenPipeError(f"it ended with status {self._process.wait()}")
                self._partial += piece
        line, _, self._partial = self._partial.partition(b"\n")
        return line

    def last_words(self) -> str:
        """The end of its log."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return " / ".join(line.strip() for line in lines[-_LOG_LINES:])

    def sleep(self) -> None:
        """Stop the whole process group: whatever spins, spins no more."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def cpu_s(self) -> float:
        """CPU seconds of the process, all threads."""
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii")
        except OSError:
            return 0.0
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def close(self) -> None:
        """End it, asleep or not."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


def _environment(threads: int) -> dict[str, str]:
    return {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONPATH": str(REPOSITORY),
    }
