"""How the guesses fared: acceptance, break-even, and the five stages of a round."""

from collections.abc import Sequence as Seq

import numpy as np

from outpace.bench.summary import acceptance
from outpace.evaluate.arms.arm import CLOSED, OPENED, STAGE_S
from outpace.evaluate.judge.effects import gain_of_pairs, time_of
from outpace.evaluate.judge.evidence import Row, by_item, lines_of
from outpace.evaluate.plan.document import CANDIDATE
from outpace.evaluate.report.facts.speed import main_pairs
from outpace.evaluate.report.figures import (
    BreakEven,
    Guesses,
    LengthPoint,
    PositionRate,
    Source,
    Stage,
    spans,
)
from outpace.evaluate.report.study import TEST, Reported
from outpace.stats import geometric_mean_ratio

STAGES = ("draft", "score", "accept", "resample", "repeat")


def guesses(study: Reported) -> tuple[Guesses, ...]:
    """Of every arm that made any in the test."""
    found = (of_rows(arm, study.evidence.requests(TEST, arm)) for arm in study.evidence.plan.arms)
    return tuple(made for made in found if made is not None and made.drafted)


def of_rows(arm: str, rows: Seq[Row]) -> Guesses | None:
    """Of some requests; None where nobody said."""
    kept = [r for r in rows if r.m.request.ok and r.m.request.speculation is not None]
    said = acceptance([r.m.request for r in kept])
    if said is None:
        return None
    lengths: dict[tuple[int, int], int] = {}
    for row in kept:
        speculation = row.m.request.speculation
        for depth, n_kept, n in speculation.lengths if speculation is not None else ():
            lengths[depth, n_kept] = lengths.get((depth, n_kept), 0) + n
    return Guesses(
        arm=arm, pooled=said.pooled, per_request=said.per_request, drafted=said.drafted,
        kept=said.kept, rounds=sum(r.m.request.speculation.rounds for r in kept
                                   if r.m.request.speculation is not None),
        waste=said.waste,
        positions=tuple(
            PositionRate(position=p.position, offered=p.offered, marginal=p.marginal,
                         conditional=p.conditional)
            for p in said.positions
        ),
        histogram=tuple((d, k, n) for (d, k), n in sorted(lengths.items())),
        source=Source(records=spans([r.line for r in kept])),
    )  # fmt: skip


def break_even(study: Reported) -> BreakEven | None:
    """S = L / c, with c from the measured times: a pass of the candidate over one of the baseline.

    A plain pass takes the baseline's time per token; one with guesses brings L tokens in L times
    the candidate's. None where nobody told the passes.
    """
    pairs = [p for p in main_pairs(study, "tpot") if _length(p.other) is not None]
    groups = by_item(pairs)
    if not groups:
        return None
    points, passes, plain = [], [], []
    for item, mine in groups.items():
        length = float(np.mean([_length(p.other) or 1.0 for p in mine]))
        base, other = (
            float(np.mean([time_of(row, "tpot") or 0.0 for row in half]))
            for half in ([p.base for p in mine], [p.other for p in mine])
        )
        passes.append(length * other)
        plain.append(base)
        points.append(
            LengthPoint(
                item=item, category=mine[0].base.m.request.category, length=length,
                gain=base / other, lines=(mine[0].base.line, mine[0].other.line),
            )
        )  # fmt: skip
    cost = geometric_mean_ratio(passes, plain)
    total = of_rows(CANDIDATE, [p.other for p in pairs])
    if cost is None or total is None:
        return None
    return BreakEven(
        cost=cost, length=total.pooled, predicted=total.pooled.value / cost.value,
        measured=gain_of_pairs(pairs, "tpot", level=0.95).estimate, points=tuple(points),
        source=Source(records=spans(lines_of(pairs))),
    )  # fmt: skip


def stages(study: Reported) -> tuple[Stage, ...]:
    """What each stage got, gave and refused, in the candidate's part of the test."""
    rows = study.evidence.requests(TEST, CANDIDATE)
    windows = study.evidence.windows(TEST, CANDIDATE)
    made = of_rows(CANDIDATE, rows)
    source = Source(records=spans([*(r.line for r in rows), *(s.line for s in windows)]))
    counts = _counts(made)
    times = [sum(s.w.counters.get(name, 0.0) for s in windows) for name in STAGE_S]
    total = sum(times)
    switches = {
        name: sum(s.w.counters.get(name, 0.0) for s in windows) for name in (OPENED, CLOSED)
    }
    texts = _texts(counts, switches, sum(r.m.request.completion_tokens for r in rows))
    return tuple(
        Stage(
            name=name, input=given, output=got, rejected=refused, controls=fired, source=source,
            share=took_s / total if total else None,
        )
        for name, took_s, (given, got, refused, fired) in zip(STAGES, times, texts, strict=True)
    )  # fmt: skip


def _counts(made: Guesses | None) -> dict[str, int] | None:
    if made is None:
        return None
    lengths = made.histogram
    return {
        "rounds": made.rounds,
        "drafted": made.drafted,
        "kept": made.kept,
        "drafts": sum(n for d, _, n in lengths if d),
        "idle": sum(n for d, _, n in lengths if not d),
        "whole": sum(n for d, k, n in lengths if d and k == d),
        "cut": sum(n for d, k, n in lengths if k < d),
    }


def _texts(
    counts: dict[str, int] | None, switches: dict[str, float], n_tokens: int
) -> list[tuple[str, str, str, str]]:
    """Per stage: input, output, rejected alternatives, controls fired."""
    if counts is None:
        unknown = "not told by this arm"
        return [(unknown, unknown, unknown, unknown) for _ in STAGES]
    c = {name: f"{n:,}" for name, n in counts.items()}
    fired = (
        f"breaker opened {switches[OPENED]:.0f} times, closed {switches[CLOSED]:.0f} times"
        if any(switches.values())
        else "none reported"
    )
    rows = counts["rounds"] + counts["drafted"]
    lost = counts["drafted"] - counts["kept"]
    return [
        ("committed text", f"{c['drafted']} guesses in {c['drafts']} drafts",
         f"{c['idle']} rounds chose to guess nothing", fired),
        (f"{rows:,} rows", f"laws of {rows:,} rows in {c['rounds']} passes",
         f"{lost:,} rows were of guesses not kept", "none: one pass a round"),
        (f"{c['drafted']} guesses", f"{c['kept']} kept", f"{lost:,} refused",
         f"{c['cut']} drafts cut at their first wrong guess"),
        (f"{c['rounds']} residual laws", f"{c['rounds']} tokens of the target's own choice",
         f"{c['cut']} in place of a refused guess", f"{c['whole']} after a draft kept whole"),
        (f"{c['rounds']} rounds", f"{n_tokens:,} tokens",
         "tokens past an end are dropped", "end of text, stop strings, length"),
    ]  # fmt: skip


def _length(row: Row) -> float | None:
    """Tokens per pass of one answer."""
    said = row.m.request.speculation
    return (said.rounds + said.kept) / said.rounds if said is not None and said.rounds else None
