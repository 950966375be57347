"""What runs a head: a protocol of two calls, and the same in numpy.

The compiled kernels satisfy it (`runtimes/native/kernels/head.py`); `NumpySteps` runs anywhere,
is what tests compare them with, and takes milliseconds where they take tenths.
"""

from collections.abc import Sequence as Seq
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from outpace.core.draft import ROOT
from outpace.drafters.head.files import EPS, Head

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]
Grown = tuple[list[int], list[int], list[float]]  # tokens, parents, chances

# Children looked at per node.
N_CHILDREN = 8
# A node whose children cannot be worth a row stays a leaf: none is surer than this.
SUREST_CHILD = 0.97


class Steps(Protocol):
    """Runs one head. S texts, F = taps x H, N rows, D tokens that can be guessed."""

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
    ) -> Seq[Grown]:
        """The likeliest tree below each text, best first: tokens, parents and chances.

        hidden_SF: the tapped streams of each text's last computed row; tokens_S: the token after.
        widths_S: children of a node at most, 1 = a chain. worths_S: less likely paths are left
        out. sharpness_S multiplies the logits before they become a law.
        """

    def rows(self, from_NF: Float32, tokens_N: Int32, *, roots: bool) -> tuple[Float32, Float32]:
        """One step of each row, from streams (roots) or states: states [N, H], logits [N, D]."""


class NumpySteps:
    """`Steps` in numpy, on the same rounded weights."""

    def __init__(self, head: Head) -> None:
        self._shape, self._ids_D = head.config.shape, head.ids_D
        self._values = {name: head.values(name) for name in head.matrices}

    def rows(self, from_NF: Float32, tokens_N: Int32, *, roots: bool) -> tuple[Float32, Float32]:
        h = self._shape.hidden
        x_NTH = np.asarray(from_NF, np.float32).reshape(len(tokens_N), -1, h)
        e_NE = self._values["embed"][tokens_N]
        normed_NTH = _rms(x_NTH)
        u_NH: Float32 = normed_NTH[:, -1] if roots else x_NTH[:, 0]
        entered = np.concatenate([normed_NTH.reshape(len(tokens_N), -1), e_NE], axis=1)
        u_NH = u_NH + entered.astype(np.float32) @ self._values["root" if roots else "step"].T
        if roots:
            u_NH = self._gated(u_NH, "root_")
        s_NH = self._gated(u_NH, "")
        return s_NH, _rms(s_NH) @ self._values["out"].T

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
    ) -> Seq[Grown]:
        return [
            self._tree(
                hidden_SF[s : s + 1],
                int(tokens_S[s]),
                (int(max_nodes_S[s]), int(max_depths_S[s]), int(widths_S[s])),
                float(worths_S[s]),
                float(sharpness_S[s]),
            )
            for s in range(len(tokens_S))
        ]

    def _tree(
        self, hidden_1F: Float32, token: int, most: tuple[int, int, int], worth: float, sharp: float
    ) -> Grown:
        max_nodes, max_depth, width = most
        nodes: list[tuple[float, int, int, int]] = []  # chance, parent, depth, draft token
        states: dict[int, Float32] = {}
        best: list[int] = []
        todo = [ROOT] if max_nodes > 0 and max_depth > 0 else []
        while todo:
            for at in todo:
                if at == ROOT:
                    state, logits = self.rows(hidden_1F, np.array([token]), roots=True)
                    above, depth = 1.0, 1
                else:
                    above, parent, depth, guess = nodes[at]
                    below = np.array([self._ids_D[guess]])
                    state, logits = self.rows(states[parent], below, roots=False)
                    depth += 1
                states[at] = state
                for child, p in likeliest(logits[0], min(width, N_CHILDREN), sharp):
                    if above * p >= worth:
                        nodes.append((above * p, at, depth, child))
            best = sorted(range(len(nodes)), key=lambda i: -nodes[i][0])[:max_nodes]
            todo = [
                i
                for i in best
                if i not in states
                and nodes[i][2] < max_depth
                and nodes[i][0] * SUREST_CHILD >= worth
            ]
        place = {ROOT: ROOT, **{node: i for i, node in enumerate(best)}}
        return (
            [int(self._ids_D[nodes[i][3]]) for i in best],
            [place[nodes[i][1]] for i in best],
            [nodes[i][0] for i in best],
        )

    def _gated(self, u_NH: Float32, which: str) -> Float32:
        x_NH, values = _rms(u_NH), self._values
        gate = x_NH @ values[f"{which}gate"].T
        up = x_NH @ values[f"{which}up"].T
        return np.asarray(u_NH + (gate / (1 + np.exp(-gate)) * up) @ values[f"{which}down"].T)


def likeliest(logits_D: Float32, n: int, sharpness: float) -> list[tuple[int, float]]:
    """The n likeliest of a row, likeliest first, with their probabilities."""
    x_D = np.asarray(logits_D, np.float64) * sharpness
    p_D = np.exp(x_D - x_D.max())
    order = np.argsort(-x_D, kind="stable")[:n]
    return [(int(i), float(p_D[i] / p_D.sum())) for i in order]


def _rms(x: Float32) -> Float32:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS), np.float32)
