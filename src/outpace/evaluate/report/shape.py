"""The report as values: everything the page, the console and other programs show of a study.

`schemas/report.schema.json` is its format. Times are in seconds, ratios of arms are *gains* unless
a name says slowdown: above 1 the candidate is better. None is "no data" and is shown as that.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import TypeAdapter

from outpace.evaluate.report.figures import (
    NOWHERE,
    Bar,
    BreakEven,
    Curve,
    Guesses,
    LoadRow,
    ProbePoint,
    Regression,
    Resources,
    Source,
    Speed,
    Stage,
    WhatIf,
)
from outpace.evaluate.verdict import Conclusion, Status

SCHEMA: Literal[1] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was to be decided, in the plan's words; falsified_by: what would have refuted it."""

    plan: str
    name: str
    owner: str
    statement: str
    population: str
    consequence_if_wrong: str
    falsified_by: tuple[tuple[str, Status], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict. at: when the ledger was last written to. head: the hash of its last line."""

    conclusion: Conclusion
    words: str
    confirmed: bool
    exit_code: int
    reasons: tuple[str, ...]
    n_openings: int
    at: str
    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something known, with its source."""

    label: str
    value: str
    source: Source = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One of the seven questions of adoption, answered from the evidence."""

    question: str
    answer: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Where a criterion draws its line. wanted: the side an estimate must be shown to be on."""

    value: float
    wanted: Literal["above", "below"]
    scale: Literal["ratio", "difference", "share"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A criterion and what it showed; role: primary, critical or both, as the plan says."""

    id: str
    role: str
    status: Status
    rule: str
    found: str
    estimate: float | None
    low: float | None
    high: float | None
    n: int
    limit: Limit | None
    parts: tuple["Judged", ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A field of the lineage; arms: values per arm where they differ. details: what the digests
    stand for, as JSON, where it was kept."""

    field: str
    value: str
    arms: tuple[tuple[str, str], ...]
    treatment: bool
    details: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A statement of the ledger. changed: why it no longer counts."""

    n: int
    kind: str
    event: str
    at: str
    sha256: str
    counts: bool
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All of it."""

    schema: Literal[1] = SCHEMA
    kind: Literal["report"] = "report"
    decision: Decision
    judgement: Judgement
    answers: tuple[Answer, ...]
    criteria: tuple[Judged, ...]
    stages: tuple[Stage, ...]
    speed: Speed | None
    latencies: tuple[Curve, ...]
    guesses: tuple[Guesses, ...]
    break_even: BreakEven | None
    failure_mode: tuple[ProbePoint, ...]
    max_slowdown: float | None
    subgroups: tuple[Bar, ...]
    subgroup_margin: float | None
    regressions: tuple[Regression, ...]
    resources: tuple[Resources, ...]
    currency: str
    loads: tuple[LoadRow, ...]
    what_if: tuple[WhatIf, ...]
    lineage: tuple[Traced, ...]
    events: tuple[Event, ...]
    limits: tuple[str, ...]
    deviations: tuple[str, ...]
    n_records: int


@cache
def adapter() -> TypeAdapter[Report]:
    """Reports to and from JSON, and their JSON Schema."""
    return TypeAdapter(Report)
