"""Attention over fixed key blocks, folded together in order of position.

For one row and one block of keys:  m = max s,  p = exp(s - m),  l = sum p,  o = p v.  Two such
results fold into one (online softmax, Milakov & Gimelshein 1805.02867; FlashAttention):

    m' = max(m, m_b),  o' = o exp(m - m') + o_b exp(m_b - m'),  l' likewise,  result = o / l

Every block is computed by the same two batched products at tile heights seen to agree, and folded
in the same order, so neither the length of the rest of the sequence nor the company of other rows
reaches the result. A block in which a row sees nothing is folded with weight exp(-1e30) = 0.

The queries of the heads that share a K/V head are rows of one product (no copies of keys).

Shapes: R rows, H query heads, K K/V heads, G = H / K, D head size, S slots of the pool, E entries,
T rows of a tile, B keys of a block, U tiles.
"""

from typing import Final

import torch
from torch import Tensor

from outpace.runtimes.native.eager.plan import KEY_BLOCK, Group
from outpace.runtimes.native.spec.model import ModelSpec

_UNSEEN: Final = -1e30  # finite: a block without a visible key must fold, not make NaN
_HEIGHTS: Final = (1, 2, 4, 8, 16, 32)


def attend(
    q_RHD: Tensor, k_KSD: Tensor, v_KSD: Tensor, groups: list[Group], spec: ModelSpec
) -> Tensor:
    """Results of all rows, fp32, shape (R, H, D). Keys of the pass itself are already in the pool.

    q_RHD: scaled queries, fp32. k_KSD, v_KSD: one layer of the pool.
    """
    folded: _Folded | None = None
    for group in groups:
        o_PHD, m_PH, l_PH = _partials(q_RHD, k_KSD, v_KSD, group, spec)
        for rows, places in group.steps:
            part = (o_PHD[places], m_PH[places], l_PH[places])
            if folded is None and len(rows) == len(q_RHD):
                folded = _Folded(q_RHD)
                folded.o_RHD[rows], folded.m_RH[rows], folded.l_RH[rows] = part
                continue
            folded = folded or _Folded(q_RHD)
            folded.fold(rows, *part)
    if folded is None:
        return torch.empty_like(q_RHD)
    return folded.o_RHD / folded.l_RH[..., None]


class _Folded:
    """Running results of all rows; starts with nothing seen."""

    def __init__(self, q_RHD: Tensor) -> None:
        self.o_RHD = torch.zeros_like(q_RHD)
        self.m_RH = torch.full(q_RHD.shape[:2], _UNSEEN, device=q_RHD.device)
        self.l_RH = torch.zeros(q_RHD.shape[:2], device=q_RHD.device)

    def fold(self, rows: Tensor, o_XHD: Tensor, m_XH: Tensor, l_XH: Tensor) -> None:
        """Fold one block's results into these rows."""
        before_XH = self.m_RH[rows]
        most_XH = torch.maximum(before_XH, m_XH)
        old_XH, new_XH = (before_XH - most_XH).exp(), (m_XH - most_XH).exp()
        self.m_RH[rows] = most_XH
        self.l_RH[rows] = self.l_RH[rows] * old_XH + l_XH * new_XH
        self.o_RHD[rows] = self.o_RHD[rows] * old_XH[..., None] + o_XHD * new_XH[..., None]


def _partials(
    q_RHD: Tensor, k_KSD: Tensor, v_KSD: Tensor, group: Group, spec: ModelSpec
) -> tuple[Tensor, Tensor, Tensor]:
    """o, m, l of every place e * T + t."""
    n_kv, g, d = spec.n_kv_heads, spec.group, spec.head_dim
    n_tiles, height = group.rows_UT.shape
    n_entries = len(group.tile_E)
    q_UTKGD = q_RHD[group.rows_UT].view(n_tiles, height, n_kv, g, d)
    q_KUTGD = q_UTKGD.permute(2, 0, 1, 3, 4)
    if n_entries != n_tiles:
        q_KUTGD = q_KUTGD[:, group.tile_E]
    q_XMD = q_KUTGD.reshape(n_kv * n_entries, height * g, d)
    k_XBD = k_KSD.index_select(1, group.slots_N).float().view(-1, KEY_BLOCK, d)
    v_XBD = v_KSD.index_select(1, group.slots_N).float().view(-1, KEY_BLOCK, d)
    s_XMB = torch.bmm(q_XMD, k_XBD.transpose(1, 2))
    if spec.attention_softcap is not None:
        s_XMB = (s_XMB / spec.attention_softcap).tanh_() * spec.attention_softcap
    s_KETGB = s_XMB.view(n_kv, n_entries, height, g, KEY_BLOCK)
    s_KETGB.masked_fill_(group.hidden_ETB[None, :, :, None, :], _UNSEEN)
    m_XM1 = s_XMB.amax(2, keepdim=True)
    p_XMB = s_XMB.sub_(m_XM1).exp_()
    l_XM = p_XMB.sum(2)
    o_XMD = torch.bmm(p_XMB, v_XBD)

    def by_place(x: Tensor, *tail: int) -> Tensor:
        x_KETG = x.view(n_kv, n_entries, height, g, *tail)
        rest = range(4, 4 + len(tail))
        return x_KETG.permute(1, 2, 0, 3, *rest).reshape(n_entries * height, n_kv * g, *tail)

    return by_place(o_XMD, d), by_place(m_XM1), by_place(l_XM)


def agreeing_heights(spec: ModelSpec, device: torch.device) -> tuple[tuple[int, ...], bool]:
    """Tile heights whose block products agree bit by bit with the tallest's, and whether any do.

    Measured: MKL's batched fp32 product agrees with itself at all multiples of four rows.
    """
    n_kv, g, d = spec.n_kv_heads, spec.group, spec.head_dim
    tallest = _HEIGHTS[-1]
    generator = torch.Generator().manual_seed(d)
    q_KTGD = torch.randn(n_kv, tallest, g, d, generator=generator).to(device)
    k_KBD = torch.randn(n_kv, KEY_BLOCK, d, generator=generator).to(device)
    v_KBD = torch.randn(n_kv, KEY_BLOCK, d, generator=generator).to(device)

    def both(q_KTGD: Tensor, *, n_times: int = 1) -> tuple[Tensor, Tensor]:
        q_KMD = q_KTGD.reshape(n_kv, -1, d).repeat(n_times, 1, 1)
        k_XBD, v_XBD = k_KBD.repeat(n_times, 1, 1), v_KBD.repeat(n_times, 1, 1)
        s_XMB = torch.bmm(q_KMD, k_XBD.transpose(1, 2))
        o_XMD = torch.bmm(s_XMB.abs(), v_XBD)
        height = q_KTGD.shape[1]
        return (
            s_XMB[-n_kv:].view(n_kv, height, g, KEY_BLOCK),
            o_XMD[-n_kv:].view(n_kv, height, g, d),
        )

    def same(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor], at: Tensor) -> bool:
        return torch.equal(a[0], b[0][:, at]) and torch.equal(a[1], b[1][:, at])

    whole = both(q_KTGD)
    order_T = torch.randperm(tallest, generator=generator).to(device)
    exact = same(both(q_KTGD[:, order_T]), whole, order_T) and same(
        both(q_KTGD, n_times=3), whole, torch.arange(tallest, device=device)
    )
    heights = [
        height
        for height in _HEIGHTS[:-1]
        if exact
        and all(
            same(both(q_KTGD[:, at], n_times=n), whole, at)
            for i in range(0, tallest, height)
            for at in (torch.arange(i, i + height, device=device),)
            for n in (1, 2, 5)
        )
    ]
    return (*heights, tallest), exact
