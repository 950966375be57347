"""Figures and tables of the report as values; `shape.py` is the whole they are part of."""

from collections.abc import Iterable
from dataclasses import dataclass

from outpace.evaluate.verdict import Status
from outpace.stats import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a figure comes from: lines of records.jsonl and of ledger.jsonl, as `spans`
    writes them."""

    records: str = ""
    statements: str = ""


NOWHERE = Source()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One of the five stages of a round. share: of the time of all five."""

    name: str
    input: str
    output: str
    share: float | None
    rejected: str
    controls: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPoint:
    """One pair of requests. lines: of baseline and candidate in records.jsonl."""

    item: str
    category: str
    repeat: int
    base_s: float
    other_s: float
    lines: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A named estimate with its source; limit where there is one."""

    name: str
    estimate: Estimate | None
    status: Status | None = None
    note: str = ""
    source: Source = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Time to the last token, pair by pair. means, totals, medians: the three estimators."""

    metric: str
    pairs: tuple[PairPoint, ...]
    blocks: tuple[Bar, ...]
    means: Estimate | None
    totals: Estimate | None
    medians: Estimate | None
    wanted: float | None
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The distribution of a time of an arm. values: all of them, sorted, in seconds."""

    metric: str
    arm: str
    values: tuple[float, ...]
    p50: float
    p90: float
    p99: float
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionRate:
    """Acceptance of the i-th guess; offered: drafts that reached it."""

    position: int
    offered: int
    marginal: float
    conditional: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """How an arm's guesses fared. pooled, per_request: the two means of the acceptance length.
    histogram: (guesses offered, kept, rounds)."""

    arm: str
    pooled: Estimate
    per_request: Estimate | None
    drafted: int
    kept: int
    rounds: int
    waste: Estimate | None
    positions: tuple[PositionRate, ...]
    histogram: tuple[tuple[int, int, int], ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthPoint:
    """One item: tokens per pass, and how many times faster its tokens came."""

    item: str
    category: str
    length: float
    gain: float
    lines: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """S = L / c. cost: c, a speculative pass in plain passes, measured; at L = c nothing is won."""

    cost: Estimate
    length: Estimate
    predicted: float
    measured: Estimate | None
    points: tuple[LengthPoint, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePoint:
    """A case of the failure mode, with or without the control. alpha: forced acceptance."""

    case: str
    alpha: float | None
    control: bool
    slowdown: Estimate | None
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A prompt on which the candidate lost most. gain: baseline's time over candidate's."""

    item: str
    category: str
    gain: float
    base_s: float
    other_s: float
    length: float | None
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What an arm took in the test. None = the machine or the server does not say."""

    arm: str
    requests: int
    failed: int
    tokens: int
    tokens_per_s: float | None
    goodput_per_s: float | None
    useful: int
    checked: int
    passed: int
    cores_busy: float | None
    gpus_busy: float | None
    cpu_s_per_1k: float | None
    energy_j_per_token: float | None
    peak_bytes: int | None
    cost_per_useful: float | None
    waste: float | None
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow:
    """A scenario against an arm: asked of the plan, due and sent by the clock, per second."""

    scenario: str
    arm: str
    asked_per_s: float | None
    due_per_s: float | None
    sent_per_s: float | None
    requests: int
    failed: int
    good_per_s: float | None
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    e2el_p99_s: float | None
    valid: bool
    reasons: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The claim measured again with one assumption changed. lost: share of the gain (in
    logarithms) that is gone; carries: this change takes most of it."""

    change: str
    arm: str
    gain: Estimate | None
    planned: Estimate | None
    lost: float | None
    carries: bool
    source: Source


def spans(lines: Iterable[int]) -> str:
    """Line numbers as ranges: `3-48,60`, and `1-61/3` for every third from 1 to 61."""
    rest, parts = sorted(set(lines)), []
    while rest:
        step = rest[1] - rest[0] if len(rest) > 1 else 1
        n = next((i for i in range(1, len(rest)) if rest[i] - rest[i - 1] != step), len(rest))
        if n < 3 and step > 1:
            n = 1
        first, last = rest[0], rest[n - 1]
        by = "" if step == 1 else f"/{step}"
        parts.append(f"{first}" if n == 1 else f"{first}-{last}{by}")
        rest = rest[n:]
    return ",".join(parts)


def lines_in(ranges: str) -> tuple[int, ...]:
    """The numbers that `spans` wrote."""
    found: list[int] = []
    for part in ranges.split(",") if ranges else ():
        whole, _, by = part.partition("/")
        first, _, last = whole.partition("-")
        found += range(int(first), int(last or first) + 1, int(by or 1))
    return tuple(found)
