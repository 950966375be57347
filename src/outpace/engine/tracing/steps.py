"""What each lost guess took out of its row's law: the residuals of stage 3, step by step.

The rules walk the tree in their own orders; the steps come in the order they happened.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Seq

import torch
from torch import Tensor

from outpace.core.accept import scaled_ratio, share
from outpace.core.draft import ROOT
from outpace.engine.tracing import stage
from outpace.engine.tracing.measure import Measure, at

# The recorded tokens of each recorded row.
_Tokens = dict[int, tuple[int, ...]]


def steps(measure: Measure, rows: Seq[stage.Row]) -> tuple[stage.Step, ...]:
    """The steps of one round, at the tokens its rows record."""
    tokens = {row.row: row.tokens for row in rows}
    match measure.verdict.rule:
        case "match":
            return ()
        case "token":
            return tuple(_token(measure, tokens))
        case "block":
            return tuple(_block(measure, tokens))
        case "traversal":
            return tuple(_traversal(measure, tokens, ROOT, 1.0))


def _token(measure: Measure, tokens: _Tokens) -> Iterator[stage.Step]:
    path = measure.verdict.path
    for row in (0, *(node + 1 for node in path)):
        p_V = measure.laws.law(row)
        for child, q_V in measure.siblings(row):
            if child in path:
                break
            p_V, step = _take(row, child, 1.0, p_V, q_V, tokens[row])
            yield step


def _block(measure: Measure, tokens: _Tokens) -> Iterator[stage.Step]:
    scale = 1.0
    for judged in measure.verdict.judgements:
        row = measure.draft.parents[judged.node] + 1
        q_V = measure.first_law(judged.node)
        yield _take(row, judged.node, scale, measure.laws.law(row), q_V, tokens[row])[1]
        scale = judged.weight


def _traversal(measure: Measure, tokens: _Tokens, node: int, weight: float) -> Iterator[stage.Step]:
    if weight == 0:  # lost unseen, with all that follows it
        return
    p_V, a = measure.laws.law(node + 1), weight
    for child, q_V in measure.siblings(node + 1):
        x = measure.draft.tokens[child]
        below = scaled_ratio(a, float(p_V[x]), float(q_V[x]))
        yield from _traversal(measure, tokens, child, below)
        if child in measure.verdict.path:
            return
        p_V, step = _take(node + 1, child, a, p_V, q_V, tokens[node + 1])
        yield step
        a = share(step.mass, a)


def _take(
    row: int, child: int, scale: float, p_V: Tensor, q_V: Tensor, tokens: Seq[int]
) -> tuple[Tensor, stage.Step]:
    left_V = (scale * p_V - q_V).clamp_min(0)
    left = float(left_V.sum())
    after_V = left_V / left_V.sum() if left > 0 else p_V
    step = stage.Step(
        row=row,
        child=child,
        scale=scale,
        mass=float(left_V.sum(dtype=torch.float64)),
        left=left,
        q=tuple(
            q if x > 0 else None for q, x in zip(at(q_V, tokens), at(left_V, tokens), strict=True)
        ),
        p=tuple(at(after_V, tokens)),
    )
    return after_V, step
