"""The README is true: its Python runs, its commands exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from outpace.models.pull import cached_path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.model
@pytest.mark.skipif(
    not cached_path("smollm2-135m").exists(), reason="smollm2-135m is not here; make model"
)
def test_the_python_of_the_readme_runs() -> None:
    assert blocks("python")
    for code in blocks("python"):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()


def test_the_commands_of_the_readme_exist() -> None:
    from outpace.cli.main import app

    known = {
        command.name or command.callback.__name__.replace("_", "-")
        for command in app.registered_commands
        if command.callback
    } | {group.name for group in app.registered_groups}
    named = set(re.findall(r"`outpace ([a-z-]+)", README))
    named |= set(re.findall(r"^outpace ([a-z-]+)", "\n".join(blocks("bash")), re.MULTILINE))
    assert {"generate", "pull", "doctor"} <= named
    assert named <= known


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([a-z-]+)", "\n".join(blocks("bash")), flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
