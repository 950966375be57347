"""Features of streams too large for half precision are as good as those of small ones."""

import torch

from outpace.train.features import _halved
from outpace.train.learn.network import rms


def test_large_streams_do_not_overflow() -> None:
    streams_RF = torch.randn(5, 3 * 64, generator=torch.Generator().manual_seed(0))
    small = torch.from_numpy(_halved(streams_RF, 64)).float()
    large = torch.from_numpy(_halved(3e6 * streams_RF, 64)).float()
    assert bool(large.isfinite().all())
    assert torch.allclose(small, large, atol=2e-3)
    assert torch.allclose(rms(large), rms(streams_RF.view(5, 3, 64)), atol=4e-3)
