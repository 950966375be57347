"""Hostile code breaks nothing, learns nothing and passes nothing; honest code passes."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outpace.evaluate.data.sandbox import run as run_module
from outpace.evaluate.data.sandbox.run import Limits, Ran, run

LIMITS = Limits(cpu_s=20, wall_s=100)
SHORT = Limits(cpu_s=1, wall_s=100)
DOUBLE = "def double(x):\n    return 2 * x\n"
FIRST = run(DOUBLE, "assert double(2) == 4", LIMITS)
walled = pytest.mark.skipif(
    FIRST.status == "no_cell", reason=f"this machine builds no cells: {FIRST.reason}"
)
posix = pytest.mark.skipif(os.name != "posix", reason="no process limits on this platform")


def failed(code: str, tests: str = "", limits: Limits = LIMITS) -> str:
    """Why code failed; it must have."""
    ran = run(code, tests, limits)
    assert ran.status == "failed", ran
    return ran.reason


def found(expression: str, imports: str = "import os") -> str:
    """What an expression is inside a cell."""
    return failed(f"{imports}\nraise SystemExit(repr(({expression})))").partition("SystemExit: ")[2]


@walled
def test_code_that_is_right_passes() -> None:
    assert Ran(status="passed") == FIRST


@walled
def test_code_that_is_wrong_fails_with_the_line_of_the_test() -> None:
    assert failed(DOUBLE, "x = 3\nassert double(x) == 7") == "tests line 2: AssertionError"
    assert failed("def double(:") == "code line 1: SyntaxError: invalid syntax (code.py, line 1)"
    assert "NameError" in failed("", "double(1)")


@walled
def test_code_may_use_the_standard_library_and_define_classes_of_all_kinds() -> None:
    code = (
        "import asyncio, collections, dataclasses, decimal, json, re, typing\n"
        "@dataclasses.dataclass\nclass A:\n    x: 'int' = 1\n"
        "class B(typing.NamedTuple):\n    y: int\n"
        "if __name__ == '__main__':\n    input('this is no program: ')\n"
    )
    assert run(code, "assert A() == A(1) and B(2).y == 2", LIMITS).status == "passed"


@walled
@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)",
        "import sys; sys.exit(0)",
        "raise SystemExit",
        "quit = None; import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        'import os; os.write(4, b\'{"token": ""}\'); os._exit(0)',
        "import os; os.close(4)",
        "import os; os.execv('/bin/true', ['true'])",
    ],
)
def test_ending_early_is_not_passing(code: str) -> None:
    assert run(code, "assert False", LIMITS).status == "failed"


@walled
def test_a_loop_without_end_is_ended_by_its_cpu_time() -> None:
    assert failed("while True: pass", limits=SHORT) == "used more than 1 s of CPU time"


@walled
def test_waiting_without_end_is_ended_by_the_clock() -> None:
    began = time.monotonic()
    limits = Limits(wall_s=1.5)
    assert failed("import time; time.sleep(600)", limits=limits) == "not done after 1.5 s"
    assert time.monotonic() - began < 100


@walled
def test_memory_is_bounded() -> None:
    assert "MemoryError" in failed("x = bytearray(10**9)")


@walled
def test_a_fork_bomb_runs_out_of_processes_and_leaves_none_behind() -> None:
    bomb = (
        "import os, time, ctypes\n"
        "for _ in range(1000):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        ctypes.CDLL(None).prctl(1, 0)\n"
        "        time.sleep(600)\n"
    )
    assert "BlockingIOError" in failed(bomb)
    # Neighbours of this test run code too, and theirs ends soon; what a bomb leaves sleeps on.
    there = {pid for pid, command in _processes().items() if "inmate" in command}
    until = time.monotonic() + 200
    while there and time.monotonic() < until:
        there &= {pid for pid, command in _processes().items() if "inmate" in command}
        time.sleep(0.05)
    assert not there


@walled
def test_threads_count_as_processes() -> None:
    code = (
        "import threading, time\n"
        "for _ in range(99): threading.Thread(target=time.sleep, args=(9,)).start()"
    )
    assert "can't start new thread" in failed(code)


@walled
def test_output_is_bounded() -> None:
    limits = Limits(cpu_s=200, wall_s=200)  # neither ends it
    reason = failed("while True: print('x' * 1000)", limits=limits)
    assert reason == "wrote more than 65536 bytes"


@walled
def test_files_are_bounded_each_and_together() -> None:
    assert "File too large" in failed("open('/tmp/a', 'wb').write(bytes(9 << 20))")
    many = "for i in range(40): open(f'/tmp/{i}', 'wb').write(bytes(1 << 20))"
    assert "No space left" in failed(many)


@walled
def test_a_cell_has_a_folder_of_its_own_and_it_is_empty() -> None:
    assert found("os.getcwd(), os.listdir()") == "('/tmp', [])"
    assert run("open('mine', 'w').write('x')", "assert open('mine').read() == 'x'").status == (
        "passed"
    )


@walled
def test_nothing_outside_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    for target in (tmp_path / "new", tmp_path / "kept", Path("/etc/new"), Path("/new")):
        assert re.search("No such file|Read-only", failed(f"open({str(target)!r}, 'w')"))
    prefix = Path(os.__file__).parent / "outpace_was_here.py"
    assert "Read-only" in failed(f"open({str(prefix)!r}, 'w')")
    assert "Read-only" in failed(f"import os; os.unlink({os.__file__!r})")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept"]
    assert (tmp_path / "kept").read_text() == "kept"
    assert not prefix.exists()


@walled
def test_nothing_of_the_user_can_be_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("swordfish")
    assert "FileNotFoundError" in failed(f"open({str(secret)!r})")
    assert "FileNotFoundError" in failed("open('/etc/passwd')")
    assert "FileNotFoundError" in failed(f"open({__file__!r})")


@walled
def test_the_environment_and_other_processes_are_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("API_KEY", "swordfish")
    assert found("dict(os.environ)") == "{'LANG': 'C.UTF-8', 'HOME': '/tmp'}"
    assert found("os.path.exists('/proc/1/environ'), os.getpid(), os.getuid() != 0") == (
        "(False, 2, True)"
    )
    assert "PermissionError" in failed("import os; os.kill(1, 9)")


@walled
def test_there_is_no_network() -> None:
    connect = "import socket; socket.create_connection(('127.0.0.1', 80), timeout=2)"
    assert "OSError" in failed(connect)
    datagram = "import socket; socket.socket(2, 2).sendto(b'x', ('192.0.2.1', 53))"
    assert "unreachable" in failed(datagram)


@walled
def test_no_way_leads_back_to_privileges() -> None:
    c = "import ctypes; c = ctypes.CDLL(None, use_errno=True)"
    assert found("c.mount(b'x', b'/tmp', b'tmpfs', 0, None)", c) == "-1"
    assert found("c.unshare(0x10000000)", c) == "-1"
    assert found("c.chroot(b'/tmp')", c) == "-1"


@walled
def test_descriptors_of_this_process_are_not_inherited(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        code = (
            "import os\ndef there(n):\n    try:\n        return bool(os.fstat(n))\n"
            "    except OSError:\n        return False\n"
        )
        assert found("[n for n in range(64) if there(n)]", code) == "[0, 1, 2, 3, 4]"


@walled
def test_code_longer_than_a_pipe_is_run_whole() -> None:
    assert run("x = 1\n" + "# padding\n" * 50_000, "assert x == 1", LIMITS).status == "passed"


@walled
def test_what_fails_is_said_in_a_few_words() -> None:
    evil = "class E(Exception):\n    def __str__(self): raise E\nraise E"
    assert failed(evil) == "code line 3: E"
    assert len(failed("raise ValueError('x' * 10**6)")) < 400


@posix
def test_without_walls_the_limits_hold() -> None:
    assert run(DOUBLE, "assert double(2) == 4", LIMITS, isolation="limits").status == "passed"
    ran = run("while True: pass", "", SHORT, isolation="limits")
    assert ran.reason == "used more than 1 s of CPU time"
    assert run("import os; os._exit(0)", "", LIMITS, isolation="limits").status == "failed"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the walls are Linux's")
def test_where_walls_cannot_be_built_nothing_is_run(tmp_path: Path) -> None:
    """In a user namespace that allows no more of them, as some containers are."""
    program = (
        "import ctypes, importlib.util, pathlib, sys\n"
        f"spec = importlib.util.spec_from_file_location('run', {run_module.__file__!r})\n"
        "module = sys.modules['run'] = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "if ctypes.CDLL(None).unshare(0x10000000) == 0:\n"
        "    path = pathlib.Path('/proc/sys/user/max_user_namespaces')\n"
        "    path.write_text('0')\n"
        "print(module.run('print(6 * 7)', ''))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        capture_output=True, text=True, timeout=240, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert "status='no_cell'" in done.stdout
    assert "reason=''" not in done.stdout


def test_limits_are_positive() -> None:
    with pytest.raises(ValueError, match="more than 0"):
        Limits(cpu_s=0)


def _processes() -> dict[int, str]:
    """Command lines of all there are but this one, by process id."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(os.getpid()) not in line:
            found[int(path.parent.name)] = line
    return found
