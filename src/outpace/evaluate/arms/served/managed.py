"""A server that is started for an evaluation, waited for, and stopped by its own process group."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import httpx

from outpace.errors import ConfigError
from outpace.evaluate.arms.arm import Usage, group_lives, group_usage
from outpace.evaluate.arms.remote import RemoteArm
from outpace.evaluate.plan.arms import EndpointArm, Managed

_STOP_S, _POLL_S, _DYING_S = 20.0, 0.2, 0.01
_SHOWN_LINES = 12
# Where the system says which ports it hands out, and the lowest of those before them we take.
_HANDED_OUT, _OURS, _TRIES = Path("/proc/sys/net/ipv4/ip_local_port_range"), 20_000, 20
_KEEPER = Path(__file__).with_name("keeper.py")


class ManagedServer:
    """A process that serves on loopback, and its log.

    model: what to serve where the plan's arm names nothing else: a name, or a path.

    Raises:
        ConfigError: no such program, or it did not come up; the end of its log is shown.
    """

    def __init__(self, name: str, managed: Managed, *, model: str | None, log: Path) -> None:
        self.name, self.managed, self.log = name, managed, log
        self.port = managed.port if managed.port != "auto" else free_port()
        self.command = command_line(managed, model=model, port=self.port)
        self.url = f"http://127.0.0.1:{self.port}"
        if shutil.which(self.command[0]) is None:
            raise ConfigError(
                f"arm {name}: no program {self.command[0]!r}; install it, or name it with "
                "serve.executable"
            )
        log.parent.mkdir(parents=True, exist_ok=True)
        self._file = log.open("ab")
        # Its end of the pipe closes with this process, however that ends, and the server with it.
        ours, self._pipe = os.pipe()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_KEEPER), *self.command],
                stdin=ours, stdout=self._file, stderr=subprocess.STDOUT,
                env={**os.environ, **managed.env}, start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(ours)
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def usage(self) -> Usage:
        """Of all its processes."""
        return group_usage(self.process.pid)

    def stop(self) -> None:
        """End it: politely, then not, and wait for all of it, whose memory and port another may
        need. Only its own process group is told."""
        for how, patience_s in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, _STOP_S)):
            if self.process.poll() is None or how == signal.SIGKILL:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.process.pid, how)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_s)
        deadline_s = time.monotonic() + _STOP_S
        while group_lives(self.process.pid) and time.monotonic() < deadline_s:
            time.sleep(_DYING_S)
        self._file.close()
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            os.close(pipe)

    def _wait(self) -> None:
        """Until it answers 200 where it says that it is up."""
        within_s = self.managed.ready_within_s
        deadline_s = time.monotonic() + within_s
        while True:
            if self.process.poll() is not None:
                raise ConfigError(
                    f"arm {self.name}: {self.command[0]} ended with {self.process.returncode} "
                    f"before it was ready; its log {self.log} ends:\n{self._tail()}"
                )
            if self._says_ready():
                return
            if time.monotonic() > deadline_s:
                raise ConfigError(
                    f"arm {self.name}: no 200 from {self.url}{self.managed.ready_path} within "
                    f"{within_s:g} s; raise serve.ready_within_s, or read {self.log}:\n"
                    f"{self._tail()}"
                )
            time.sleep(_POLL_S)

    def _says_ready(self) -> bool:
        """Whether it answers 200; builds of an engine without its usual route list a model."""
        paths = [self.managed.ready_path, *(() if self.managed.ready else ("/v1/models",))]
        with suppress(httpx.HTTPError):
            for path in paths:
                reply = httpx.get(f"{self.url}{path}", timeout=5.0, trust_env=False)
                if reply.status_code != httpx.codes.NOT_FOUND:
                    return reply.status_code == httpx.codes.OK
        return False

    def _tail(self) -> str:
        lines = self.log.read_text("utf-8", "replace").splitlines()[-_SHOWN_LINES:]
        return "\n".join(f"  {line}" for line in lines)


class ManagedArm(RemoteArm):
    """An endpoint arm whose server is ours: what it uses is read, and a new one is as good as new.

    outpace's own server remembers answers (`suffix`), so each block begins with another process;
    engines that take long to start, and remember no answers, are left running. A server that died
    is started again: what it failed to answer is in the records.
    """

    def __init__(self, server: ManagedServer, *, model: str) -> None:
        self.server = server
        super().__init__(server.name, _endpoint(server, model))
        self._served = model
        self._clean = True

    def usage(self) -> Usage:
        return self.server.usage()

    @property
    def dead(self) -> bool:
        """Whether its process has ended, though nobody asked it to."""
        return self.server.process.poll() is not None

    def fresh(self) -> None:
        if not self.dead and (self.server.managed.engine != "outpace" or self._clean):
            self._clean = False
            return
        old = self.server
        super().close()
        old.stop()
        self.server = ManagedServer(
            old.name, old.managed.model_copy(update={"port": old.port}),
            model=self._served, log=old.log,
        )  # fmt: skip
        super().__init__(self.server.name, _endpoint(self.server, self._served))

    def close(self) -> None:
        super().close()
        self.server.stop()


def _endpoint(server: ManagedServer, model: str) -> EndpointArm:
    managed = server.managed
    return EndpointArm(
        endpoint=f"{server.url}/v1", model=managed.served_name or model, adapter=managed.adapter,
        timeout_s=managed.timeout_s, body=managed.body,
    )  # fmt: skip


def command_line(managed: Managed, *, model: str | None, port: int) -> list[str]:
    """How the server is started.

    Raises:
        ConfigError: nothing says which model.
    """
    args = [part.replace("{port}", str(port)) for part in managed.args]
    if managed.engine == "command":
        return [part.replace("{port}", str(port)) for part in managed.command] + args
    if model is None:
        raise ConfigError("a managed server needs a model; write serve.model or target.model")
    name = ["--served-name", managed.served_name] if managed.served_name else []
    program = managed.executable
    if managed.engine == "outpace":
        own = [program] if program else [sys.executable, "-m", "outpace.cli"]
        return [*own, "serve", "--model", model, "--port", str(port), *args]
    if managed.engine == "vllm":
        alias = ["--served-model-name", name[1]] if name else []
        where = ["--host", "127.0.0.1", "--port", str(port)]
        return [program or "vllm", "serve", model, *where, *alias, *args]
    alias = ["--alias", name[1]] if name else []
    if program is None and shutil.which("llama-server") is None:
        own = [sys.executable, "-m", "llama_cpp.server"]
        alias = ["--model_alias", name[1]] if name else []
    elif program is not None and Path(program).name.startswith("python"):
        own = [program, "-m", "llama_cpp.server"]
        alias = ["--model_alias", name[1]] if name else []
    else:
        own = [program or "llama-server"]
    return [*own, "--model", model, "--host", "127.0.0.1", "--port", str(port), *alias, *args]


def free_port(handed_out: Path = _HANDED_OUT) -> int:
    """A port of loopback that nobody listens on now.

    Where that is known, not one of those that the system hands out to whoever asks for any: one of
    these might be gone when the server comes to take it, which may be a minute later.

    Raises:
        ConfigError: there is none.
    """
    try:
        first = int(handed_out.read_text("utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        first = 0
    n = _TRIES if first > _OURS else 0
    ours = [_OURS + secrets.randbelow(first - _OURS) for _ in range(n)]
    for port in (*ours, 0):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found: int = probe.getsockname()[1]
            return found
    raise ConfigError("no port of 127.0.0.1 is free; end some servers, or name serve.port")


def environment_key(name: str | None, environ: Mapping[str, str]) -> str | None:
    """The key in an environment variable.

    Raises:
        ConfigError: the variable is not set.
    """
    if name is None:
        return None
    found = environ.get(name, "").strip()
    if not found:
        raise ConfigError(f"api_key_env names {name}, which is not set; export it first")
    return found
