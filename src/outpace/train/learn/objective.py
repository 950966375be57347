"""What acceptance needs: the head's law close to the target's, guess after guess.

Token by token, a drawn guess survives with probability sum_v min(p(v), q(v)) = 1 - total variation
(2211.17192, corollary 3.6). Its gradient is flat where the laws hardly meet, so training begins
with the Kullback-Leibler divergence and keeps a share of it. Both gradients are written out:
they are a few passes over the logits, which are most of a training step's memory traffic.

p is the target's whole law cut to the draft vocabulary, so it may sum to less than 1.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Weights of the two divergences."""

    kl: float
    tv: float


class _Divergence(torch.autograd.Function):
    """sum over rows of weight * (kl * KL(p, q) + tv * (1 - sum min(p, q))), q = softmax(logits)."""

    @staticmethod
    def forward(
        ctx: Any, logits_ND: Tensor, p_ND: Tensor, weight_N: Tensor, mix: Mixture
    ) -> Tensor:
        q_ND = logits_ND.float().softmax(-1)
        overlap_N = torch.minimum(p_ND, q_ND).sum(-1)
        cross_N = (p_ND * (q_ND + 1e-20).log()).sum(-1)
        grad_ND = mix.kl * (p_ND.sum(-1, keepdim=True) * q_ND - p_ND)
        if mix.tv:
            below_ND = (q_ND < p_ND).float().mul_(q_ND)
            share_N1 = below_ND.sum(-1, keepdim=True)
            grad_ND += mix.tv * (q_ND * share_N1 - below_ND)
        ctx.save_for_backward(grad_ND.mul_(weight_N[:, None]).to(logits_ND.dtype))
        loss_N = mix.tv * (1 - overlap_N) - mix.kl * cross_N
        return (weight_N * loss_N).sum()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad_ND,) = ctx.saved_tensors
        return grad_ND * grads[0], None, None, None


def divergence(logits_ND: Tensor, p_ND: Tensor, weight_N: Tensor, mix: Mixture) -> Tensor:
    """The loss, up to the entropy of p, which no head can change."""
    loss: Tensor = _Divergence.apply(logits_ND, p_ND, weight_N, mix)  # type: ignore[no-untyped-call]
    return loss


def overlap(logits_ND: Tensor, p_ND: Tensor) -> Tensor:
    """Chance that a guess drawn from the head is kept, by row."""
    return torch.minimum(p_ND, logits_ND.float().softmax(-1)).sum(-1)
