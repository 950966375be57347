"""How much memory a model may take here, asked before it is loaded."""

from pathlib import Path

from outpace.errors import MemoryShort


def free_memory_bytes(root: Path = Path("/")) -> int | None:
    """Bytes this process can still get: the machine's, or its container's if that is less.

    root: where /proc and /sys lie, for tests. None where the system does not say (not Linux).
    """
    found = [_available(root / "proc/meminfo"), _container(root / "sys/fs/cgroup")]
    known = [n_bytes for n_bytes in found if n_bytes is not None]
    return min(known, default=None)


def require_memory(needed_bytes: int, *, what: str, free_bytes: int | None) -> None:
    """Refuse to load what does not fit.

    Raises:
        MemoryShort: with both numbers.
    """
    if free_bytes is not None and needed_bytes > free_bytes:
        raise MemoryShort(
            f"{what} needs {needed_bytes} bytes of memory and {free_bytes} are free; close other "
            f"programs, choose a smaller dtype or a smaller model",
            needed_bytes=needed_bytes,
            free_bytes=free_bytes,
        )


def _available(meminfo: Path) -> int | None:
    try:
        for line in meminfo.read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass  # another system, or no leave to look
    return None


def _container(group: Path) -> int | None:
    """What a control group leaves, in its second or first version."""
    pairs = (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    )
    for limit, used in pairs:
        try:
            most = (group / limit).read_text("ascii").strip()
            if most != "max":
                return max(0, int(most) - int((group / used).read_text("ascii")))
        except (OSError, ValueError):
            continue  # this version is not in use here
    return None
