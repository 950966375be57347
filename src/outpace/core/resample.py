"""Stage 4, resample: the token the target always gets to choose."""

from typing import TYPE_CHECKING

from torch import Tensor

from outpace.core.coins import Coins, Purpose
from outpace.errors import RequestError

if TYPE_CHECKING:
    from outpace.core.accept import Verdict
    from outpace.core.law import Laws


def residual(p_V: Tensor, q_V: Tensor, *, or_V: Tensor | None = None) -> Tensor:
    """The law of the token after the last kept guess: max(0, p - q), rescaled.

    With q = 0 this is p itself, so the bonus token and plain decoding need no branch. Where
    nothing is left (p = q up to rounding; a rejection then has probability 0) it is `or_V`,
    or p. Leviathan et al. 2211.17192, section 2.3.
    """
    left_V = (p_V - q_V).clamp_min(0)
    total = left_V.sum()
    if total > 0:
        return left_V / total
    return p_V if or_V is None else or_V


def resample(verdict: "Verdict", laws: "Laws", coins: Coins, start: int) -> int:
    """The next token after the kept path: the target's choice, or a draw from what is left.

    Raises:
        RequestError: no token may follow the kept path.
    """
    if laws.dead(verdict.row):
        raise RequestError(
            "no token is allowed next: bans, bias, min_tokens, forced tokens and grammar together "
            "leave none; loosen one of them"
        )
    position = start + len(verdict.path)
    if verdict.weights_V is None:
        return laws.choice(verdict.row, position, coins)
    return coins.categorical(verdict.weights_V, Purpose.RESAMPLE, position)
