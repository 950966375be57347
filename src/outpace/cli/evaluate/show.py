"""What people see of findings, states and verdicts: the result on stdout, the talk on stderr."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from outpace.cli.terminal import print_json, say

if TYPE_CHECKING:
    from outpace.evaluate.phases import State
    from outpace.evaluate.plan.rules.finding import Finding
    from outpace.evaluate.study import Study
    from outpace.evaluate.verdict import Verdict


def findings(found: "Iterable[Finding]") -> None:
    """Each on a line of stderr."""
    for finding in found:
        colour = "bold red" if finding.level == "error" else "yellow"
        say(f"[{colour}]{finding.level}[/] ", f"{finding.where}: {finding.message}")


def outcome(study: "Study", found: "Verdict", *, stopped: str = "", as_json: bool = False) -> None:
    """Write the report, and show the verdict and what a person must decide."""
    from outpace.evaluate.report import show, write

    report = write(study.folder)
    if as_json:
        print_json(verdict_document(found, study, stopped=stopped))
        return
    out = Console(highlight=False, width=None if Console().is_terminal else 160)
    show(report, out)
    say("[dim]the report: ", str(study.folder / "report.html"))
    if stopped:
        say("[bold]stopped:[/] ", stopped)


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


def verdict_document(found: "Verdict", study: "Study", *, stopped: str = "") -> dict[str, Any]:
    """The same for --json."""
    return {
        "schema": 1, "study": str(study.folder), "plan": study.plan.identity,
        "conclusion": found.conclusion, "words": found.words, "confirmed": found.confirmed,
        "reasons": list(found.reasons), "outcomes": [asdict(o) for o in found.outcomes],
        "stopped": stopped or None,
    }  # fmt: skip


def state_document(study: "Study", state: "State") -> dict[str, Any]:
    """Where a study stands, for --json and for `state`."""
    measured = study.measurements()
    return {
        "schema": 1, "study": str(study.folder), "name": study.plan.metadata.name,
        "plan": study.plan.identity, "locked": "lock" in state.done,
        "done": {kind: statement.at for kind, statement in state.done.items()},
        "stale": [{"line": s.n, "kind": s.kind, "changed": list(s.changed)} for s in state.stale],
        "next": state.next, "allowed": list(state.allowed), "openings": state.n_openings,
        "requests": len(measured.requests), "windows": len(measured.windows),
    }  # fmt: skip


def state(document: dict[str, Any]) -> None:
    """A few lines on stdout."""
    out = Console(highlight=False)
    out.print(f"[bold]{document['name']}[/]  plan {document['plan'][:12]}  in {document['study']}")
    for kind, at in document["done"].items():
        out.print(f"  {kind:<9} {at}")
    for stale in document["stale"]:
        changed = ", ".join(stale["changed"])
        out.print(
            f"  [yellow]{stale['kind']:<9} line {stale['line']} no longer counts: {changed}[/]"
        )
    out.print(f"  {document['requests']} answers kept; next: {document['next'] or 'nothing'}")


def compared(rows: list[dict[str, Any]], names: list[str], words: list[str]) -> None:
    """Two studies' outcomes side by side."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("criterion")
    for name in names:
        table.add_column(name, overflow="fold")
    table.add_row("verdict", *words)
    for row in rows:
        cells = [row["first"], row["second"]]
        table.add_row(
            row["id"],
            *[_plain(f"{c['status']}: {c['found']}") if c else "not judged" for c in cells],
        )
    Console(highlight=False, width=None if Console().is_terminal else 160).print(table)
