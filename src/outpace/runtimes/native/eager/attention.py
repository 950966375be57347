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

import math
from typing import Final

import torch
from torch import Tensor

from outpace.runtimes.native.eager.plan import KEY_BLOCK, Group
from outpace.runtimes.native.spec.model import ModelSpec

_UNSEEN: Final = -1e30  # finite: a block without a visible key must fold, not make NaN
_HEIGHTS: Final = (1, 2, 4, 8, 16, 32)


class Scratch:
    """Buffers kept between layers and passes: fresh ones of this size cost a page fault a page."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._flat: dict[str, Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """An uninitialized tensor; it is overwritten when its name is taken again."""
        n_values = math.prod(shape)
        flat = self._flat.get(name)
        if flat is None or flat.numel() < n_values:
            flat = self._flat[name] = torch.empty(n_values, dtype=dtype, device=self._device)
        return flat[:n_values].view(shape)


def attend(
    q_RHD: Tensor, kv_2KSD: Tensor, groups: list[Group], spec: ModelSpec, scratch: Scratch
) -> Tensor:
    """Results of all rows, fp32, shape (R, H, D). Keys of the pass itself are already in the pool.

    q_RHD: scaled queries, fp32. kv_2KSD: one layer of the pool, keys then values.
    """
    folded: _Folded | None = None
    for group in groups:
        o_PHD, m_PH, l_PH = _partials(q_RHD, kv_2KSD, group, spec, scratch)
        for rows, places in group.steps:
            part = (o_PHD[places], m_PH[places], l_PH[places])
            if folded is None:
                folded = _Folded(q_RHD, part) if rows is None else _Folded(q_RHD)
                if rows is None:
                    continue
            folded.fold(rows, *part)
    if folded is None:
        return torch.empty_like(q_RHD)
    return folded.o_RHD / folded.l_RH[..., None]


class _Folded:
    """Running results of all rows: the first part of every row, or nothing seen yet."""

    def __init__(self, q_RHD: Tensor, part: tuple[Tensor, Tensor, Tensor] | None = None) -> None:
        self.o_RHD, self.m_RH, self.l_RH = part or (
            torch.zeros_like(q_RHD),
            torch.full(q_RHD.shape[:2], _UNSEEN, device=q_RHD.device),
            torch.zeros(q_RHD.shape[:2], device=q_RHD.device),
        )

    def fold(self, rows: Tensor | None, o_XHD: Tensor, m_XH: Tensor, l_XH: Tensor) -> None:
        """Fold one block's results into these rows; None = all rows, in their order."""
        if rows is None:
            self.o_RHD, self.m_RH, self.l_RH = _folded(
                (self.o_RHD, self.m_RH, self.l_RH), (o_XHD, m_XH, l_XH)
            )
            return
        before = (self.o_RHD[rows], self.m_RH[rows], self.l_RH[rows])
        after = _folded(before, (o_XHD, m_XH, l_XH))
        self.o_RHD[rows], self.m_RH[rows], self.l_RH[rows] = after


def _folded(
    a: tuple[Tensor, Tensor, Tensor], b: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Two results (o, m, l) as one."""
    most_XH = torch.maximum(a[1], b[1])
    x_XH, y_XH = (a[1] - most_XH).exp_(), (b[1] - most_XH).exp_()
    o_XHD = (a[0] * x_XH[..., None]).add_(b[0] * y_XH[..., None])
    return o_XHD, most_XH, (a[2] * x_XH).add_(b[2] * y_XH)


def _partials(
    q_RHD: Tensor, kv_2KSD: Tensor, group: Group, spec: ModelSpec, scratch: Scratch
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
    k_XBD, v_XBD = _gathered(kv_2KSD, group.slots_N, scratch)
    s_XMB = scratch.take("scores", (*q_XMD.shape[:2], KEY_BLOCK), torch.float32)
    torch.bmm(q_XMD, k_XBD.transpose(1, 2), out=s_XMB)
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


def _gathered(kv_2KSD: Tensor, slots_N: Tensor, scratch: Scratch) -> tuple[Tensor, Tensor]:
    """Keys and values of the blocks, fp32, copied so that no page layout reaches a product."""
    _, n_kv, _, d = kv_2KSD.shape
    shape = (2, n_kv, len(slots_N), d)
    stored_2KND = scratch.take("stored", shape, kv_2KSD.dtype)
    torch.index_select(kv_2KSD, 2, slots_N, out=stored_2KND)
    if kv_2KSD.dtype != torch.float32:
        stored_2KND = scratch.take("keys and values", shape, torch.float32).copy_(stored_2KND)
    k_KND, v_KND = stored_2KND
    return k_KND.view(-1, KEY_BLOCK, d), v_KND.view(-1, KEY_BLOCK, d)


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
