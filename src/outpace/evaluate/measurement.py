"""What an evaluation keeps of every request and every window: one JSON line each.

A `Measurement` is a benchmark's `Request` (who was asked what, when each part of the answer was
there, how guesses fared) and what an evaluation adds to it: the plan and phase it belongs to, its
place in the order, its subgroups, the answer itself, and what a check said of it. A `Window` is a
benchmark's `Block` with what was counted and used meanwhile. Both hold the benchmark's record
whole instead of repeating it, so `bench.summary` and `bench.comparison` read evaluations too:

    t_sched  request.sched_s        t_first  request.chunks_s[0]     ttft_s, tpot_s, itl_s and
    t_send   request.sent_s         t_last   request.chunks_s[-1]    e2el_s are properties of it
    n_out    request.completion_tokens, by the one who answered; acceptance  request.speculation

`schemas/record.schema.json` is the format. A line is complete in itself: what was written before
a process died is kept and not asked again (`Place` tells what is there). Requests whose pair was
cut apart are of different attempts; whoever pairs them must ask for equal attempts.
"""

import json
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from outpace.bench.record import Block, Request
from outpace.errors import ConfigError
from outpace.journal import read_lines

SCHEMA: Literal[1] = 1
RECORDS = "records.jsonl"
Phase = Literal["verify", "tune", "test", "confirm", "load", "failure_mode", "what_if"]
CountedBy = Literal["engine", "server", "client"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What tells a measurement from all others of a plan; the arm's pair differs in `arm` alone."""

    phase: Phase
    variant: str
    load: str
    repeat: int
    item: str
    turn: int
    temperature: float
    arm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What a quality check said. passed None: it could not be made, and reason says why."""

    check: str
    passed: bool | None
    score: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One request.

    plan: the identity. variant: which forced acceptance, case or changed assumption; "" = as
    planned. order: its number among all requests of its block, over all arms. subgroups: factor
    -> value. counted_by: who counted the tokens; "client" where a server's usage was missing.
    text, tokens, logprobs: the answer, as far as it was given (logprobs: of the chosen tokens).
    reported: what the server said of this request besides, as it came.
    """

    kind: Literal["measurement"] = "measurement"
    schema: Literal[1] = SCHEMA
    plan: str
    phase: Phase
    variant: str = ""
    order: Annotated[int, Field(ge=0)]
    request: Request
    temperature: Annotated[float, Field(ge=0)]
    seed: int | None
    subgroups: Mapping[str, str] = field(default_factory=dict)
    counted_by: CountedBy
    text: str | None = None
    tokens: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    grade: Grade | None = None
    reported: Mapping[str, JsonValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.logprobs is not None and self.tokens is not None:
            n, m = len(self.logprobs), len(self.tokens)
            if n != m:
                raise ValueError(f"{n} logprobs for {m} tokens; allowed: one each")

    @property
    def place(self) -> Place:
        """Where it belongs."""
        block = self.request.block
        return Place(
            phase=self.phase,
            variant=self.variant,
            load=block.load,
            repeat=block.repeat,
            item=self.request.item,
            turn=self.request.turn,
            temperature=self.temperature,
            arm=block.arm,
        )

    @property
    def arm(self) -> str:
        """Who answered."""
        return self.request.block.arm


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One arm's share of a block. None = the machine or the server does not say.

    cpu_s, gpu_s: time of all cores, of all devices. counters: how far the server's own counters
    moved, by the adapter's names. own_tokens: generated for our requests by their usage;
    foreign_tokens: what the server counted beyond that, so requests of somebody else. valid,
    reasons: whether it counts, and why not.
    """

    kind: Literal["window"] = "window"
    schema: Literal[1] = SCHEMA
    plan: str
    phase: Phase
    variant: str = ""
    block: Block
    cpu_s: float | None = None
    gpu_s: float | None = None
    energy_j: float | None = None
    peak_bytes: int | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    own_tokens: Annotated[int, Field(ge=0)]
    foreign_tokens: int | None = None
    valid: bool = True
    reasons: tuple[str, ...] = ()


Record = Annotated[Measurement | Window, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What a file holds, in the order it was written; each with its line there, for reports."""

    requests: tuple[Measurement, ...]
    windows: tuple[Window, ...]
    request_lines: tuple[int, ...] = ()
    window_lines: tuple[int, ...] = ()

    @property
    def done(self) -> frozenset[Place]:
        """What need not be asked again: answered places, whatever the attempt."""
        return frozenset(m.place for m in self.requests if m.request.ok)

    @property
    def last_attempt(self) -> int:
        """Of the last process that wrote; -1 = none did."""
        return max((m.request.attempt for m in self.requests), default=-1)

    def of(self, phase: Phase, *, variant: str = "", arm: str | None = None) -> Seq[Measurement]:
        """Those of a phase."""
        return [
            m
            for m in self.requests
            if (m.phase, m.variant) == (phase, variant) and arm in (None, m.arm)
        ]


@cache
def adapter() -> TypeAdapter[Measurement | Window]:
    """Records to and from JSON, and their JSON Schema."""
    return TypeAdapter(Record)


def to_line(record: Measurement | Window) -> dict[str, object]:
    """A record as its line."""
    line: dict[str, object] = adapter().dump_python(record, mode="json")
    return line


def read_measurements(path: Path, *, plan: str | None = None) -> Measurements:
    """Read a file of records; a half line at its end is no record. No file = no records.

    plan: the identity that all of them must have.

    Raises:
        ConfigError: a line is no record, of another schema, or of another plan.
    """
    requests: list[Measurement] = []
    windows: list[Window] = []
    lines: tuple[list[int], list[int]] = ([], [])
    for at, line in read_lines(path) if path.exists() else ():
        if line.get("schema") != SCHEMA:
            raise ConfigError(
                f"{path}:{at} has schema {line.get('schema')!r}; this version reads {SCHEMA}"
            )
        try:
            record = adapter().validate_json(json.dumps(line), strict=True, extra="forbid")
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"][1:]))
            raise ConfigError(f"{path}:{at} is no record: {where}: {first['msg']}") from None
        if plan is not None and record.plan != plan:
            raise ConfigError(
                f"{path}:{at} was measured for plan {record.plan[:12]}, not {plan[:12]}; "
                "a changed plan is a new plan: name another folder"
            )
        if isinstance(record, Measurement):
            requests.append(record)
            lines[0].append(at)
        else:
            windows.append(record)
            lines[1].append(at)
    return Measurements(
        requests=tuple(requests), windows=tuple(windows),
        request_lines=tuple(lines[0]), window_lines=tuple(lines[1]),
    )  # fmt: skip
