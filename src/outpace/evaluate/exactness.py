"""Is every text with guesses the text without them? The comparison, and what a difference means.

A runtime whose rows do not depend on their neighbours must match exactly. For others the first
difference of a text is a *tie* if the two tokens were closer than the noise there, and a
*mismatch*, a bug, otherwise. The noise is measured: the shared tokens pass through the model twice
more, in passes of the sizes that either run had, and twice the largest difference of a logit is
what those sizes explain. Texts are not compared beyond their first difference: what follows it
answers another question.
"""

import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from outpace.control.limits import Limits
from outpace.core.coins import gumbel, noise_bits
from outpace.core.draft import Ask, Draft, Drafter, Seen
from outpace.core.sampling import Sampling
from outpace.core.score import Rows, Runtime
from outpace.engine.engine import Engine
from outpace.errors import ContractError

Verdict = Literal["tie", "mismatch"]
Tick = Callable[[int], None]
_PROBE_KEY = 2**40  # far from the keys an engine hands out


def no_tick(n_tokens: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to decode all prompts. depth 0 = no guesses; trees: whether guesses may branch."""

    drafter: str
    temperature: float
    depth: int
    trees: bool

    @property
    def limits(self) -> Limits:
        """A chain has one guess per depth; a tree gets room for two."""
        nodes = 2 * self.depth if self.trees else self.depth
        return Limits(max_nodes=nodes, max_depth=self.depth)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One round of one text: its rows are tokens begin to begin + n_rows, kept up to `end`."""

    begin: int
    end: int
    n_rows: int
    n_drafted: int
    n_kept: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A decoded text and the rounds it took, those that only read the prompt included."""

    tokens: tuple[int, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first difference of one text, judged.

    at: index into the text. margin: how far plain decoding preferred its token, in units of the
    sampled scores. noise: the largest margin that the sizes of the passes explain.
    """

    case: str
    at: int
    plain_token: int | None
    other_token: int | None
    margin: float
    noise: float
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one arm gave."""

    arm: Arm
    n_texts: int
    n_tokens: int
    n_rounds: int
    n_drafted: int
    n_kept: int
    seconds: float
    differences: tuple[Difference, ...]

    @property
    def n_same(self) -> int:
        """Texts identical to plain decoding."""
        return self.n_texts - len(self.differences)

    def count(self, verdict: Verdict) -> int:
        """Differences judged so."""
        return sum(d.verdict == verdict for d in self.differences)


class ChainsOnly:
    """A drafter held to chains, on a runtime that could take trees."""

    def __init__(self, inner: Drafter) -> None:
        self.name = inner.name
        self._inner = inner

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return self._inner.propose([replace(ask, trees=False) for ask in asks])

    def observe(self, seen: Seq[Seen]) -> None:
        self._inner.observe(seen)

    def forget(self, key: int) -> None:
        self._inner.forget(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One prompt to decode: its name in reports, its ids, and how to sample."""

    name: str
    prompt: tuple[int, ...]
    sampling: Sampling


def decode(
    engine: Engine, cases: Seq[Case], *, n_streams: int = 1, tick: Tick = no_tick
) -> list[Text]:
    """Decode all cases, n_streams of them at a time in the same passes."""
    texts: dict[int, Text] = {}
    steps: list[list[Step]] = [[] for _ in cases]
    running: dict[int, int] = {}  # sequence key -> which case
    waiting = list(range(len(cases)))[::-1]
    while waiting or running:
        while waiting and len(running) < n_streams:
            case = cases[waiting[-1]]
            sequence = engine.add(case.prompt, case.sampling, seed=0)
            running[sequence.key] = waiting.pop()
        for done in engine.step():
            at = running[done.turn.sequence.key]
            tick(len(done.emitted))
            end = done.turn.sequence.n_computed
            steps[at].append(
                Step(
                    begin=end - done.turn.catch_up - done.n_kept,
                    end=end,
                    n_rows=done.n_rows,
                    n_drafted=len(done.draft),
                    n_kept=done.n_kept,
                )
            )
            if done.finish is not None:
                del running[done.turn.sequence.key]
                texts[at] = Text(tokens=tuple(done.turn.sequence.output), steps=tuple(steps[at]))
    return [texts[at] for at in range(len(cases))]


def first_difference(a: Seq[int], b: Seq[int]) -> int | None:
    """Where two texts part; None if they are equal."""
    for at, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return at
    return None if len(a) == len(b) else min(len(a), len(b))


def logits_after(runtime: Runtime, tokens: Seq[int], steps: Seq[Step]) -> Tensor:
    """Logits after the tokens, read again in passes of the sizes of `steps`.

    Rows that were guesses and not kept count for the size only; any token stands for them.
    """
    at = runtime.open(_PROBE_KEY, tokens)
    try:
        for step in steps:
            if step.end <= at:
                continue  # a known beginning, or read again after its memory was taken
            n = min(step.begin + step.n_rows, runtime.traits.context_tokens) - at
            asked = (len(tokens) - 1 - at,) if step.end >= len(tokens) else ()
            rows = Rows(
                key=_PROBE_KEY,
                tokens=[*tokens[at : at + n], *[0] * (at + n - len(tokens))],
                parents=range(-1, n - 1),
                asked=asked,
            )
            runtime.reserve(_PROBE_KEY, n)
            (score,) = runtime.extend([rows])
            if asked and score.logits_AV is not None:
                return score.logits_AV[0].to(torch.float64)
            runtime.keep(_PROBE_KEY, range(step.end - at))
            at = step.end
    finally:
        runtime.close(_PROBE_KEY)
    raise ContractError(f"{len(steps)} rounds do not reach the end of {len(tokens)} tokens")


def judge(runtime: Runtime, case: Case, plain: Text, other: Text) -> Difference | None:
    """None if the texts are equal, else their first difference and whether noise explains it."""
    at = first_difference(plain.tokens, other.tokens)
    if at is None:
        return None
    a, b = (text.tokens[at] if at < len(text.tokens) else None for text in (plain, other))
    margin, noise = float("inf"), 0.0
    if a is not None and b is not None:  # else one ends where the other goes on
        shared, sampling = (*case.prompt, *plain.tokens[:at]), case.sampling
        once_V = logits_after(runtime, shared, plain.steps)
        again_V = logits_after(runtime, shared, other.steps)
        scores, scale = once_V[[a, b]], 1.0
        if sampling.seed is not None and not sampling.greedy:
            scale = 1 / sampling.temperature
            bits = noise_bits(sampling.seed, len(shared), np.array([a, b], np.uint64))
            scores = scores * scale + torch.from_numpy(gumbel(bits))
        margin = float(scores[0] - scores[1])
        noise = 2 * scale * float((once_V - again_V).abs().max())
    tie = not runtime.traits.row_invariant and abs(margin) <= noise
    return Difference(
        case=case.name,
        at=at,
        plain_token=a,
        other_token=b,
        margin=margin,
        noise=noise,
        verdict="tie" if tie else "mismatch",
    )


def run_arm(
    runtime: Runtime,
    drafter: Drafter,
    arm: Arm,
    cases: Seq[Case],
    plain: Seq[Text] | None,
    *,
    n_streams: int = 1,
    tick: Tick = no_tick,
) -> tuple[Outcome, list[Text]]:
    """Decode all cases one way and compare with plain decoding (None: this is plain decoding)."""
    engine = Engine(runtime, drafter if arm.trees else ChainsOnly(drafter), limits=arm.limits)
    began = time.perf_counter()
    texts = decode(engine, cases, n_streams=n_streams, tick=tick)
    seconds = time.perf_counter() - began
    found = [
        judge(runtime, case, a, b)
        for case, a, b in zip(cases, texts if plain is None else plain, texts, strict=True)
    ]
    outcome = Outcome(
        arm=arm,
        n_texts=len(texts),
        n_tokens=sum(len(text.tokens) for text in texts),
        n_rounds=sum(len(text.steps) for text in texts),
        n_drafted=sum(step.n_drafted for text in texts for step in text.steps),
        n_kept=sum(step.n_kept for text in texts for step in text.steps),
        seconds=seconds,
        differences=tuple(d for d in found if d is not None),
    )
    return outcome, texts
