"""Faults planted on purpose: a plan whose truth is known shows whether an evaluation finds it."""

import time
from collections.abc import Sequence as Seq
from dataclasses import replace

import torch

from outpace.bench.client import Answer
from outpace.core.sampling import Sampling
from outpace.core.score import Rows, Runtime, Scores
from outpace.evaluate.plan.arms import Planted


class Gullible:
    """A runtime that finds every guess right, so that all are kept unchecked."""

    def __init__(self, inner: Runtime) -> None:
        self._inner = inner
        self.traits = inner.traits

    def open(self, key: int, tokens: Seq[int]) -> int:
        return self._inner.open(key, tokens)

    def reserve(self, key: int, n_rows: int) -> None:
        self._inner.reserve(key, n_rows)

    def extend(self, batch: Seq[Rows]) -> list[Scores]:
        scores = self._inner.extend(batch)
        return [_flattered(rows, score) for rows, score in zip(batch, scores, strict=True)]

    def keep(self, key: int, rows: Seq[int]) -> None:
        self._inner.keep(key, rows)

    def close(self, key: int) -> None:
        self._inner.close(key)

    def forget_beginnings(self) -> None:
        """As the runtime behind it."""
        getattr(self._inner, "forget_beginnings", lambda: None)()


def _flattered(rows: Rows, score: Scores) -> Scores:
    """The scores of a pass, with each row's first guess made its likeliest token."""
    guess_after = {}
    for row in range(len(rows.tokens) - 1, -1, -1):
        guess_after[rows.parents[row]] = rows.tokens[row]
    believed = [(at, guess_after[row]) for at, row in enumerate(rows.asked) if row in guess_after]
    best_A, logits_AV = score.best_A, score.logits_AV
    if best_A is not None:
        best_A = list(best_A)
        for at, token in believed:
            best_A[at] = token
    if logits_AV is not None:
        logits_AV = logits_AV.clone()
        for at, token in believed:
            logits_AV[at] = torch.full_like(logits_AV[at], -30.0)
            logits_AV[at, token] = 30.0
    return replace(score, best_A=best_A, logits_AV=logits_AV)


def distorted(sampling: Sampling, planted: Planted | None) -> Sampling:
    """The sampling an arm really uses when its temperature is off."""
    if planted is None or planted.temperature_factor is None:
        return sampling
    return replace(sampling, temperature=sampling.temperature * planted.temperature_factor)


def slowed(answer: Answer, planted: Planted | None) -> Answer:
    """The answer of an arm that takes so many times as long, after waiting for that long."""
    if planted is None or planted.slowdown is None:
        return answer
    factor, sent_s = planted.slowdown, answer.sent_s
    time.sleep((factor - 1) * (answer.ended_s - sent_s))
    return replace(
        answer,
        ended_s=sent_s + factor * (answer.ended_s - sent_s),
        chunks_s=tuple(sent_s + factor * (t - sent_s) for t in answer.chunks_s),
    )
