"""`outpace replay`: re-derive every decision of a trace from its own numbers."""

from pathlib import Path
from typing import Annotated

import typer

from outpace.cli.terminal import print_json


def replay(
    trace: Annotated[Path, typer.Argument(help="A file written by --trace.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> int:
    """Say of every decision in TRACE whether it follows from the recorded numbers.

    Exit code 0 if all hold, 1 if any does not.
    """
    from outpace.engine.replay import replay as check

    report = check(trace)
    if as_json:
        print_json(report.as_dict())
    else:
        typer.echo(report.text())
    return 0 if report.holds else 1
