"""`outpace doctor`: what this machine and this installation can do, in a form to paste."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from outpace import __version__
from outpace.cli.terminal import print_json

_PACKAGES = ("torch", "transformers", "tokenizers", "gguf", "safetensors", "numpy", "rich")


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> int:
    """Versions, devices, models, drafters and runtimes; no secrets, fit for a bug report."""
    facts = _facts()
    if as_json:
        print_json(facts)
        return 0
    for group, entries in facts.items():
        typer.echo(f"{group}:")
        for name, value in entries.items():
            typer.echo(f"  {name}: {value}")
    return 0


def _facts() -> dict[str, dict[str, object]]:
    return {
        "outpace": {"version": __version__, "python": platform.python_version()},
        "machine": _machine(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "models": _models(),
        "drafters": _drafters(),
        "runtimes": _runtimes(),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _machine() -> dict[str, object]:
    import torch

    affinity = getattr(os, "sched_getaffinity", None)
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "gpus": gpus or "none",
        "stdout_encoding": sys.stdout.encoding,
    }


def _models() -> dict[str, object]:
    from outpace.models.catalog import CATALOG
    from outpace.models.pull import cached_path, default_cache_dir

    cache = default_cache_dir(os.environ)
    found: dict[str, object] = {"cache": str(cache)}
    for name in CATALOG:
        path = cached_path(name, cache_dir=cache)
        found[name] = "in the cache" if path.exists() else f"not here; outpace pull {name}"
    return found


def _drafters() -> dict[str, object]:
    from outpace.drafters.registry import names

    return {"registered": ", ".join(names())}


def _runtimes() -> dict[str, object]:
    from outpace.build import runtime_facts

    return dict(runtime_facts())
