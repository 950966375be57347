"""What a look at dev shows: ratios with their intervals, and that they prove nothing."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from outpace.cli.figures import ratio
from outpace.cli.terminal import print_json, say

if TYPE_CHECKING:
    from outpace.evaluate.steps.session import Session


def look(session: "Session", *, as_json: bool) -> None:
    """Every arm against the baseline on dev, repeats of a prompt averaged."""
    from outpace.bench.comparison import Side, compare
    from outpace.evaluate.plan.document import BASELINE

    measured = session.study.measurements()
    load = f"closed:{session.plan.design.streams}"

    def side(name: str) -> Side:
        requests = [m.request for m in measured.of("tune", arm=name)]
        blocks = [
            w.block for w in measured.windows if w.phase == "tune" and w.block.block.arm == name
        ]
        return Side(name, blocks, requests)

    base = side(BASELINE)
    found = [compare(load, base, side(name)) for name in session.arms if name != BASELINE]
    if as_json:
        print_json({"schema": 1, "phase": "tune", "comparisons": [asdict(c) for c in found]})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("arm", "e2el", "tpot", "tokens/s", "same text"):
        table.add_column(name)
    for c in found:
        table.add_row(c.arm, ratio(c.e2el), ratio(c.tpot), ratio(c.throughput),
                      f"{c.same_text}/{c.texts}")  # fmt: skip
    Console(highlight=False).print(table)
    say("[dim]above 1 = faster than the baseline, on dev: to choose by, not to claim from")
