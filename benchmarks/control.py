"""What the control is worth, by simulation: regret over a grid, and the ways speculation fails.

No model runs. Texts are coin tosses (is the guess at this position right?), a pass takes what a
table says, and the control is in the loop with nothing else to go by. Regret is what is lost
against the best fixed depth, chosen afterwards, 0 included, on the same text.

    python benchmarks/control.py                 # both tables, about a minute
    python benchmarks/control.py --quick --json
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from pathlib import Path

from outpace.control.limits import Control, Limits, View
from outpace.core.repeat import Round
from outpace.events import ControlSwitched

# The simulation lives with the tests; this file's own folder would hide it by its name.
sys.path[0] = str(Path(__file__).parents[1] / "tests")

from control.simulation import (  # noqa: E402  - only now can it be found
    TABLES,
    Acceptance,
    World,
    auto,
    best_fixed,
    fixed,
)

DEPTHS = (0, 1, 2, 3, 4, 6, 8, 12, 16)
ALPHAS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run: best is the depth best in hindsight; speed and regret are shares of its rates."""

    case: str
    table: str
    sequences: int
    depth_ms: float
    best: int
    regret: float
    speed: float
    switches: int


def run(case: str, table: str, world: World, tokens: int) -> Cell:
    """The control against every fixed depth on the same text."""
    plain = fixed(world, 0, tokens).rate
    best, rate = best_fixed(world, tokens, DEPTHS[1:])
    if plain >= rate:
        best, rate = 0, plain
    simulation, switched = auto(world)
    reached = simulation.run(tokens=tokens).rate
    return Cell(
        case=case,
        table=table,
        sequences=world.n_sequences,
        depth_ms=1000 * world.depth_s,
        best=best,
        regret=1 - reached / rate,
        speed=reached / plain,
        switches=len(switched),
    )


def steady(alpha: float) -> Acceptance:
    """Acceptance that never changes."""
    return lambda _key, _position: alpha


def wave(period: int) -> Acceptance:
    """Acceptance between .05 and .95, each sequence in its own phase."""
    return lambda key, p: 0.5 + 0.45 * math.sin(2 * math.pi * (p / period + key / 8))


def grid(*, quick: bool) -> Iterator[Cell]:
    """Stationary and drifting acceptance over tables, batches and drafters' costs."""
    for table, pass_s in TABLES.items():
        for n_sequences in (1, 8) if quick else (1, 4, 8, 32):
            tokens = 2000 if n_sequences == 1 else 1000 if n_sequences == 4 else 400
            for depth_s in (0.0, 0.001):
                cases = [(f"alpha {a}", steady(a)) for a in (ALPHAS[::2] if quick else ALPHAS)]
                cases.append(("wave 1500", wave(1500)))
                for case, acceptance in cases:
                    world = World(
                        pass_s=pass_s,
                        acceptance=acceptance,
                        n_sequences=n_sequences,
                        depth_s=depth_s,
                    )
                    yield run(case, table, world, tokens)


def failures() -> Iterator[Cell]:
    """Drafters that are wrong, lie, change, hover or betray; one and eight sequences."""
    cases: dict[str, Acceptance] = {
        "always wrong": steady(0.0),
        "always right": steady(1.0),
        "0.9, 0.1, 0.9": lambda _k, p: 0.1 if 400 <= p < 1000 else 0.9,
        "flips every 16": lambda _k, p: float(p // 16 % 2 == 0),
        "right 40, wrong 160": lambda _k, p: float(p % 200 < 40),
        "hovers": lambda _k, p: 0.25 + 0.1 * math.sin(p / 37),
        "copying, hopeless": lambda k, _p: 0.95 if k % 2 else 0.02,
    }
    for table in ("flat", "torch"):
        for case, acceptance in cases.items():
            for n_sequences in (1, 8):
                for name, claim in (("", None), (", claims .9", lambda _: 0.9)):
                    world = World(
                        pass_s=TABLES[table],
                        acceptance=acceptance,
                        n_sequences=n_sequences,
                        depth_s=0.0015,
                        claim=claim,
                    )
                    yield run(case + name, table, world, 1600 if n_sequences == 1 else 600)


class Timed:
    """A control, with its own seconds counted."""

    def __init__(self, control: Control) -> None:
        self.seconds = 0.0
        self._control = control

    def decide(self, views: Seq[View]) -> list[Limits]:
        """Its decision."""
        began = time.thread_time()
        limits = self._control.decide(views)
        self.seconds += time.thread_time() - began
        return limits

    def learn(self, rounds: Seq[Round]) -> None:
        """Its lesson."""
        began = time.thread_time()
        self._control.learn(rounds)
        self.seconds += time.thread_time() - began

    def forget(self, key: int) -> None:
        """A sequence ended."""
        self._control.forget(key)

    def report_to(self, tell: Callable[[ControlSwitched], None]) -> None:
        """Where its switches go."""
        self._control.report_to(tell)


def overhead() -> dict[str, float]:
    """Microseconds of decide and learn together, per sequence and round, at steady state."""
    found: dict[str, float] = {}
    for n_sequences in (1, 8, 32):
        world = World(
            pass_s=TABLES["flat"], acceptance=steady(0.7), n_sequences=n_sequences, noise=0.01
        )
        simulation, _ = auto(world)
        simulation.run(rounds=150)
        timed = Timed(simulation.control)
        simulation.control = timed
        simulation.run(rounds=550)
        found[f"{n_sequences} sequences"] = timed.seconds / 400 / n_sequences * 1e6
    return found


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer cells")
    parser.add_argument("--json", action="store_true", help="one document instead of tables")
    asked = parser.parse_args()
    cells, modes = list(grid(quick=asked.quick)), list(failures())
    micros = overhead()
    if asked.json:
        document = {
            "grid": [asdict(c) for c in cells],
            "failures": [asdict(c) for c in modes],
            "overhead_us": micros,
        }
        print(json.dumps(document, indent=1))
        return
    for title, rows in (("regret over the grid", cells), ("ways to fail", modes)):
        print(f"\n{title}\n{'case':<34}{'table':<7}{'seqs':>5}{'draft':>9}{'best':>5}"
              f"{'regret':>9}{'speed':>8}{'switches':>9}")  # fmt: skip
        for c in rows:
            print(f"{c.case:<34}{c.table:<7}{c.sequences:>5}{c.depth_ms:>6.1f} ms{c.best:>5}"
                  f"{100 * c.regret:>7.1f} %{c.speed:>8.2f}{c.switches:>9}")  # fmt: skip
        regrets = sorted(c.regret for c in rows)
        print(f"regret: mean {100 * statistics.mean(regrets):.1f} %, "
              f"median {100 * statistics.median(regrets):.1f} %, "
              f"95th percentile {100 * regrets[int(0.95 * len(rows))]:.1f} %, "
              f"worst {100 * regrets[-1]:.1f} %; "
              f"slowest {min(c.speed for c in rows):.3f} of plain decoding")  # fmt: skip
    for name, us in micros.items():
        print(f"decide and learn, {name}: {us:.0f} µs per sequence and round")


if __name__ == "__main__":
    main()
