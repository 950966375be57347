"""`outpace doctor`: what this machine and this installation can do, in a form to paste."""

import os
import platform
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from outpace import __version__
from outpace.cli.options import whole_numbers
from outpace.cli.terminal import print_json

_PACKAGES = ("torch", "transformers", "tokenizers", "gguf", "safetensors", "numpy", "rich")


def doctor(
    profile: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Show where a pass of this model goes, and its floor."),
    ] = None,
    rows: Annotated[
        str, typer.Option(help="Rows of the passes to profile, separated by commas.")
    ] = "1,8",
    context: Annotated[int, typer.Option(help="Tokens before those rows.")] = 256,
    weights: Annotated[str, typer.Option(help="Weight format to profile.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> int:
    """Versions, devices, models, drafters and runtimes; no secrets, fit for a bug report."""
    if profile is not None:
        return _profile(profile, rows, context, weights, as_json=as_json)
    facts = _facts()
    if as_json:
        print_json(facts)
        return 0
    for group, entries in facts.items():
        typer.echo(f"{group}:")
        for name, value in entries.items():
            typer.echo(f"  {name}: {value}")
    return 0


def _profile(ref: str, rows: str, context: int, weights: str, *, as_json: bool) -> int:
    from outpace.build import Opener, RuntimeChoice
    from outpace.models.pull import default_cache_dir
    from outpace.runtimes.native.anatomy import PARTS, dissect
    from outpace.runtimes.native.load import Wish, load_decoder

    counts = whole_numbers(rows, "--rows")
    files = Opener(choice=RuntimeChoice(), cache_dir=default_cache_dir(os.environ)).files(ref)
    loaded = load_decoder(files, Wish(weights=weights))
    try:
        found = dissect(loaded, rows=counts, context_tokens=context)
    finally:
        loaded.decoder.close()
    if as_json:
        passes = [asdict(f) | {"floor_s": f.floor_s, "times_floor": f.times_floor} for f in found]
        print_json({"model": files.name, "description": loaded.description, "passes": passes})
        return 0
    typer.echo(f"{files.name}: {loaded.description}")
    table = Table("rows", "pass, ms", *(f"{part}, ms" for part in PARTS), "floor, ms", "x floor")
    for one in found:
        times = (one.pass_s, *(one.parts_s[part] for part in PARTS), one.floor_s)
        cells = (f"{1e3 * seconds:.2f}" for seconds in times)
        table.add_row(str(one.rows), *cells, f"{one.times_floor:.2f}")
    Console().print(table)
    first = found[0]
    typer.echo(
        f"after {context} tokens; the floor reads {first.weight_bytes / 1e6:.0f} MB of weights and "
        f"{first.kv_bytes / 1e6:.1f} MB of keys and values once, at "
        f"{first.bytes_per_s / 1e9:.1f} GB/s as measured now"
    )
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
