"""Finding and opening the compiled library, or saying why there is none."""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path

from outpace.errors import CapabilityError
from outpace.runtimes.native.kernels.structs import (
    ABI_VERSION,
    GrowthStruct,
    HeadStruct,
    ModelStruct,
    PassStruct,
)

_FOLDER = Path(__file__).parent
_REASON = _FOLDER / "not_built.txt"  # written by setup.py when compiling failed

_OUT = POINTER(c_void_p)
_SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "outpace_error": (c_char_p, ()),
    "outpace_abi_version": (c_int32, ()),
    "outpace_paths": (c_char_p, ()),
    "outpace_pack": (c_int32, (c_void_p, c_int64, c_int32, c_int64, c_int64, c_int32, _OUT)),
    "outpace_matrix_free": (None, (c_void_p,)),
    "outpace_matrix_bytes": (c_int64, (c_void_p,)),
    "outpace_matrix_format": (c_int32, (c_void_p,)),
    "outpace_matrix_rows": (c_int32, (c_void_p, c_int64, c_int64, c_void_p)),
    "outpace_engine_create": (c_int32, (POINTER(ModelStruct), c_int32, c_char_p, _OUT)),
    "outpace_engine_free": (None, (c_void_p,)),
    "outpace_engine_pass": (c_int32, (c_void_p, POINTER(PassStruct))),
    "outpace_engine_threads": (c_int32, (c_void_p, c_int32)),
    "outpace_engine_path": (c_char_p, (c_void_p,)),
    "outpace_engine_pool_bytes": (c_int64, (c_void_p, c_int64)),
    "outpace_engine_kv_copy": (
        c_int32,
        (c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_int64),
    ),
    "outpace_engine_kv_read": (
        c_int32,
        (*(c_void_p,) * 3, c_int64, c_int32, c_void_p, c_int64, c_void_p, c_void_p),
    ),
    "outpace_engine_read_weights": (c_double, (c_void_p,)),
    "outpace_engine_matmul": (
        c_int32,
        (c_void_p, c_void_p, c_void_p, c_int32, c_int32, c_void_p),
    ),
    "outpace_head_create": (c_int32, (POINTER(HeadStruct), _OUT)),
    "outpace_head_free": (None, (c_void_p,)),
    "outpace_head_grow": (c_int32, (c_void_p, c_void_p, POINTER(GrowthStruct))),
    "outpace_head_rows": (c_int32, (c_void_p, c_void_p, c_int32, c_int32, *(c_void_p,) * 4)),
}


def why_missing() -> str | None:
    """Why compiled kernels cannot be used here; None when they can."""
    try:
        library()
    except CapabilityError as error:
        return str(error)
    return None


@cache
def library() -> ctypes.CDLL:
    """The open library.

    Raises:
        CapabilityError: it was not built, or is of another version; the message says what to do.
    """
    found = sorted(p for end in ("so", "dylib", "pyd") for p in _FOLDER.glob(f"_kernels*.{end}"))
    if not found:
        reason = _REASON.read_text().strip() if _REASON.exists() else "none is beside outpace"
        raise CapabilityError(
            f"no compiled kernels: {reason}; install a C++20 compiler and reinstall outpace"
        )
    try:
        lib = ctypes.CDLL(str(found[0]))
    except OSError as error:
        raise CapabilityError(f"the compiled kernels do not load: {error}") from error
    lib.outpace_abi_version.restype = c_int32
    if lib.outpace_abi_version() != ABI_VERSION:
        raise CapabilityError(
            f"the compiled kernels have version {lib.outpace_abi_version()}, this outpace needs "
            f"{ABI_VERSION}; reinstall outpace to compile them again"
        )
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    return lib


def last_error() -> str:
    """Why the last call of this thread failed."""
    text: bytes = library().outpace_error()
    return text.decode(errors="replace")


def paths() -> tuple[str, ...]:
    """The instruction-set paths this processor can run, fastest first; "plain" is always one."""
    text: bytes = library().outpace_paths()
    return tuple(text.decode().split())


def default_threads() -> int:
    """Processors this process may use: its affinity, cut to its container's quota."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            n = min(n, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        pass  # no control group to read: the affinity stands
    return n
