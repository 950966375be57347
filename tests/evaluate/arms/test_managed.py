"""Servers that are started, waited for, and stopped with everything they started."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from evaluate.steps.lab import document, study_of, walked, write
from outpace.core.sampling import Sampling
from outpace.errors import ConfigError
from outpace.evaluate.arms.served.managed import (
    ManagedArm,
    ManagedServer,
    command_line,
    free_port,
)
from outpace.evaluate.exact import contract
from outpace.evaluate.judge.verified import Verified
from outpace.evaluate.plan.arms import Managed

TEXT = ({"role": "user", "content": "hello"},)
GREEDY = Sampling(temperature=0, max_tokens=6)

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


FAKE = str(Path(__file__).with_name("fake_server.py"))


def fake(*words: str) -> dict[str, object]:
    return {
        "engine": "command", "command": [sys.executable, FAKE, "{port}", *words],
        "served_name": "fake", "ready": "/v1/models", "ready_within_s": 120,
    }  # fmt: skip


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
        assert httpx.get(f"{server.url}/up", trust_env=False, timeout=60).status_code == 200
        assert len(group_of(server.process.pid)) == 3, "its keeper, itself, its child"
        used = server.usage()
        assert used.cpu_s is not None
        assert used.peak_bytes is not None
        assert os.getpgid(server.process.pid) != os.getpgid(0)
    finally:
        server.stop()
    assert not group_of(server.process.pid)
    assert "asked for /up" in (tmp_path / "logs" / "c.log").read_text()


def test_what_dies_late_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('deaf', flush=True); time.sleep(600)"
    )
    program = SERVER.replace("import time; time.sleep(600)", deaf)
    assert program != SERVER
    log = tmp_path / "c.log"
    asked = managed(sys.executable, "-c", program, "{port}")
    server = ManagedServer("candidate", asked, model=None, log=log)
    real = os.killpg

    def late(group: int, how: int) -> None:
        if how == signal.SIGKILL:
            threading.Timer(0.3, real, (group, how)).start()
        else:
            real(group, how)

    try:
        while "deaf" not in log.read_text():
            time.sleep(0.01)
        monkeypatch.setattr(os, "killpg", late)
    finally:
        server.stop()
    assert not group_of(server.process.pid)


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
    assert time.monotonic() - began < 100


def test_one_that_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no program 'no-such-program'; install it"):
        ManagedServer("c", managed("no-such-program", "{port}"), model=None, log=tmp_path / "c.log")


def test_it_ends_with_whoever_started_it_however_that_ends(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path\n"
        "from outpace.evaluate.arms.served.managed import ManagedServer\n"
        "from outpace.evaluate.plan.arms import Managed\n"
        "asked = Managed.model_validate_json(sys.argv[1])\n"
        "server = ManagedServer('a', asked, model=None, log=Path(sys.argv[2]))\n"
        "print(server.process.pid, flush=True); time.sleep(600)\n"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", script, json.dumps(fake()), str(tmp_path / "a.log")],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert starter.stdout is not None
    group = int(starter.stdout.readline())
    assert len(group_of(group)) == 2
    starter.kill()
    starter.wait(60)
    starter.stdout.close()
    deadline = time.monotonic() + 60
    while group_of(group):
        assert time.monotonic() < deadline, "a server outlived its evaluation"
        time.sleep(0.05)


def test_a_free_port_is_none_that_others_are_given(tmp_path: Path) -> None:
    handed_out = tmp_path / "range"
    handed_out.write_text("32768\t60999\n")
    for _ in range(50):
        port = free_port(handed_out)
        assert 20_000 <= port < 32_768
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
    handed_out.write_text("1024\t60999\n")  # all of them are
    for anywhere in (handed_out, tmp_path / "unknown"):
        assert free_port(anywhere) > 0


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


def test_a_server_that_died_is_started_again(tmp_path: Path) -> None:
    asked = Managed.model_validate_json(json.dumps(fake()))
    server = ManagedServer("candidate", asked, model=None, log=tmp_path / "c.log")
    arm = ManagedArm(server, model="fake")
    try:
        answer = arm.ask(TEXT, GREEDY)
        assert (answer.text, answer.completion_tokens) == ("to be or not to be ", 6)
        assert answer.counted_by == "server"
        said = answer.speculation
        assert said is not None
        assert (said.drafted, said.kept, said.rounds) == (4, 2, 4)
        assert arm.adapter.name == "llama.cpp"
        arm.fresh()
        assert arm.server is server, "one that lives is left running"
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{arm.root}/die", trust_env=False, timeout=60)
        server.process.wait(60)
        assert not arm.ask(TEXT, GREEDY).ok
        found = contract.check(arm, key=None, tick=lambda *_: None)
        assert found[0].verdict == "fail"
        assert found[0].found.endswith("(it killed the server, which was started again)")
        assert sum("killed" in f.found for f in found) == 1
        assert arm.server is not server
        assert arm.ask(TEXT, GREEDY).ok
    finally:
        arm.close()
    assert not group_of(arm.server.process.pid)


def test_a_study_of_two_managed_servers_that_tell_little(tmp_path: Path) -> None:
    arms = {"baseline": {"serve": fake("a b c d")}, "candidate": {"serve": fake("a b c x")}}
    plan = document(arms=arms, what_if=[{"change": "data", "filter": {"category": ["a"]}}])
    path = write(tmp_path, {k: v for k, v in plan.items() if k != "target"})
    found = walked(path)
    statuses = {o.id: o for o in found.verdict.outcomes}
    assert statuses["text"].status == "INCONCLUSIVE", "texts differ, and nothing tells why"
    study = study_of(path)
    verified = Verified.of(study.state().done["verify"])
    assert {t.verdict for t in verified.texts} == {"unchecked"}
    assert any("nobody sees where" in limit for limit in verified.limits)
    assert verified.activity["candidate"].moved is None
    windows = study.measurements().windows
    assert windows
    assert all(w.cpu_s is not None and w.foreign_tokens == 0 for w in windows)
    assert sorted(p.name for p in (tmp_path / "logs").iterdir()) == [
        "baseline.log",
        "candidate.log",
    ]
