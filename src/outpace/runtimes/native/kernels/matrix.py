"""Weights packed for the kernels: GGUF blocks as they are, or arrays rounded on the way in."""

import ctypes
from ctypes import c_void_p
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outpace.errors import ModelUnsupported
from outpace.runtimes.native.kernels.library import last_error, library


class Format(IntEnum):
    """How packed weights are held; `cpp/formats.h` has the layouts.

    A row meets the first three as floats, all others as bytes with one scale per 32 values.
    """

    F32 = 0
    BF16 = 1
    F16 = 2
    Q8 = 3  # GGUF Q8_0 and Q5_0, and our own rounding to 8 bits
    Q4 = 4  # Q4_0, Q4_1, and our own rounding to 4 bits
    Q4K = 5  # Q4_K
    Q8M = 6  # Q5_1
    Q8K = 7  # Q5_K
    Q8S = 8  # Q6_K


class GGML(IntEnum):
    """GGML's numbers of the types that can be packed."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    BF16 = 30


class Matrix:
    """One packed weight matrix, [n outputs, k inputs], in memory of the library.

    Free it with `close()`; an engine made of it must be closed before.
    """

    def __init__(self, handle: int, *, n: int, k: int) -> None:
        self._handle = handle
        self.n = n
        self.k = k

    @classmethod
    def pack(
        cls, data: NDArray[Any], source: GGML | int, *, n: int, k: int, target: Format | None = None
    ) -> "Matrix":
        """Pack raw GGUF blocks, or a plain array, of an [n, k] matrix.

        data: the bytes as GGUF lays them out, any dtype, C order; bf16 and fp16 are 16-bit words.
        target: None holds the source exactly; Q8, Q4, BF16, F16 or F32 round it (once).

        Raises:
            ModelUnsupported: a type, a shape or a number the kernels cannot take.
        """
        data = np.ascontiguousarray(data)
        out = c_void_p()
        failed = library().outpace_pack(
            data.ctypes.data,
            data.nbytes,
            int(source),
            n,
            k,
            -1 if target is None else int(target),
            ctypes.byref(out),
        )
        if failed or out.value is None:
            raise ModelUnsupported(f"cannot pack: {last_error()}")
        return cls(out.value, n=n, k=k)

    @property
    def handle(self) -> int:
        """The address the C side knows this matrix by."""
        if not self._handle:
            raise ModelUnsupported("this matrix is closed")
        return self._handle

    @property
    def format(self) -> Format:
        """How it is held."""
        return Format(library().outpace_matrix_format(self.handle))

    @property
    def n_bytes(self) -> int:
        """Memory it takes, padding included."""
        size: int = library().outpace_matrix_bytes(self.handle)
        return size

    def rows(self, first: int = 0, count: int | None = None) -> NDArray[np.float32]:
        """The weights a pass multiplies by, fp32 [count, k]."""
        out = np.empty((self.n - first if count is None else count, self.k), np.float32)
        if library().outpace_matrix_rows(self.handle, first, len(out), out.ctypes.data):
            raise IndexError(last_error())
        return out

    def close(self) -> None:
        """Give the memory back. Twice is once."""
        if self._handle:
            library().outpace_matrix_free(self._handle)
            self._handle = 0
