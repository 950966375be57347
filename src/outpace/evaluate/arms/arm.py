"""What measuring needs of an arm, whatever stands behind it."""

import os
import time
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from outpace.bench.client import Answer, Messages
from outpace.core.sampling import Sampling

# Names that adapters translate to; a server that lacks one leaves it out.
GENERATED = "generation_tokens"
PROMPT = "prompt_tokens"
DRAFTS, DRAFTED, ACCEPTED = "drafts", "draft_tokens", "accepted_tokens"
# Seconds of the five stages, and how often a control stopped and resumed guessing.
STAGE_S = ("draft_s", "score_s", "accept_s", "resample_s", "repeat_s")
OPENED, CLOSED = "control_opened", "control_closed"

_ENERGY = Path("/sys/class/powercap/intel-rapl:0/energy_uj")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What had been used by a moment; differences count. None = nobody says.

    cpu_s: time of all cores. gpu_s: of all devices. energy_j: of the machine. peak_bytes: the
    most memory since the last reading.
    """

    cpu_s: float | None = None
    gpu_s: float | None = None
    energy_j: float | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request to come."""

    messages: Messages
    sampling: Sampling


class OpenArm(Protocol):
    """An arm that can be asked.

    name: in the plan. facts: what it is, for the lineage. local: whether it runs in this process,
    where a seed gives every arm the same noise. goes_on: whether it can be told to write on past
    its own end.
    """

    name: str
    facts: Mapping[str, str]
    local: bool
    goes_on: bool

    def ask(self, messages: Messages, sampling: Sampling, *, want_text: bool = False) -> Answer:
        """Send one request and wait for all of its answer; errors are answers too."""

    def counters(self) -> Mapping[str, float] | None:
        """What the one who answers has counted so far; None = it says nothing."""

    def usage(self) -> Usage:
        """What was used so far."""

    def fresh(self) -> None:
        """Forget all requests, as after a start, as far as that is in our power."""

    def settle(self, coming: Seq[Asked]) -> None:
        """Forget what was computed for texts, which another arm was asked for too; these come."""


def moved(
    before: Mapping[str, float] | None, after: Mapping[str, float] | None
) -> dict[str, float]:
    """Differences of the counters that both readings have; a counter that fell was reset."""
    if before is None or after is None:
        return {}
    return {
        name: value - before[name] if value >= before[name] else value
        for name, value in after.items()
        if name in before
    }


def used(before: Usage, after: Usage) -> Usage:
    """The difference of two readings."""

    def minus(a: float | None, b: float | None) -> float | None:
        return None if a is None or b is None else max(0.0, a - b)

    return Usage(
        cpu_s=minus(after.cpu_s, before.cpu_s),
        gpu_s=minus(after.gpu_s, before.gpu_s),
        energy_j=minus(after.energy_j, before.energy_j),
        peak_bytes=after.peak_bytes,
    )


def own_usage() -> Usage:
    """Of this process."""
    return Usage(cpu_s=time.process_time(), energy_j=energy_j(), peak_bytes=peak_bytes(os.getpid()))


def group_usage(group: int) -> Usage:
    """Of all processes of a process group (Linux; nothing elsewhere)."""
    cpu_s, peak = 0.0, 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                cpu_s += (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
                peak += peak_bytes(int(stat.parent.name)) or 0
    return Usage(cpu_s=cpu_s or None, energy_j=energy_j(), peak_bytes=peak or None)


def group_lives(group: int) -> bool:
    """Whether any process of a process group still runs, be it only dying (Linux; False
    elsewhere). One that waits for its parent to ask how it ended is gone."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] not in ("Z", "X"):
                return True
    return False


def energy_j() -> float | None:
    """The machine's processor energy so far, where it may be read."""
    try:
        return int(_ENERGY.read_text()) / 1e6
    except (OSError, ValueError):
        return None


def peak_bytes(pid: int) -> int | None:
    """A process's most memory since this was last asked (Linux; None elsewhere)."""
    folder = Path(f"/proc/{pid}")
    try:
        lines = (folder / "status").read_text().splitlines()
        found = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, ValueError, StopIteration):
        return None
    with suppress(OSError):
        (folder / "clear_refs").write_text("5")  # the high-water mark begins anew
    return found * 1024
