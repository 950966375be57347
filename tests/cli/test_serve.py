"""`outpace serve` as people run it: configuration from three places, and an end by SIGTERM."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import httpx
import pytest

from cli.conftest import Run
from outpace.cli.serve import KEYS, read_keys, settings_of
from outpace.config import Found, resolve, spell
from outpace.errors import ConfigError


def found(flags: dict[str, object] | None = None, environ: dict[str, str] | None = None,
          file: Path | None = None) -> dict[str, Found]:  # fmt: skip
    return resolve(KEYS, flags=flags or {}, environ=environ or {}, file=file)  # type: ignore[arg-type]


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "outpace.toml"
    file.write_text('[serve]\nport = 1\nhost = "::1"\ndrafter = "none"\ndrain_s = 3\n')
    got = found({"port": 3}, {"OUTPACE_PORT": "2", "OUTPACE_HOST": "127.0.0.2"}, file)
    values = {name: (entry.value, entry.source) for name, entry in got.items()}
    assert values["port"] == (3, "flag")
    assert values["host"] == ("127.0.0.2", "environment")
    assert values["drafter"] == ("none", "file")
    assert values["drain_s"] == (3.0, "file")
    assert values["max_choices"] == (64, "default")


def test_what_is_printed_is_a_file_that_leads_to_the_same(tmp_path: Path) -> None:
    file = tmp_path / "printed.toml"
    got = found({"port": 0, "allow_unknown_fields": True, "model": 'odd "name"'})
    file.write_text(spell(KEYS, got))
    again = found(file=file)
    assert {n: e.value for n, e in again.items()} == {n: e.value for n, e in got.items()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[serve]\nprot = 1\n", "prot .* did you mean port"),
        ("[serve]\nport = '1'\n", "port .* is '1'; allowed: a whole number"),
        ("[serve]\nport = true\n", "port .* is True"),
        ("port = 1\n", r"port .* belong into the table \[serve\]"),
        ("[serve\n", "is not TOML"),
    ],
)
def test_errors_of_a_file_name_the_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        found(file=file)
    with pytest.raises(ConfigError, match="cannot read"):
        found(file=tmp_path / "missing.toml")


def test_errors_of_variables_and_values_name_the_key() -> None:
    with pytest.raises(ConfigError, match=r"port \(OUTPACE_PORT\) is 'x'"):
        found(environ={"OUTPACE_PORT": "x"})
    with pytest.raises(ConfigError, match=r"log_prompts .* true or false"):
        found(environ={"OUTPACE_LOG_PROMPTS": "perhaps"})
    for name, value in (("port", 70_000), ("metrics", "all"), ("log_level", "loud"),
                        ("drain_s", -1.0)):  # fmt: skip
        with pytest.raises(ConfigError, match=name):
            settings_of(found({name: value}))
    with pytest.raises(ConfigError, match="body_bytes"):
        settings_of(found({"max_body_bytes": 0}))


def test_keys_come_from_a_file_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nalpha\n\n beta \n")
    assert read_keys(str(file), "gamma") == ("gamma", "alpha", "beta")
    assert read_keys(None, " ") == ()
    file.write_text("# none\n")
    with pytest.raises(ConfigError, match="has no key"):
        read_keys(str(file), None)
    with pytest.raises(ConfigError, match="api_key_file: cannot read"):
        read_keys(str(tmp_path / "missing"), None)


def test_print_config_shows_where_values_come_from_and_no_key(run: Run) -> None:
    done = run("serve", "--print-config", "--port", "81", "--host", "0.0.0.0",  # noqa: S104
               "--allow-unauthenticated")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "port = 81  # flag" in done.stdout
    assert tomllib.loads(done.stdout)["serve"]["host"] == "0.0.0.0"  # noqa: S104
    done = run("serve", "--host", "0.0.0.0")  # noqa: S104
    assert done.returncode == 2
    assert "host is 0.0.0.0" in done.stderr


def test_a_served_model_drains_on_sigterm(folder: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("opensesame\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "outpace.cli", "serve", "--model", str(folder), "--port", "0",
         "--threads", "1", "--api-key-file", str(keys)],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OUTPACE_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip
    lines: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    reader.start()
    try:
        url = _url(lines, process)
        headers = {"Authorization": "Bearer opensesame"}
        assert httpx.get(f"{url}/ready", timeout=60).status_code == 200
        bare = httpx.post(f"{url}/v1/completions", json={"prompt": "a"}, timeout=60)
        assert bare.status_code == 401
        body = {"prompt": "hello", "max_tokens": 300, "ignore_eos": True, "stream": True}
        with httpx.stream(
            "POST", f"{url}/v1/completions", json=body, headers=headers, timeout=60
        ) as response:
            events = response.iter_lines()
            next(events)
            process.send_signal(signal.SIGTERM)
            rest = [line for line in events if line]
        assert rest[-1] == "data: [DONE]"
        assert json.loads(rest[-2][6:])["choices"][0]["finish_reason"] == "length"
        assert process.wait(120) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        reader.join(10)
        process.stderr.close()
        assert process.stdout is not None
        process.stdout.close()
    assert "opensesame" not in "".join(lines)
    assert "drained: all answers finished" in "".join(lines)


def _url(lines: list[str], process: "subprocess.Popen[str]") -> str:
    for _ in range(2000):
        for line in list(lines):
            if "listening on " in line:
                return line.split("listening on ")[1].strip().removesuffix("/v1")
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError("".join(lines))
