"""`outpace explain`: read a trace backward, from a result to the decision that allowed it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from outpace.cli.terminal import print_json


def explain(
    trace: Annotated[Path, typer.Argument(help="A file written by --trace.")],
    slowest: Annotated[int | None, typer.Option(help="The N slowest rounds.", min=1)] = None,
    request: Annotated[int | None, typer.Option(help="Which request.", min=0)] = None,
    token: Annotated[int | None, typer.Option(help="Which token of its answer.", min=0)] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Spell tokens as this model does.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> int:
    """Say in plain sentences why something in TRACE came out as it did."""
    from outpace.engine.explain import explain as answer

    spell = _speller(model) if model is not None else None
    found = answer(trace, slowest=slowest, request=request, token=token, spell=spell)
    if as_json:
        print_json(found.as_dict())
    else:
        typer.echo(found.text())
    return 0


def _speller(model: str) -> Callable[[int], str]:
    """Token id -> its text, from the model's tokenizer alone."""
    from outpace.build import open_tokenizer
    from outpace.models.pull import default_cache_dir
    from outpace.models.resolve import resolve

    tokenizer = open_tokenizer(resolve(model, cache_dir=default_cache_dir(os.environ)))
    return lambda token: tokenizer.decode([token], skip_special=False)
