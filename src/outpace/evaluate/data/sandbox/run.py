"""Run code and tests in a cell, and say how it ended.

The process is started in a session of its own and ended by the id of its group, whatever happens;
on Linux everything it started dies with it.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal

Isolation = Literal["full", "limits"]
Status = Literal["passed", "failed", "no_cell"]
_HERE = Path(__file__).parent
_VERDICT_BYTES = 1 << 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one run. memory_bytes: of each process. room_bytes: all files together, file_bytes: each.
    processes: threads are processes here."""

    cpu_s: int = 5
    wall_s: float = 10.0
    memory_bytes: int = 256 << 20
    file_bytes: int = 8 << 20
    room_bytes: int = 32 << 20
    processes: int = 8
    output_bytes: int = 1 << 16

    def __post_init__(self) -> None:
        wrong = {name: value for name, value in asdict(self).items() if not value > 0}
        if wrong:
            raise ValueError(f"found {wrong}; allowed: more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How it ended. no_cell: nothing was run, since this machine cannot build the walls."""

    status: Status
    reason: str = ""


def run(
    code: str, tests: str, limits: Limits | None = None, *, isolation: Isolation = "full"
) -> Ran:
    """Run `code`, then `tests` with its names, in a process that neither can leave.

    isolation: "limits" does without walls where they cannot be built (not on Linux, or in a
    container that forbids them): the code then sees the files and the network of this user.
    """
    bounds = limits or Limits()
    if os.name != "posix":
        return Ran(status="no_cell", reason=f"no process limits on {sys.platform}")
    if isolation == "full" and not sys.platform.startswith("linux"):
        return Ran(status="no_cell", reason=f"no walls on {sys.platform}")
    token = secrets.token_hex(16)
    document = json.dumps({"code": code, "tests": tests}).encode()
    question = b"%d\n%s%s" % (len(document), document, token.encode())
    with tempfile.TemporaryDirectory(prefix="outpace-cell-") as folder:
        ended = _start(question, bounds, folder, walls=isolation == "full")
    return _judge(ended, token, bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    code: int | None
    verdict: bytes
    output: bytes


def _start(question: bytes, limits: Limits, folder: str, *, walls: bool) -> _Ended:
    question_r, question_w = os.pipe()
    verdict_r, verdict_w = os.pipe()
    said = json.dumps({
        **asdict(limits),
        "walls": walls,
        "python": str(Path(sys.executable).resolve()),
        "inmate": (_HERE / "inmate.py").read_text(encoding="utf-8"),
        "environment": {"LANG": "C.UTF-8", "HOME": "/tmp" if walls else folder},  # noqa: S108
    })  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", str(_HERE / "cell.py"), said, str(question_r),
         str(verdict_w)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        pass_fds=(question_r, verdict_w), cwd=folder, env={}, start_new_session=True,
    )  # fmt: skip
    os.close(question_r)
    os.close(verdict_w)
    output = _Output(process, limits.output_bytes)
    ask = threading.Thread(target=_ask, args=(question_w, question), daemon=True)
    ask.start()
    try:
        code = process.wait(limits.wall_s)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        _end(process)
    with os.fdopen(verdict_r, "rb") as file:
        os.set_blocking(verdict_r, False)  # something may still hold the other end
        verdict = file.read(_VERDICT_BYTES) or b""
    if code is not None and code < 0:  # ended by a signal without a process between
        code = 128 - code
    return _Ended(code=code, verdict=verdict, output=output.kept())


def _ask(pipe: int, question: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(pipe, "wb") as file:
        file.write(question)


class _Output:
    """Reads what is written, keeps the beginning, ends whoever writes too much."""

    def __init__(self, process: "subprocess.Popen[bytes]", most_bytes: int) -> None:
        self._process, self._most, self._data = process, most_bytes, b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        pipe: IO[bytes] | None = self._process.stdout
        while pipe is not None and (part := os.read(pipe.fileno(), 4096)):
            self._data += part
            if len(self._data) > self._most:
                _end(self._process)
                return

    def kept(self) -> bytes:
        """What was written, at most a little more than allowed."""
        self._thread.join(1)
        if self._process.stdout is not None and not self._thread.is_alive():
            self._process.stdout.close()
        return self._data


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _judge(ended: _Ended, token: str, limits: Limits) -> Ran:
    """What the process left behind, as a verdict."""
    try:
        text = ended.verdict.decode(errors="replace")
        verdict, _ = json.JSONDecoder().raw_decode(text)  # a fork may have added another
    except ValueError:
        verdict = {}
    if not isinstance(verdict, dict):
        verdict = {}
    if "no_cell" in verdict:
        return Ran(status="no_cell", reason=str(verdict["no_cell"]))
    if len(ended.output) > limits.output_bytes:
        return _failed(f"wrote more than {limits.output_bytes} bytes")
    if ended.code is None:
        return _failed(f"not done after {limits.wall_s:g} s")
    if verdict.get("token") == token:
        return Ran(status="passed")
    if "failed" in verdict:
        line = verdict.get("line")
        at = f"{verdict['failed']}{f' line {line}' if line else ''}"
        return _failed(f"{at}: {verdict.get('error')}")
    if ended.code == 128 + signal.SIGXCPU:
        return _failed(f"used more than {limits.cpu_s} s of CPU time")
    if ended.code > 128:
        return _failed(f"ended by signal {ended.code - 128}")
    last = ended.output.decode(errors="replace").strip().rpartition("\n")[2][:200]
    return _failed(f"ended before its tests, exit code {ended.code}{f': {last}' if last else ''}")


def _failed(reason: str) -> Ran:
    return Ran(status="failed", reason=reason)
