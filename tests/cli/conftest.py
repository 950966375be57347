"""A tiny random model in a folder, as a user would have one, and a way to run commands on it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runtimes import tiny
from small import EOS, VOCAB, byte_backend

Run = Callable[..., subprocess.CompletedProcess[str]]
TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}assistant:"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of 4 layers with a byte tokenizer and a chat template."""
    root = tmp_path_factory.mktemp("tiny-llama")
    settings = tiny.config(
        "llama", vocab_size=VOCAB, eos_token_id=EOS, bos_token_id=None, max_position_embeddings=512
    )
    tiny.build(settings).save_pretrained(root)
    byte_backend().save(str(root / "tokenizer.json"))
    (root / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return root


@pytest.fixture(scope="session")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run `outpace ARGS --model FOLDER` in a process of its own; the cache is empty."""
    cache = tmp_path_factory.mktemp("cache")

    def call(
        *args: str, stdin: bytes | None = None, model: bool = True
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "outpace.cli", *args]
        if model:
            command += ["--model", str(folder), "--threads", "1"]
        done = subprocess.run(
            command,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            check=False,
            timeout=120,
            env={**os.environ, "OUTPACE_CACHE": str(cache), "HF_HUB_OFFLINE": "1"},
        )
        return subprocess.CompletedProcess(
            command, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    return call
