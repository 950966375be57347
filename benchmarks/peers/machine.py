"""The machine a run happened on, and how quiet it was."""

import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.environments import REPOSITORY

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_POLL_S = 5.0
_SAMPLE_S = 0.25


def facts() -> dict[str, object]:
    """Hardware and system, nothing that names the machine."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "instructions": [flag for flag in _WANTED if flag in _cpu_flags()],
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "nice": os.nice(0),
    }


_WANTED = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_int8", "asimddp")


def _cpu_lines() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _cpu_name() -> str:
    named = [line.partition(":")[2].strip() for line in _cpu_lines() if line.startswith("model n")]
    return named[0] if named else platform.processor()


def _cpu_flags() -> set[str]:
    flags = [line.partition(":")[2] for line in _cpu_lines() if line.startswith(("flags", "Feat"))]
    return set(flags[0].split()) if flags else set()


def commit() -> str:
    """The commit that was measured, with "-dirty" where the tree held more."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def busy_s() -> float:
    """CPU seconds used so far by everything on the machine, all cores together."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, first[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_S


def load() -> float:
    """The load average over one minute."""
    return os.getloadavg()[0]


@dataclass(slots=True)
class Patience:
    """Seconds that may still be spent waiting for a quiet machine, over a whole run."""

    left_s: float
    waited_s: float = 0.0

    def for_load(self, max_load: float, say: Callable[[str], None]) -> None:
        """Wait until the load average is low enough."""
        while load() > max_load and self.left_s > 0:
            say(
                f"load average {load():.1f}, waiting for {max_load:g} ({self.left_s:.0f} s at most)"
            )
            self._wait(_POLL_S)

    def for_idle(self, max_share: float, n_cores: int) -> None:
        """Wait until others leave the cores alone; the caller's own workers must be asleep."""
        while True:
            before, began = busy_s(), time.monotonic()
            time.sleep(_SAMPLE_S)
            share = (busy_s() - before) / (time.monotonic() - began) / n_cores
            if share <= max_share or self.left_s <= 0:
                return
            self._wait(_SAMPLE_S)

    def _wait(self, seconds: float) -> None:
        seconds = min(seconds, self.left_s)
        time.sleep(seconds)
        self.left_s -= seconds
        self.waited_s += seconds
