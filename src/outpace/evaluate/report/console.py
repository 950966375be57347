"""The report in a terminal: the verdict, its criteria, and where the rest is."""

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from outpace.evaluate.report.page.sayings import keys
from outpace.evaluate.report.shape import Report

_STYLES = {
    "PASS": "bold blue", "SUPPORTED": "bold blue", "FAIL": "bold dark_orange",
    "REFUTED": "bold dark_orange", "INVALID": "bold dark_orange",
}  # fmt: skip
_GLYPHS = {"PASS": "✓", "FAIL": "✗", "INCONCLUSIVE": "○", "INVALID": "⊘"}


def show(report: Report, console: Console) -> None:
    """Print it; nothing is looked up."""
    style = _STYLES.get(report.judgement.conclusion, "bold")
    console.print(Text(report.decision.statement, style="bold"))
    console.print(Text(report.judgement.words, style=style))
    for reason in report.judgement.reasons:
        console.print(Padding(Text(reason), (0, 0, 0, 2)))
    console.print()
    for label, value, note in keys(report):
        line = Text(f"{value:>12}  ", style="bold")
        line.append(label, style="default")
        line.append(f"  {note}" if note else "", style="dim")
        console.print(line)
    console.print()
    console.print(table(report))
    for text in (*report.limits, *report.deviations):
        console.print(Text(f"note: {text}", style="dim"))


def table(report: Report) -> Table:
    """A row per criterion."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for head in ("criterion", "status", "found", "n"):
        made.add_column(head, justify="right" if head == "n" else "left", vertical="top")
    for c in report.criteria:
        status = Text(f"{_GLYPHS[c.status]} {c.status}", style=_STYLES.get(c.status, ""))
        name = Text(c.id, style="bold")
        name.append(f" {c.role}" if c.role else "", style="not bold dim")
        made.add_row(name, status, Text(c.found), str(c.n))
    return made
