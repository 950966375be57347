"""Stage 2, score: one pass of the target over every guess. The `Runtime` protocol lives here.

A runtime owns a model and its memory. Tokens a sequence is *behind* and guesses are the same
thing to it: rows. Prefill, decoding and verification are one operation.

A row's raw logits can also be reported (`token_logprobs`): the log-softmax of what the model said,
before penalties, bias, grammar, temperature and filters, and before anything a drafter said. That
is what one pass over the finished text would give (teacher forcing), with speculation or without;
the text never depends on it.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from outpace.errors import ContractError


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a runtime is and can do; mismatches are refused when parts are put together.

    context_tokens: longest text, prompt included. eos_ids: ids that end a text.
    trees: whether rows may branch. row_invariant: whether a row's logits are bit-equal whatever
    shares its pass. digest: identity of the weights and their format. n_hidden: width of the
    hidden states it can return, 0 = none.
    """

    name: str
    vocab_size: int
    context_tokens: int
    eos_ids: frozenset[int]
    trees: bool
    row_invariant: bool
    digest: str
    n_hidden: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """One sequence's part of a pass.

    tokens: R token ids. parents: R earlier row indices; -1 = follows what the runtime keeps.
    asked: rows whose result is wanted. logits: True = logits, False = argmax ids suffice.
    """

    key: int
    tokens: Seq[int]
    parents: Seq[int]
    asked: Seq[int]
    logits: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """One sequence's result: a row each for the A asked rows.

    logits_AV: raw logits, fp32 or wider (None when only argmax ids were wanted). best_A: argmax
    ids, lowest id on a tie. hidden_RH: hidden states of all rows, if the runtime was told to.
    """

    logits_AV: Tensor | None = None
    best_A: Seq[int] | None = None
    hidden_RH: Tensor | None = None


class Runtime(Protocol):
    """A model and its memory: five verbs.

    After `open`, alternate `extend` (rows are computed, provisionally) and `keep` (a path of
    those rows stays, all others are forgotten). A second `extend` without `keep` between is an
    error for that sequence.
    """

    traits: Traits

    def open(self, key: int, tokens: Seq[int]) -> int:
        """Begin a sequence; returns how many leading tokens need no pass (a known beginning).

        At least the last token is always left to compute, so that it has logits.
        """

    def reserve(self, key: int, n_rows: int) -> None:
        """Make room for n_rows more.

        Raises:
            CapacityError: there is no room now; nothing changed.
        """

    def extend(self, batch: Seq[Rows]) -> list[Scores]:
        """One pass over the rows of all sequences given, which have reserved their room."""

    def keep(self, key: int, rows: Seq[int]) -> None:
        """Keep these rows of the last pass, a path from what was kept before; forget the rest."""

    def close(self, key: int) -> None:
        """End a sequence and free its memory; unknown keys are fine."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch works alone meanwhile: for reading scores, row by row.

    A row is too short to gain from its helper threads, and those, once woken, go on spinning for
    a while on the cores that a model's own threads need: passes between took 1.6 times as long.
    """
    n_threads = torch.get_num_threads()
    if n_threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def likeliest(scores_V: Tensor) -> int:
    """The index of the highest score, the lowest on a tie.

    NumPy's, where it can be: torch's takes 20 times as long for a row of a vocabulary.

    Raises:
        ContractError: it is infinite, or there is a NaN, which counts as the highest.
    """
    on_cpu = scores_V.device.type == "cpu"
    best = int(scores_V.detach().numpy().argmax()) if on_cpu else int(scores_V.argmax())
    if not float(scores_V[best]) < torch.inf:
        raise ContractError("logits contain NaN or infinity; the model's weights may be damaged")
    return best


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
