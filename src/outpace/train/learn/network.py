"""The head as torch trains it: from the target's hidden states to a law over the next tokens.

It has no attention and no memory of its own: the target's hidden states of the last row it
computed already know the text, and one state per path is all that is carried from guess to guess.

    root:  u = x_T + W_root [norm(x_1), .., norm(x_T), e(token)] + mlp_root(.)
    step:  u = s + W_step [norm(s), e(token)]
    both:  s = u + W_down (silu(W_gate norm(u)) * W_up norm(u));   logits = W_out norm(s)

x_t are residual streams after a few layers, x_T the last (each divided by its root mean square, as
`norm` does; the gains of usual norms would only be factors of the matrices behind them). e is an
embedding of low rank, of every token the target has; W_out knows the `draft` vocabulary only.

Shapes: B rows, H the target's width and the head's, T taps, E the embedding's rank, D draft tokens.
"""

import torch
from torch import Tensor, nn

from outpace.drafters.head.files import EPS, HeadShape


def rms(x: Tensor) -> Tensor:
    """x over its root mean square."""
    return x * (x.pow(2).mean(-1, keepdim=True) + EPS).rsqrt()


class HeadNetwork(nn.Module):
    """The matrices, each used as in the module's docstring."""

    def __init__(self, shape: HeadShape, generator: torch.Generator) -> None:
        super().__init__()
        self.shape = shape
        self.matrices = nn.ParameterDict()
        for name, (n, k) in shape.matrices.items():
            spread = 0.0 if name.endswith("down") else k**-0.5 / 2
            weight = torch.randn(n, k, generator=generator) * spread
            self.matrices[name] = nn.Parameter(weight)

    def start_from(self, embed_VH: Tensor, head_DH: Tensor) -> None:
        """Begin at what the target knows: its embedding's best low rank, and its own head.

        embed_VH: the target's embedding. head_DH: rows of its output matrix for the draft
        vocabulary, the last norm's gain multiplied in.
        """
        with torch.no_grad():
            centred = embed_VH - embed_VH.mean(0)
            _, _, basis = torch.svd_lowrank(centred, q=self.shape.embed + 16, niter=3)
            low = centred @ basis[:, : self.shape.embed]
            self.weight("embed").copy_(low / low.pow(2).mean().sqrt() / 2)
            self.weight("out").copy_(head_DH)

    def weight(self, name: str) -> Tensor:
        """One matrix, by its name in `HeadShape.matrices`."""
        weight: Tensor = self.matrices[name]
        return weight

    def root(self, taps_BTH: Tensor, tokens_B: Tensor) -> Tensor:
        """The state after the last committed token, [B, H]."""
        x_BTH = rms(taps_BTH)
        e_BE = nn.functional.embedding(tokens_B, self.weight("embed"))
        u_BH = x_BTH[..., -1, :] + self._times("root", torch.cat([x_BTH.flatten(-2), e_BE], -1))
        return self._gated(self._gated(u_BH, "root_"), "")

    def step(self, s_BH: Tensor, tokens_B: Tensor) -> Tensor:
        """The state after one more guess."""
        e_BE = nn.functional.embedding(tokens_B, self.weight("embed"))
        return self._gated(s_BH + self._times("step", torch.cat([rms(s_BH), e_BE], -1)), "")

    def logits(self, s_BH: Tensor) -> Tensor:
        """Over the draft vocabulary, [B, D]."""
        return self._times("out", rms(s_BH))

    def _gated(self, u_BH: Tensor, which: str) -> Tensor:
        x_BH = rms(u_BH)
        gate = nn.functional.silu(self._times(f"{which}gate", x_BH))
        return u_BH + self._times(f"{which}down", gate * self._times(f"{which}up", x_BH))

    def _times(self, name: str, x: Tensor) -> Tensor:
        half = torch.bfloat16
        return nn.functional.linear(x.to(half), self.weight(name).to(half)).float()
