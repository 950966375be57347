"""A drafting head on the threads of a decoder: grown trees and single steps, one call each."""

import ctypes
from collections.abc import Mapping
from ctypes import c_void_p

import numpy as np
from numpy.typing import NDArray

from outpace.errors import ContractError, ModelUnsupported
from outpace.runtimes.native.kernels.decoder import KernelDecoder
from outpace.runtimes.native.kernels.library import last_error, library
from outpace.runtimes.native.kernels.matrix import GGML, Matrix
from outpace.runtimes.native.kernels.structs import GrowthStruct, HeadStruct

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]
Blocks = tuple[str, int, int, NDArray[np.uint8]]  # GGML type, outputs, inputs, bytes
Grown = tuple[list[int], list[int], list[float]]  # tokens, parents, chances


class KernelHead:
    """A head's packed matrices and workspace; close it before its decoder.

    matrices: `embed`, `root`, .. as `cpp/abi.h` names them, in GGUF's blocks, which are held
    exactly. ids_D: the model's id of each token that can be guessed.

    Raises:
        ModelUnsupported: sizes that do not fit together, by name.
    """

    n_children = 8

    def __init__(
        self,
        decoder: KernelDecoder,
        matrices: Mapping[str, Blocks],
        ids_D: Int32,
        *,
        n_taps: int,
        eps: float,
    ) -> None:
        self._decoder, self._ids_D = decoder, np.ascontiguousarray(ids_D, np.int32)
        self._handle = c_void_p()
        self._matrices: dict[str, Matrix] = {}
        try:
            for name, (kind, n, k, data) in matrices.items():
                self._matrices[name] = Matrix.pack(data, GGML[kind], n=n, k=k)
            held = self._matrices
            self.hidden, self.width = held["step"].n, held["step"].n * n_taps
            described = HeadStruct(
                hidden=self.hidden,
                n_taps=n_taps,
                embed_width=held["embed"].k,
                inner=held["gate"].n,
                root_inner=held["root_gate"].n,
                draft=held["out"].n,
                eps=eps,
                **{name: matrix.handle for name, matrix in held.items()},
            )
            if library().outpace_head_create(ctypes.byref(described), ctypes.byref(self._handle)):
                raise ModelUnsupported(f"the kernels cannot run this head: {last_error()}")
            if len(self._ids_D) != held["out"].n:
                raise ModelUnsupported(
                    f"a head that guesses {held['out'].n} tokens has {len(self._ids_D)} ids"
                )
        except BaseException:
            self.close()
            raise

    def grow(
        self,
        hidden_SF: Float32,
        tokens_S: Int32,
        *,
        max_nodes_S: Int32,
        max_depths_S: Int32,
        widths_S: Int32,
        worths_S: Float32,
        sharpness_S: Float32,
    ) -> list[Grown]:
        """The likeliest tree below each text, best first: tokens, parents and chances.

        `drafters/head/steps.py: Steps.grow` says what is what.
        """
        S, stride = len(tokens_S), max(int(max_nodes_S.max(initial=0)), 1)
        counts_S = np.zeros(S, np.int32)
        guesses, parents = np.empty((S, stride), np.int32), np.empty((S, stride), np.int32)
        chances = np.empty((S, stride), np.float32)
        arrays = {
            "hidden": self._checked(hidden_SF, (S, self.width)),
            "tokens": np.ascontiguousarray(tokens_S, np.int32),
            "max_nodes": np.ascontiguousarray(max_nodes_S, np.int32),
            "max_depths": np.ascontiguousarray(max_depths_S, np.int32),
            "widths": np.ascontiguousarray(widths_S, np.int32),
            "worths": np.ascontiguousarray(worths_S, np.float32),
            "sharpness": np.ascontiguousarray(sharpness_S, np.float32),
            "ids": self._ids_D,
            "n_found": counts_S,
            "guesses": guesses,
            "parents": parents,
            "chances": chances,
        }
        request = GrowthStruct(
            n_trees=S,
            n_children=self.n_children,
            stride=stride,
            **{name: a.ctypes.data for name, a in arrays.items()},
        )
        if library().outpace_head_grow(self._decoder.handle, self._handle, ctypes.byref(request)):
            raise ContractError(f"the head cannot grow: {last_error()}")
        return [
            (guesses[s, :n].tolist(), parents[s, :n].tolist(), chances[s, :n].tolist())
            for s, n in enumerate(counts_S.tolist())
        ]

    def rows(self, from_NF: Float32, tokens_N: Int32, *, roots: bool) -> tuple[Float32, Float32]:
        """One step of each row, from streams (roots) or states: states [N, H], logits [N, D]."""
        N = len(tokens_N)
        start = self._checked(from_NF, (N, self.width if roots else self.hidden))
        tokens = np.ascontiguousarray(tokens_N, np.int32)
        states = np.empty((N, self.hidden), np.float32)
        logits = np.empty((N, len(self._ids_D)), np.float32)
        if library().outpace_head_rows(
            *(self._decoder.handle, self._handle, int(roots), N, start.ctypes.data),
            *(tokens.ctypes.data, states.ctypes.data, logits.ctypes.data),
        ):
            raise ContractError(f"the head cannot step: {last_error()}")
        return states, logits

    def close(self) -> None:
        """Free workspace and matrices. Twice is once."""
        if self._handle:
            library().outpace_head_free(self._handle)
            self._handle = c_void_p()
        for matrix in self._matrices.values():
            matrix.close()

    @staticmethod
    def _checked(array: Float32, shape: tuple[int, int]) -> Float32:
        kept = np.ascontiguousarray(array, np.float32)
        if kept.shape != shape:
            raise ContractError(f"the head was given an array of {kept.shape}, not {shape}")
        return kept
