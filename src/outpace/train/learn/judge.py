"""How good a head is, on answers it did not learn from: acceptance by position, and sharpness."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from outpace.train.features import Answer
from outpace.train.learn.data import Target, collate
from outpace.train.learn.network import HeadNetwork
from outpace.train.learn.objective import overlap

_SHARPNESS = np.linspace(0.8, 2.4, 33)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Acceptance on answers that were not learned from, by position of the guess.

    right: the likeliest guess was the text's token, given that those before it were. kept: chance
    that a drawn guess is kept. positions: guesses judged, by position.
    """

    right: tuple[float, ...]
    kept: tuple[float, ...]
    positions: tuple[int, ...]

    @property
    def tokens_per_pass(self) -> float:
        """Of a chain at temperature 0."""
        total, chance = 1.0, 1.0
        for right in self.right:
            chance *= right
            total += chance
        return total


@torch.no_grad()
def held_out(
    network: HeadNetwork, target: Target, ids_D: Tensor, answers: Seq[Answer], depth: int = 4
) -> HeldOut:
    """Judge a head."""
    right, kept, positions = [0.0] * depth, [0.0] * depth, [0] * depth
    for answer in answers:
        batch = collate([answer], len(network.shape.taps), target)
        at_N = batch.roots(2)
        state_NH = network.root(batch.taps_RTH[at_N], batch.tokens_R[at_N])
        for k in range(depth):
            if k:
                going_N = batch.left_R[at_N] >= k + 2
                state_NH, at_N = state_NH[going_N], at_N[going_N]
                state_NH = network.step(state_NH, batch.tokens_R[at_N + k])
            if not len(at_N):
                break
            logits_ND = network.logits(state_NH)
            hit_N = ids_D[logits_ND.argmax(-1)] == batch.tokens_R[at_N + k + 1]
            right[k] += float(hit_N.sum())
            kept[k] += float(overlap(logits_ND, batch.p_RD[at_N + k + 1]).sum())
            positions[k] += len(at_N)
            state_NH, at_N = state_NH[hit_N], at_N[hit_N]
    counts = [max(n, 1) for n in positions]
    return HeldOut(
        right=tuple(r / n for r, n in zip(right, counts, strict=True)),
        kept=tuple(k / n for k, n in zip(kept, counts, strict=True)),
        positions=tuple(positions),
    )


@torch.no_grad()
def greedy_sharpness(
    network: HeadNetwork, target: Target, ids_D: Tensor, answers: list[Answer]
) -> float:
    """The factor under which the head's law best foretells what greedy answers say next.

    The least cross-entropy over the answers' tokens that the head can guess.
    """
    losses = np.zeros(len(_SHARPNESS))
    place_V = torch.full((network.shape.vocab,), -1, dtype=torch.long)
    place_V[ids_D] = torch.arange(len(ids_D))
    for answer in answers:
        batch = collate([answer], len(network.shape.taps), target)
        at_N = batch.roots(2)
        if not len(at_N):
            continue
        logits_ND = network.logits(network.root(batch.taps_RTH[at_N], batch.tokens_R[at_N]))
        next_N = place_V[batch.tokens_R[at_N + 1]]
        logits_ND, next_N = logits_ND[next_N >= 0], next_N[next_N >= 0]
        for i, sharp in enumerate(_SHARPNESS):
            losses[i] += float(
                torch.nn.functional.cross_entropy(logits_ND * sharp, next_N, reduction="sum")
            )
    return float(_SHARPNESS[int(losses.argmin())])
