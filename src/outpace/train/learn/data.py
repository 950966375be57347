"""Answers' features as training batches: which rows are roots, and what follows each.

Row r of an answer is the target's state before its token r; a head starts there knowing token r
too, and guesses token r + 1, whose law is row r + 1's. One step deeper everything moves by one.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from outpace.train.features import Answer
from outpace.train.learn.network import rms

_T = TypeVar("_T")
# One answer in so many is held out.
HELD_OUT = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows of several answers, one after another.

    taps_RTH: the tapped streams. tokens_R: the token after each row; -1 after an answer's last.
    p_RD: the target's law at each row over the draft vocabulary. left_R: rows of the same answer
    that follow.
    """

    taps_RTH: Tensor
    tokens_R: Tensor
    p_RD: Tensor
    left_R: Tensor

    def roots(self, depth: int) -> Tensor:
        """Rows at which `depth` guesses can be judged."""
        return (self.left_R >= depth).nonzero().flatten()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What turns the target's last stream into its law over the draft vocabulary.

    head_DH: rows of its output matrix, the last norm's gain multiplied in.
    """

    head_DH: Tensor

    def law(self, stream_RH: Tensor, log_sum_R: Tensor) -> Tensor:
        """p over the draft vocabulary, [R, D]; sums to at most 1."""
        logits_RD = torch.nn.functional.linear(
            rms(stream_RH).to(torch.bfloat16), self.head_DH.to(torch.bfloat16)
        )
        return (logits_RD.float() - log_sum_R[:, None]).exp_().clamp_(max=1.0)


def collate(answers: Seq[Answer], n_taps: int, target: Target) -> Batch:
    """One batch."""
    x_RTH = torch.from_numpy(np.concatenate([a.streams_RTH for a in answers])).float()
    sums_R = torch.from_numpy(np.concatenate([a.log_sum_R for a in answers]))
    tokens = np.concatenate([np.append(a.tokens, -1) for a in answers])
    left = np.concatenate([np.arange(len(a.tokens), -1, -1) for a in answers])
    return Batch(
        taps_RTH=x_RTH[:, :n_taps],
        tokens_R=torch.from_numpy(tokens).long(),
        p_RD=target.law(x_RTH[:, -1], sums_R),
        left_R=torch.from_numpy(left),
    )


def divide(answers: Seq[_T]) -> tuple[list[_T], list[_T]]:
    """To learn from, and held out."""
    learn = [a for i, a in enumerate(answers) if i % HELD_OUT]
    return learn, [a for i, a in enumerate(answers) if not i % HELD_OUT]


def order(seed: int, n: int, per_batch: int, step: int) -> list[int]:
    """Which answers batch number `step` has: every answer once an epoch, in an order of its own."""
    per_epoch = max(n // per_batch, 1)
    epoch, at = divmod(step, per_epoch)
    shuffled = np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(n)
    return [int(i) for i in shuffled[at * per_batch : (at + 1) * per_batch]]


def draft_vocabulary(answers: Seq[Answer], vocab: int, size: int) -> Tensor:
    """The most frequent tokens of the answers, ascending ids, [D]."""
    counts = np.zeros(vocab, np.int64)
    for answer in answers:
        np.add.at(counts, answer.tokens, 1)
    return torch.from_numpy(np.sort(np.argsort(-counts, kind="stable")[:size]).astype(np.int64))
