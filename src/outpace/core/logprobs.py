"""What a row says of the token that followed it: raw log-probabilities, for reports only.

"Raw" is the log-softmax of the model's own logits: before penalties, bias, grammar, temperature
and filters, and before anything a drafter said. It is therefore what one pass over the finished
text would give (teacher forcing), with speculation or without; the text never depends on it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprobs:
    """A token of the text as its row saw it.

    rank: 1 = the row's likeliest token. top: the row's n likeliest (token, log-probability), best
    first, lowest id first among equals; the token itself need not be among them.
    """

    token: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()


def token_logprobs(logits_V: Tensor, token: int, n_top: int) -> TokenLogprobs:
    """Look one token and the n_top likeliest up in a row of raw logits.

    One row at a time, as laws are: a row's report does not depend on what shared its pass.
    """
    row_V = logits_V if logits_V.itemsize >= 4 else logits_V.to(torch.float32)
    log_p_V = row_V.log_softmax(0)
    own = log_p_V[token]
    return TokenLogprobs(
        token=token,
        logprob=float(own),
        rank=int((log_p_V > own).sum()) + 1,
        top=_likeliest(log_p_V, min(n_top, len(log_p_V))),
    )


def _likeliest(log_p_V: Tensor, n: int) -> tuple[tuple[int, float], ...]:
    if n == 0:
        return ()
    # topk alone leaves open which of several equals it takes.
    bar = log_p_V.topk(n).values[-1]
    above = (log_p_V > bar).nonzero().flatten().tolist()
    equal = (log_p_V == bar).nonzero().flatten()[: n - len(above)].tolist()
    pairs = [(index, float(log_p_V[index])) for index in (*above, *equal)]
    return tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
