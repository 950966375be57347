"""Folders to report on."""

from pathlib import Path

from evaluate.plans import changed
from evaluate.simulated import Study, Truth, complete, written
from outpace.evaluate.plan.read import parse_plan

STEPS: tuple[tuple[str, object], ...] = (
    ("failure_mode.cases", ["domain_shift", "adversarial"]),
    ("load.scenarios",
     [{"name": "server", "profile": "poisson", "rate_per_s": 2, "min_requests": 120}]),
    ("data.subgroups", ["category", "language", "case_kind"]),
    ("design.blocks", 2),
)  # fmt: skip


def text(*steps: tuple[str, object]) -> str:
    return changed(*STEPS, *steps)


def study(*steps: tuple[str, object], truth: Truth | None = None) -> Study:
    """Every phase done."""
    return complete(parse_plan(text(*steps)), truth or Truth(n_items=25, chunks=True))


def folder(at: Path, *steps: tuple[str, object], truth: Truth | None = None) -> Path:
    """The same, written."""
    return written(study(*steps, truth=truth), at, text(*steps))


def begun(at: Path, *steps: tuple[str, object]) -> Path:
    """Locked, and nothing else."""
    return written(Study(parse_plan(text(*steps)), Truth()), at, text(*steps))
