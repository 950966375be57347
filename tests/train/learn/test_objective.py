"""The written-out gradients are those of the divergences, by automatic differentiation."""

import pytest
import torch
from torch import Tensor

from outpace.train.learn.objective import Mixture, divergence, overlap


def laws(n: int, d: int, mass: float) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n + d)
    logits = torch.randn(n, d, generator=generator, requires_grad=True)
    p = mass * (2 * torch.randn(n, d, generator=generator)).softmax(-1)
    return logits, p, torch.rand(n, generator=generator)


@pytest.mark.parametrize("mass", [1.0, 0.7])
@pytest.mark.parametrize("mix", [Mixture(kl=1, tv=0), Mixture(kl=0, tv=1), Mixture(kl=0.3, tv=1)])
def test_gradients(mix: Mixture, mass: float) -> None:
    logits, p, weight = laws(5, 11, mass)
    divergence(logits, p, weight, mix).backward()  # type: ignore[no-untyped-call]
    found = logits.grad
    again = logits.detach().requires_grad_()
    q = again.softmax(-1)
    kl = -(p * q.log()).sum(-1)
    tv = 1 - torch.minimum(p, q).sum(-1)
    (weight * (mix.kl * kl + mix.tv * tv)).sum().backward()  # type: ignore[no-untyped-call]
    assert found is not None
    assert again.grad is not None
    assert torch.allclose(found, again.grad, atol=1e-6)


def test_overlap_is_one_minus_total_variation() -> None:
    logits, p, _ = laws(4, 9, 1.0)
    q = logits.detach().softmax(-1)
    assert torch.allclose(overlap(logits.detach(), p), 1 - 0.5 * (p - q).abs().sum(-1), atol=1e-6)
