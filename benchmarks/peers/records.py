"""What was measured, on disk the moment it was: one JSON line a unit, so that a run can resume.

The first line is the plan. A file whose plan differs is another experiment: it is moved aside,
not mixed in.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any  # Any: lines of JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A prompt to answer, as every arm gets it. n_tokens: how many to generate."""

    name: str
    category: str
    ids: tuple[int, ...]
    n_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run measures; two runs with equal plans may share records. commit: "" = any, then
    every unit still says which one it measured."""

    model: str
    arms: tuple[str, ...]
    prompts: tuple[str, ...]
    digest: str
    n_tokens: int
    n_blocks: int
    n_prefill: int
    n_streams: int
    threads: int
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One arm's turn. kind: answer, prefill or streams. foreign: share of the machine's CPU time
    used by anything but the worker meanwhile. wall_s: the harness's own clock, around all of it."""

    arm: str
    first_s: float
    n_first: int
    total_s: float
    n_tokens: int
    ids: tuple[int, ...]
    wall_s: float
    foreign: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A prompt (or prefill text) in a block: every arm once, in the order given. repeated: the
    quieter of two attempts."""

    kind: str
    block: int
    item: str
    category: str
    n_prompt: int
    shots: tuple[Shot, ...]
    repeated: bool = False
    commit: str = ""

    @property
    def key(self) -> tuple[str, int, str]:
        return self.kind, self.block, self.item

    @property
    def foreign(self) -> float:
        """The noisiest shot's."""
        return max((shot.foreign for shot in self.shots), default=0.0)


@dataclass(slots=True)
class Records:
    """A run's file, and what it holds."""

    path: Path
    units: list[Unit] = field(default_factory=list)
    lengths: dict[str, int] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, plan: Plan, *, fresh: bool) -> "Records":
        """Resume the file if its plan is this one, else start a new one."""
        records = cls(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            lines = list(_lines(path))
            old = lines[0].get("plan") if lines else None
            if old == json.loads(json.dumps(asdict(plan))) and not fresh:
                records._take(lines[1:])
                return records
            path.replace(path.with_suffix(".previous.jsonl"))
        records._write({"plan": asdict(plan)})
        return records

    def _take(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            if "length" in line:
                self.lengths[line["item"]] = line["length"]
            if "unit" in line:
                unit = line["unit"]
                shots = tuple(Shot(**{**s, "ids": tuple(s["ids"])}) for s in unit.pop("shots"))
                self.units.append(Unit(**unit, shots=shots))

    def add(self, unit: Unit) -> None:
        """Keep a finished unit."""
        self.units.append(unit)
        self._write({"unit": asdict(unit)})

    def add_length(self, item: str, n_tokens: int) -> None:
        """Keep where the text of a prompt ends."""
        self.lengths[item] = n_tokens
        self._write({"item": item, "length": n_tokens})

    def _write(self, line: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
            out.flush()
            os.fsync(out.fileno())


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file; a last one cut short by a crash is dropped."""
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            return
        if isinstance(line, dict):
            yield line
