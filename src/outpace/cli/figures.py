"""Numbers for people: the table of a benchmark, and a bar for work that takes minutes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from outpace.cli.terminal import console, say

if TYPE_CHECKING:
    from outpace.bench.comparison import Comparison
    from outpace.bench.summary import Cell, Spread, Summary
    from outpace.stats import Estimate

NO_DATA = "no data"


@contextmanager
def work_bar(total: float) -> Iterator[Callable[[float, str], None]]:
    """A bar on stderr with the time left; nothing where stderr is no terminal."""
    to = console()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=to,
        transient=True,
        disable=not to.is_terminal,
    )
    with bar:
        task = bar.add_task("starting", total=total or None)

        def advance(work: float, label: str) -> None:
            bar.update(task, advance=work, description=label)

        yield advance


def show_summary(summary: "Summary") -> None:
    """The table on stdout, notes on stderr."""
    if not summary.cells:
        say("no block was finished; nothing to show yet")
        return
    compared = {(c.load, c.arm): c for c in summary.comparisons}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("load")
    table.add_column("arm")
    for name in (
        "tokens/s", "blocks", "requests (95 %)", "ttft ms p50/p99", "tpot ms p50/p99",
        "e2el ms p50/p99", "tokens/pass", "kept", "same text", "failed", "goodput/s",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    for cell in summary.cells:
        table.add_row(cell.load, cell.arm, *_row(cell, compared.get((cell.load, cell.arm))))
    Console(highlight=False, width=None if Console().is_terminal else 200).print(table)
    for note in summary.notes:
        say("[dim]note: ", note)


def _row(cell: "Cell", against: "Comparison | None") -> list[str]:
    fared = cell.acceptance
    guessed = fared is not None and fared.drafted > 0
    kept = f"{fared.kept}/{fared.drafted}" if fared is not None and guessed else NO_DATA
    return [
        f"{cell.tokens_per_s.value:.1f}" if cell.tokens_per_s else NO_DATA,
        ratio(against.throughput) if against else "1",
        ratio(against.e2el) if against else "1",
        _ms(cell.ttft_s),
        _ms(cell.tpot_s),
        _ms(cell.e2el_s),
        f"{fared.pooled.value:.2f}" if fared is not None else NO_DATA,
        kept,
        f"{against.same_text}/{against.texts}" if against else "",
        str(cell.failed),
        f"{cell.goodput_per_s:.2f}" if cell.goodput_per_s is not None else "",
    ]


def ratio(estimate: "Estimate | None") -> str:
    """A ratio and its interval, as 1.25 [1.20, 1.31]."""
    if estimate is None:
        return NO_DATA
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _ms(spread: "Spread | None") -> str:
    if spread is None:
        return NO_DATA
    return f"{1e3 * spread.quantiles['p50']:.1f}/{1e3 * spread.quantiles['p99']:.1f}"
