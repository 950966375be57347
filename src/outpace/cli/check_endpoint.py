"""`outpace check-endpoint`: does an OpenAI-compatible endpoint keep what requests ask for?"""

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from outpace.cli.terminal import print_json, say

if TYPE_CHECKING:
    from outpace.endpoint.verdict import Finding

_COLOURS = {"pass": "green", "fail": "bold red", "unsupported": "yellow"}


def check_endpoint(
    url: Annotated[str, typer.Argument(help="For example http://127.0.0.1:8000/v1")],
    baseline: Annotated[
        str | None, typer.Option(help="The same model without speculation, to compare with.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Checks whose name has this in it; repeatable.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Not those whose name has this in it; repeatable.")
    ] = None,
    timeout_s: Annotated[float, typer.Option(help="For one request.", min=1)] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> int:
    """Run the contract suite; exit code 1 if something does not hold.

    OUTPACE_API_KEY is sent as the key. Run it on a quiet endpoint: counters are compared.
    """
    from outpace.endpoint.client import Endpoint
    from outpace.endpoint.run import chosen, findings

    key = os.environ.get("OUTPACE_API_KEY")
    checks = chosen(only or (), skip or ())
    other = Endpoint(baseline, api_key=key, timeout_s=timeout_s) if baseline else None
    endpoint = Endpoint(url, api_key=key, baseline=other, timeout_s=timeout_s)
    try:
        say(f"[bold]{endpoint.model}[/] at ", endpoint.url)
        found: list[Finding] = []
        for finding in findings(endpoint, checks):
            found.append(finding)
            if not as_json:
                _tell(finding)
    finally:
        endpoint.close()
        if other is not None:
            other.close()
    counts = {name: sum(f.verdict == name for f in found) for name in _COLOURS}
    if as_json:
        document = {
            "url": endpoint.url, "baseline": baseline, "model": endpoint.model,
            "verdicts": counts, "findings": [asdict(f) for f in found],
        }  # fmt: skip
        print_json(document)
    say(", ".join(f"{n} {name}" for name, n in counts.items()))
    return 1 if counts["fail"] else 0


def _tell(finding: "Finding") -> None:
    typer.echo(f"{finding.verdict:<11} {finding.name}: {finding.found}")
    if finding.verdict == "fail":
        typer.echo(f"            promise: {finding.promise}")
        for line in finding.sent.splitlines():
            typer.echo(f"            sent: {line}")
