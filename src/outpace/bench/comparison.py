"""One arm against another, in pairs: what they share cancels out.

Requests are paired by item and turn. An item measured in several repeats is one unit, since its
repeats resemble each other; blocks are paired by repeat, which ran next to each other.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from outpace.bench.record import Block, Request
from outpace.stats import Estimate, geometric_mean_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """An arm against the first one under one load; ratios above 1 = this arm is faster.

    throughput: of blocks, paired by repeat. e2el, tpot: of requests, paired by item and turn,
    repeats averaged first. same_text, texts: equal answers, and pairs that could be compared.
    """

    arm: str
    against: str
    load: str
    throughput: Estimate | None
    e2el: Estimate | None
    tpot: Estimate | None
    same_text: int
    texts: int


class Side(NamedTuple):
    """An arm's finished blocks under one load, and their requests."""

    arm: str
    blocks: list[Block]
    requests: list[Request]


def compare(load: str, base: Side, other: Side) -> Comparison:
    """How much faster `other` is than `base`, and whether their answers are equal."""
    before, after = _speeds(base), _speeds(other)
    repeats = [r for r in before if before[r] > 0 and after.get(r, 0) > 0]
    digests = _pairs(base, other)
    return Comparison(
        arm=other.arm,
        against=base.arm,
        load=load,
        throughput=geometric_mean_ratio([after[r] for r in repeats], [before[r] for r in repeats]),
        e2el=_faster(base, other, "e2el_s"),
        tpot=_faster(base, other, "tpot_s"),
        same_text=sum(a == b for a, b in digests),
        texts=len(digests),
    )


def speed_of(block: Block, requests: Iterable[Request]) -> float:
    """Tokens per second over a whole block."""
    return sum(r.completion_tokens for r in requests if r.block == block.block) / block.wall_s


def _speeds(side: Side) -> dict[int, float]:
    return {b.block.repeat: speed_of(b, side.requests) for b in side.blocks if b.wall_s > 0}


def _pairs(base: Side, other: Side) -> list[tuple[str, str]]:
    """Digests of answers to the same request."""
    mine = {(r.block.repeat, r.item, r.turn): r.digest for r in base.requests if r.ok}
    keys = (((r.block.repeat, r.item, r.turn), r.digest) for r in other.requests if r.ok)
    return [(mine[key], digest) for key, digest in keys if key in mine]


def _faster(base: Side, other: Side, what: Literal["e2el_s", "tpot_s"]) -> Estimate | None:
    before, after = _by_item(base, what), _by_item(other, what)
    both = [key for key in before if key in after]
    return geometric_mean_ratio([before[k] for k in both], [after[k] for k in both])


def _by_item(side: Side, what: str) -> dict[tuple[str, int], float]:
    """Geometric mean of a time over the repeats of each item."""
    logs: dict[tuple[str, int], list[float]] = {}
    for r in side.requests:
        value: float | None = getattr(r, what)
        if r.ok and value is not None and value > 0:  # an answer of one chunk has no tpot
            logs.setdefault((r.item, r.turn), []).append(math.log(value))
    return {key: math.exp(sum(values) / len(values)) for key, values in logs.items()}
