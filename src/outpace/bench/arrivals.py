"""When requests arrive: as others end (closed loop), by chance (open loop), or as they once did.

A closed loop asks how fast the engine is with n requests at all times. An open loop does not wait
for the engine, and its latencies count from the *scheduled* arrival: a system that falls behind
must not look better because its own slowness held back the requests it would have been late for.

Traces are CSV files with TIMESTAMP,ContextTokens,GeneratedTokens (the form of the Azure LLM
inference traces, CC-BY 4.0, Microsoft; whoever publishes results from them names them). They give
times and lengths. The content is always the workload's: a prompt of about the length, and never
random tokens, which nobody can guess.
"""

import csv
import random
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Literal, cast

from outpace.errors import ConfigError

TimeUnit = Literal["datetime", "s", "ms", "us", "ns"]
_SECONDS: dict[str, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
# Prompts this near in length take turns, so that a trace does not ask the same one again and again.
_NEAREST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request to come: seconds after the start, and a trace's lengths where it has them."""

    at_s: float
    context_tokens: int | None = None
    generated_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """n streams; each asks again as soon as it is answered."""

    streams: int

    def __post_init__(self) -> None:
        if not self.streams >= 1:
            raise ConfigError(f"concurrency is {self.streams}; allowed: 1 or more")

    @property
    def name(self) -> str:
        """In records."""
        return f"closed:{self.streams}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Arrivals at given times. label: how they were made."""

    label: str
    arrivals: tuple[Arrival, ...]

    @property
    def name(self) -> str:
        """In records."""
        return self.label


Load = Closed | Open


def poisson(n: int, *, rate_per_s: float, seed: int) -> Open:
    """n arrivals at a mean rate, each independent of the others; the same for the same seed."""
    if not 0 < rate_per_s < float("inf"):
        raise ConfigError(f"rate is {rate_per_s} requests per second; allowed: more than 0")
    rng = random.Random(seed)  # noqa: S311 - a repeatable load, no secret
    at_s = 0.0
    arrivals = []
    for _ in range(n):
        at_s += rng.expovariate(rate_per_s)
        arrivals.append(Arrival(at_s=at_s))
    return Open(label=f"poisson:{rate_per_s:g}", arrivals=tuple(arrivals))


def replay(
    path: Path, *, time_unit: TimeUnit, time_scale: float = 1.0, most: int | None = None
) -> Open:
    """The arrivals of a trace.

    time_unit: what TIMESTAMP counts in, or "datetime"; never guessed. time_scale: seconds of the
    trace per second of the benchmark; 10 = ten times as fast. most: only the first so many.

    Raises:
        ConfigError: the file is no such trace; the line and what is wrong with it are named.
    """
    if not 0 < time_scale < float("inf"):
        raise ConfigError(f"time scale is {time_scale}; allowed: more than 0")
    if time_unit != "datetime" and time_unit not in _SECONDS:
        raise ConfigError(f"time unit {time_unit!r}; allowed: datetime, {', '.join(_SECONDS)}")
    rows = _rows(path, time_unit)[:most]
    if not rows:
        raise ConfigError(f"the trace {path} has no requests")
    start = rows[0].at_s
    if any(b.at_s < a.at_s for a, b in pairwise(rows)):
        raise ConfigError(f"the trace {path} goes back in time; sort it by TIMESTAMP")
    arrivals = tuple(
        Arrival(
            at_s=(row.at_s - start) / time_scale,
            context_tokens=row.context_tokens,
            generated_tokens=row.generated_tokens,
        )
        for row in rows
    )
    return Open(label=f"trace:{path.name}:{time_unit}/{time_scale:g}", arrivals=arrivals)


def read_loads(
    concurrency: str, rate: str | None, trace: Path | None, clock: tuple[str | None, float],
    *, n: int, seed: int,
) -> tuple[Load, ...]:  # fmt: skip
    """What the command line asks for: a trace, else rates, else numbers of streams.

    clock: the trace's unit and its seconds per second.
    """
    if trace is not None:
        unit, scale = clock
        if unit is None:
            raise ConfigError("a trace needs --time-unit: datetime, s, ms, us or ns")
        return (replay(trace, time_unit=cast("TimeUnit", unit), time_scale=scale, most=n),)
    if rate is not None:
        rates = _numbers(rate, "--rate")
        return tuple(poisson(n, rate_per_s=per_s, seed=seed) for per_s in rates)
    return tuple(Closed(streams=int(x)) for x in _numbers(concurrency, "--concurrency"))


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(x) if option == "--rate" else int(x) for x in text.split(",")]
    except ValueError:
        raise ConfigError(f"{option} is {text!r}; allowed: numbers, such as 1,2,4") from None


def by_length(arrivals: Seq[Arrival], lengths: Seq[int]) -> list[int]:
    """For each arrival the item to ask: of the nearest in length, the one asked least so far.

    Arrivals without a length take the items in their order.
    """
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    used = [0] * len(lengths)
    chosen = []
    for at, arrival in enumerate(arrivals):
        wanted = arrival.context_tokens
        if wanted is None:
            pick = at % len(lengths)
        else:
            near = sorted(order, key=lambda i: abs(lengths[i] - wanted))[:_NEAREST]
            pick = min(near, key=lambda i: used[i])
        used[pick] += 1
        chosen.append(pick)
    return chosen


def _rows(path: Path, time_unit: str) -> list[Arrival]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [c for c in _COLUMNS if c not in (reader.fieldnames or ())]
            if missing:
                raise ConfigError(
                    f"the trace {path} lacks {', '.join(missing)}; its first line must name "
                    f"{','.join(_COLUMNS)}"
                )
            return [_row(row, f"{path}:{reader.line_num}", time_unit) for row in reader]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the trace {path}: {error}") from None


def _row(row: dict[str, str], where: str, time_unit: str) -> Arrival:
    try:
        stamp = row["TIMESTAMP"]
        if time_unit == "datetime":
            when = datetime.fromisoformat(stamp)
            at_s = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        else:
            at_s = float(stamp) * _SECONDS[time_unit]
        context, generated = int(row["ContextTokens"]), int(row["GeneratedTokens"])
        if context < 1 or generated < 1:
            raise ValueError(f"{context} context and {generated} generated tokens; both 1 or more")
        return Arrival(at_s=at_s, context_tokens=context, generated_tokens=generated)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: {error} (time unit {time_unit})") from None
