"""The compiled decoder: a model, its page pools, and one call per pass."""

import contextlib
import ctypes
import mmap
from collections.abc import Sequence as Seq
from ctypes import c_void_p
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from outpace.errors import CapabilityError, ContractError, MemoryShort, ModelUnsupported
from outpace.runtimes.native.kernels.library import default_threads, last_error, library
from outpace.runtimes.native.kernels.spec import Kept, KVType, ModelSpec
from outpace.runtimes.native.kernels.structs import PHASES, PassStruct
from outpace.runtimes.native.passes import Int32, Pass, PassResult

Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK:
    """ids_AK, values_AK: the largest logits of each asked row, highest first, low id on a tie."""

    ids_AK: NDArray[np.int32]
    values_AK: Float32


class KernelDecoder:
    """A model, its K/V pools and its threads. Satisfies `passes.Decoder`.

    One pass at a time: calls from several threads queue up. After a fork the child may go on
    using it (its threads are made anew); weights and pools are then shared until written to.
    """

    row_invariant = True

    def __init__(
        self,
        spec: ModelSpec,
        *,
        n_pages: int,
        page_size: int = 64,
        kv_type: KVType = KVType.F16,
        n_threads: int | None = None,
        path: str | None = None,
        taps: Seq[int] = (),
    ) -> None:
        """Take a model over.

        page_size: slots of a page, a multiple of 16.
        n_threads: default: the processors this process may use.
        path: one of `library.paths()`; default: the fastest.
        taps: layers l whose incoming residual stream every pass returns (the number of layers
            means what leaves the last one), side by side in `PassResult.hidden_RH`.

        Raises:
            ModelUnsupported: sizes that do not fit, by name.
            MemoryShort: the pools do not fit into memory.
        """
        self.page_size = page_size
        self.n_pages = n_pages
        self.spec = spec
        self._taps = np.asarray(taps, np.int32)
        self._handle = c_void_p()
        kept = Kept(spec, page_size=page_size, kv_type=kv_type)
        failed = library().outpace_engine_create(
            ctypes.byref(kept.model),
            default_threads() if n_threads is None else n_threads,
            (path or "").encode(),
            ctypes.byref(self._handle),
        )
        if failed:
            raise ModelUnsupported(f"the kernels cannot run this model: {last_error()}")
        size = library().outpace_engine_pool_bytes(self._handle, n_pages)
        try:
            self._k_pool, self._v_pool = _pool(size), _pool(size)
        except (MemoryError, OSError) as error:
            self.close()
            raise MemoryShort(
                f"{n_pages} pages take {2 * size} bytes; ask for fewer", needed_bytes=2 * size
            ) from error

    @property
    def path(self) -> str:
        """The instruction-set path in use."""
        text: bytes = library().outpace_engine_path(self.handle)
        return text.decode()

    @property
    def handle(self) -> c_void_p:
        """The address the C side knows this decoder by."""
        if not self._handle:
            raise ContractError("this decoder is closed")
        return self._handle

    def forward(self, rows: Pass) -> PassResult:
        """Compute a pass. With `rows.logits` whole rows, otherwise argmax ids only.

        Raises:
            ContractError: tables, parents or positions that cannot be; nothing was computed.
        """
        A = len(rows.asked_A)
        logits_AV = torch.empty(A, self.spec.vocab) if rows.logits and A else None
        best_A = np.empty(A, np.int32)
        hidden = self._run(rows, logits_AV=logits_AV, best_A=best_A if logits_AV is None else None)
        return PassResult(
            logits_AV=logits_AV,
            best_A=best_A.tolist() if logits_AV is None and A else None,
            hidden_RH=hidden,
        )

    def profile(self, rows: Pass) -> dict[str, float]:
        """Compute a pass, and say how many seconds each kind of phase took on the first thread."""
        seconds = np.zeros(len(PHASES))
        self._run(rows, best_A=np.empty(len(rows.asked_A), np.int32), profile=seconds)
        return dict(zip(PHASES, seconds.tolist(), strict=True))

    def forward_top(self, rows: Pass, k: int) -> TopK:
        """Compute a pass and keep each asked row's k largest logits."""
        top = TopK(
            ids_AK=np.empty((len(rows.asked_A), k), np.int32),
            values_AK=np.empty((len(rows.asked_A), k), np.float32),
        )
        self._run(rows, top=top)
        return top

    def copy_slots(self, sources: Int32, targets: Int32) -> None:
        """Copy K/V between physical slots (page * page_size + offset), in the order given."""
        src, dst = np.asarray(sources, np.int64), np.asarray(targets, np.int64)
        if len(src) != len(dst):
            raise ContractError(f"{len(src)} slots cannot be copied to {len(dst)}")
        k, v = self._k_pool.ctypes.data, self._v_pool.ctypes.data
        if library().outpace_engine_kv_copy(
            self.handle, k, v, self.n_pages, src.ctypes.data, dst.ctypes.data, len(src)
        ):
            raise ContractError(f"cannot copy: {last_error()}")

    def read_slots(self, layer: int, slots: Int32) -> tuple[Float32, Float32]:
        """K and V of physical slots in one layer, fp32 [slots, kv_heads, head_dim]."""
        at = np.asarray(slots, np.int64)
        shape = (len(at), self.spec.n_kv_heads, self.spec.head_dim)
        k, v = np.empty(shape, np.float32), np.empty(shape, np.float32)
        pools = (self._k_pool.ctypes.data, self._v_pool.ctypes.data)
        if library().outpace_engine_kv_read(
            *(self.handle, *pools, self.n_pages, layer),
            *(at.ctypes.data, len(at), k.ctypes.data, v.ctypes.data),
        ):
            raise ContractError(f"cannot read: {last_error()}")
        return k, v

    def set_threads(self, n_threads: int) -> None:
        """Use this many threads from the next pass on; results do not change."""
        if library().outpace_engine_threads(self.handle, n_threads):
            raise CapabilityError(last_error())

    def read_weights_s(self) -> float:
        """Seconds to read all packed weights once: the floor of any pass."""
        seconds: float = library().outpace_engine_read_weights(self.handle)
        return seconds

    def close(self) -> None:
        """Free threads, workspace and pools; the matrices stay the caller's. Twice is once."""
        library().outpace_engine_free(self._handle)
        self._handle = c_void_p()
        self._k_pool = self._v_pool = np.empty(0, np.uint8)

    def _run(
        self,
        rows: Pass,
        *,
        logits_AV: torch.Tensor | None = None,
        best_A: Int32 | None = None,
        top: TopK | None = None,
        profile: NDArray[np.float64] | None = None,
    ) -> torch.Tensor | None:
        R, T, H = len(rows.tokens_R), len(self._taps), self.spec.hidden
        hidden = np.empty((T, R, H), np.float32) if T else None
        arrays = {
            "tokens": rows.tokens_R,
            "positions": rows.positions_R,
            "parents": rows.parents_R,
            "starts": rows.starts_S1,
            "n_cached": rows.n_cached_S,
            "page_tables": rows.tables_SP,
            "asked": rows.asked_A,
        }
        kept = {name: np.ascontiguousarray(a, np.int32) for name, a in arrays.items()}
        _check_lengths(kept)
        request = PassStruct(
            n_rows=R,
            n_sequences=len(rows.n_cached_S),
            max_pages=rows.tables_SP.shape[1],
            n_asked=len(rows.asked_A),
            n_taps=T,
            top_k=0 if top is None else top.ids_AK.shape[1],
            k_pool=self._k_pool.ctypes.data,
            v_pool=self._v_pool.ctypes.data,
            n_pages=self.n_pages,
            logits=None if logits_AV is None else logits_AV.data_ptr(),
            best_ids=None if best_A is None else best_A.ctypes.data,
            top_ids=None if top is None else top.ids_AK.ctypes.data,
            top_logits=None if top is None else top.values_AK.ctypes.data,
            taps=self._taps.ctypes.data,
            hidden=None if hidden is None else hidden.ctypes.data,
            profile=None if profile is None else profile.ctypes.data,
            **{name: a.ctypes.data for name, a in kept.items()},
        )
        if library().outpace_engine_pass(self.handle, ctypes.byref(request)):
            raise ContractError(f"the kernels refuse the pass: {last_error()}")
        if hidden is None:
            return None
        return torch.from_numpy(hidden.transpose(1, 0, 2).reshape(R, T * H))


def _pool(n_bytes: int) -> NDArray[np.uint8]:
    """Zeroed memory on huge pages where there are any: attention jumps about in it."""
    memory = mmap.mmap(-1, max(n_bytes, 1))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def _check_lengths(arrays: dict[str, Int32]) -> None:
    """The C side takes lengths from R and S; arrays shorter than that must not reach it."""
    R, S = arrays["tokens"].shape, arrays["n_cached"].shape
    shapes = {name: a.shape for name, a in arrays.items()}
    fits = shapes["positions"] == shapes["parents"] == R and shapes["starts"] == (S[0] + 1,)
    if not fits or shapes["page_tables"][0] != S[0]:
        raise ContractError(f"the arrays of a pass do not fit together: {shapes}")
