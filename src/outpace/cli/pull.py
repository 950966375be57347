"""`outpace pull`: bring a model into the cache, checked byte by byte."""

import os
from typing import Annotated

import typer

from outpace.cli.terminal import accept_terms, print_json, pull_progress, say


def pull(
    name: Annotated[str, typer.Argument(help="A catalog name: smollm2-135m or gemma3-270m.")],
    yes: Annotated[
        bool, typer.Option("--accept-terms", help="Accept the model's licence terms.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> int:
    """Fetch NAME unless it is already there; prints the file's path."""
    from outpace.models.pull import default_cache_dir
    from outpace.models.pull import pull as fetch

    with pull_progress() as progress:
        path = fetch(
            name,
            cache_dir=default_cache_dir(os.environ),
            progress=progress,
            accept_terms=accept_terms(yes=yes),
        )
    size_bytes = path.stat().st_size
    if as_json:
        print_json({"name": name, "path": str(path), "bytes": size_bytes})
    else:
        typer.echo(str(path))
        say(f"[dim]{name}: {size_bytes / 1e6:.1f} MB, checksum verified[/]")
    return 0
