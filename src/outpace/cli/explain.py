"""`outpace explain`: read a trace backward, from a result to the decision that allowed it."""

from pathlib import Path
from typing import Annotated

import typer

from outpace.cli.terminal import print_json


def explain(
    trace: Annotated[Path, typer.Argument(help="A file written by --trace.")],
    slowest: Annotated[int | None, typer.Option(help="The N slowest rounds.", min=1)] = None,
    request: Annotated[int | None, typer.Option(help="Which request.", min=0)] = None,
    token: Annotated[int | None, typer.Option(help="Which token of its answer.", min=0)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> int:
    """Say in plain sentences why something in TRACE came out as it did."""
    from outpace.engine.explain import explain as answer

    found = answer(trace, slowest=slowest, request=request, token=token)
    if as_json:
        print_json(found.as_dict())
    else:
        typer.echo(found.text())
    return 0
