"""What a greedy choice under a grammar must be, row by row; also run against planted bugs."""

from collections.abc import Sequence as Seq

import torch
from torch import Tensor

from laws.oracle import LawError
from outpace.core.coins import SeededCoins
from outpace.core.law import History, Laws, TokenMask
from outpace.core.sampling import Sampling

VOCAB, N_ROWS = 40, 6


class Sieve(TokenMask):
    """Allows a share of the tokens, other ones after every path; sometimes none."""

    def __init__(self, share: float) -> None:
        self._share = share

    def allowed(self, guesses: Seq[int]) -> Tensor:
        generator = torch.Generator().manual_seed(sum(guesses) + 31 * len(guesses))
        return torch.rand(VOCAB, generator=generator) < self._share

    def advance(self, token: int) -> None:
        """Tells of nothing."""


def check_greedy_under_a_grammar() -> None:
    """The likeliest of the allowed tokens, the lowest id on a tie; dead where there is none."""
    generator = torch.Generator().manual_seed(7)
    for share in (0.0, 0.05, 0.5, 0.95, 1.0):
        for _ in range(20):
            logits_AV = torch.randint(0, 9, (N_ROWS, VOCAB), generator=generator).float()
            guesses = torch.randint(0, VOCAB, (N_ROWS - 1,), generator=generator).tolist()
            paths = [guesses[:i] for i in range(N_ROWS)]
            mask = Sieve(share)
            laws = Laws(
                sampling=Sampling(), history=History(prompt=[1]), paths=paths, logits_AV=logits_AV,
                mask=mask,
            )  # fmt: skip
            for row, path in enumerate(paths):
                left = torch.nonzero(mask.allowed(path))[:, 0].tolist()
                best = max(left, key=lambda t, r=row: (float(logits_AV[r, t]), -t), default=None)  # type: ignore[misc]
                if laws.dead(row) != (best is None):
                    raise LawError(f"row {row} is {'dead' if laws.dead(row) else 'alive'}")
                found = laws.choice(row, row, SeededCoins(1, 1))
                if best is not None and (found != best or int(laws.law(row).argmax()) != best):
                    raise LawError(f"row {row} says {found}, the grammar leaves {best}")
