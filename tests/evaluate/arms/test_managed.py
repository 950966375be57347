"""Servers that are started, waited for, and stopped with everything they started."""

import os
import sys
import time
from pathlib import Path

import httpx
import pytest

from outpace.errors import ConfigError
from outpace.evaluate.arms.managed import ManagedServer, command_line
from outpace.evaluate.plan.arms import Managed

SERVER = """
import http.server, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/up" else 404)
        self.end_headers()
    def log_message(self, *args):
        print("asked for", self.path, flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def managed(*command: str, **fields: object) -> Managed:
    return Managed(engine="command", command=command, ready="/up", **fields)  # type: ignore[arg-type]


def group_of(pid: int) -> list[str]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[2] == str(pid) and fields[0] != "Z":
            found.append(stat.parent.name)
    return found


def test_started_waited_for_and_stopped_with_its_children(tmp_path: Path) -> None:
    asked = managed(sys.executable, "-c", SERVER, "{port}")
    server = ManagedServer("candidate", asked, model=None, log=tmp_path / "logs" / "c.log")
    try:
        assert httpx.get(f"{server.url}/up", trust_env=False).status_code == 200
        assert len(group_of(server.process.pid)) == 2
        used = server.usage()
        assert used.cpu_s is not None
        assert used.peak_bytes is not None
        assert os.getpgid(server.process.pid) != os.getpgid(0)
    finally:
        server.stop()
    assert not group_of(server.process.pid)
    assert "asked for /up" in (tmp_path / "logs" / "c.log").read_text()


def test_one_that_dies_shows_the_end_of_its_log(tmp_path: Path) -> None:
    asked = managed(sys.executable, "-c", "print('no such weights'); raise SystemExit(3)", "{port}")
    with pytest.raises(ConfigError, match=r"(?s)ended with 3 before it was ready.*no such weights"):
        ManagedServer("candidate", asked, model=None, log=tmp_path / "c.log")


def test_one_that_never_comes_up_is_stopped(tmp_path: Path) -> None:
    asked = managed(sys.executable, "-c", SERVER.replace("/up", "/down"), "{port}",
                    ready_within_s=2.0)  # fmt: skip
    began = time.monotonic()
    with pytest.raises(ConfigError, match=r"no 200 from .*/up within 2 s; raise"):
        ManagedServer("candidate", asked, model=None, log=tmp_path / "c.log")
    assert time.monotonic() - began < 25


def test_one_that_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot start 'no-such-program'"):
        ManagedServer("c", managed("no-such-program", "{port}"), model=None, log=tmp_path / "c.log")


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (Managed(engine="vllm", args=("--enforce-eager",), served_name="m"),
         "vllm serve M --host 127.0.0.1 --port 9 --served-model-name m --enforce-eager"),
        (Managed(engine="llama.cpp", executable="/bin/llama-server", args=("-c", "2048")),
         "/bin/llama-server --model M --host 127.0.0.1 --port 9 -c 2048"),
        (Managed(engine="llama.cpp", executable="/venv/bin/python3", served_name="m"),
         "/venv/bin/python3 -m llama_cpp.server --model M --host 127.0.0.1 --port 9 "
         "--model_alias m"),
        (Managed(engine="outpace", executable="outpace", args=("--drafter", "none")),
         "outpace serve --model M --port 9 --drafter none"),
        (Managed(engine="command", command=("run", "--at", "{port}"), args=("x",)),
         "run --at 9 x"),
    ],
)  # fmt: skip
def test_command_lines(asked: Managed, line: str) -> None:
    assert " ".join(command_line(asked, model="M", port=9)) == line
