"""The process that becomes a cell: `python -I -S cell.py LIMITS QUESTION VERDICT`.

Three processes. The first leaves all namespaces and waits. The second is the first process of the
new ones, so that everything in them dies with it; it builds the walls and waits. The third puts
limits on itself, becomes nobody, and executes a fresh interpreter with the inmate's text.

LIMITS: JSON, as `run.Limits` writes it, with `walls` and the inmate's text. The descriptors
QUESTION and VERDICT are passed on as 3 and 4. Walls that cannot be built are a verdict too.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

_AFTER_S = 2


def main(said: str, question: int, verdict: int) -> NoReturn:
    """Build the cell and run the inmate in it; ends with the inmate's exit code."""
    limits = json.loads(said)
    signal.alarm(int(limits["wall_s"]) + _AFTER_S)  # should whoever started it be gone
    if not limits["walls"]:
        inmate(limits, question, verdict)
    walls = load_walls()
    try:
        walls.separate()
        first = os.fork()
    except OSError as error:
        refuse(verdict, error)
    if first == 0:
        try:
            walls.die_with_parent()
            walls.enclose(limits["room_bytes"])
            second = os.fork()
            if second == 0:
                walls.surrender()
                inmate(limits, question, verdict)
        except OSError as error:
            refuse(verdict, error)
        forget(question, verdict)
        finish(second)
    forget(question, verdict)
    finish(first)


def load_walls() -> Any:  # a module of this folder, which a bare interpreter does not look into
    """The module beside this one."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("walls", Path(__file__).with_name("walls.py"))
    if spec is None or spec.loader is None:
        raise ImportError("walls.py is not there")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def inmate(limits: dict[str, Any], question: int, verdict: int) -> NoReturn:
    """Put the limits on and become the interpreter that runs the code."""
    import resource

    wanted = {
        "RLIMIT_CPU": limits["cpu_s"],
        "RLIMIT_AS": limits["memory_bytes"],
        "RLIMIT_DATA": limits["memory_bytes"],
        "RLIMIT_FSIZE": limits["file_bytes"],
        "RLIMIT_NPROC": limits["processes"],
        "RLIMIT_NOFILE": 64,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
    }
    for a, b in ((question, 20), (verdict, 21), (20, 3), (21, 4)):
        os.dup2(a, b)  # by way of numbers that neither has
    os.closerange(5, 4096)
    os.set_inheritable(3, True)  # noqa: FBT003 - the only way it is said
    os.set_inheritable(4, True)  # noqa: FBT003
    for name, most in wanted.items():
        if hasattr(resource, name):
            try:
                hard = most + 1 if name == "RLIMIT_CPU" else most  # first a signal that says why
                resource.setrlimit(getattr(resource, name), (most, hard))
            except (OSError, ValueError):
                if limits["walls"]:
                    raise
    python = limits["python"]
    os.execve(python, [python, "-I", "-S", "-B", "-c", limits["inmate"]], limits["environment"])  # noqa: S606


def forget(question: int, verdict: int) -> None:
    """Whoever only waits holds no end of a pipe."""
    os.close(question)
    os.close(verdict)


def finish(child: int) -> NoReturn:
    """End as the child ended; 128 + n where signal n ended it."""
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def refuse(verdict: int, error: OSError) -> NoReturn:
    """There is no cell on this machine."""
    os.write(verdict, json.dumps({"no_cell": str(error)}).encode())
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
