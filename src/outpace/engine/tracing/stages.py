"""A round -> its line: the five stages, filled from what the engine decided.

Each stage's `check` is written last, by the same functions replay uses: a line says whether the
engine's own numbers led to its decisions at the moment it decided.
"""

from dataclasses import replace

from outpace.core.coins import Purpose, toss
from outpace.core.draft import ROOT
from outpace.core.repeat import Round
from outpace.engine.replaying.check import STAGES, check_round, says
from outpace.engine.tracing import lines, stage
from outpace.engine.tracing.course import Course
from outpace.engine.tracing.measure import Measure
from outpace.engine.tracing.steps import steps

_PENDING = stage.Check(says="", holds=False)


def round_line(
    done: Round, course: Course, batch: lines.Batch, at_s: float | None
) -> lines.Round:  # fmt: skip
    """The line of one traced round, its checks made."""
    measure = Measure(done) if done.verdict is not None else None
    rows = tuple(measure.row(row) for row in measure.rows()) if measure else ()
    line = lines.Round(
        request=course.request.request,
        round=course.n_rounds,
        start=done.start,
        at_s=at_s,
        batch=batch,
        control=lines.Control(
            reason=done.turn.reason,
            max_nodes=done.turn.max_nodes,
            max_depth=done.turn.max_depth,
            worth=float(done.turn.worth),
        ),
        draft=_draft(done, course, measure),
        score=_score(done, course, measure, rows),
        accept=_accept(done, measure, rows) if measure else None,
        resample=_resample(done, measure, done.next_token) if measure else None,
        repeat=_repeat(done),
    )
    audit = check_round(line, course)
    for name in STAGES:
        value = getattr(line, name)
        if value is not None:
            made = stage.Check(says=says(name, line), holds=audit.holds(name))
            line = replace(line, **{name: replace(value, check=made)})
    return line


def _draft(done: Round, course: Course, measure: Measure | None) -> stage.Draft:
    draft, turn, seq = done.draft, done.turn, done.turn.sequence
    # The sequence has moved on; the course still stands where the round began.
    depth = min(turn.max_depth, course.room - 1)
    asked = _first(done) + turn.catch_up == done.start and turn.max_nodes >= 1 and depth >= 1
    reached = measure.reached() if measure else set[int]()
    others = [measure.other_guess(node) for node in sorted(reached)] if measure else []
    return stage.Draft(
        owner=course.header.drafter,
        input=stage.DraftInput(
            asked=asked,
            max_nodes=turn.max_nodes if asked else 0,
            max_depth=depth if asked else 0,
            worth=float(turn.worth) if asked else 0.0,
            trees=asked and seq.traits.trees and seq.sampling.rule != "block",
            style=seq.style,
        ),
        output=stage.DraftOutput(
            tokens=draft.tokens,
            parents=draft.parents,
            sources=draft.sources or (course.header.drafter,) * len(draft),
            drawn=draft.drawn,
            replacement=draft.replacement,
            q=_guess_laws(done, measure) if draft.drawn else None,
        ),
        check=_PENDING,
        seconds=done.seconds.draft,
        rejected=tuple(other for other in others if other is not None),
    )


def _guess_laws(done: Round, measure: Measure | None) -> tuple[float | None, ...]:
    """q of each reached guess, its elder siblings taken out where they were."""
    q: list[float | None] = [None] * len(done.draft)
    if measure:
        for row in measure.rows():
            for child, q_V in measure.siblings(row):
                if child in measure.reached():
                    q[child] = float(q_V[done.draft.tokens[child]])
    return tuple(q)


def _first(done: Round) -> int:
    """How many tokens the runtime had read when the round began."""
    n_kept = len(done.verdict.path) if done.verdict else 0
    return done.turn.sequence.n_computed - n_kept - done.turn.catch_up


def _score(
    done: Round, course: Course, measure: Measure | None, rows: tuple[stage.Row, ...]
) -> stage.Score:
    first, n = _first(done), done.turn.catch_up
    ends = first + n == done.start
    last = done.turn.sequence.tokens[done.start - 1]
    return stage.Score(
        owner=course.header.target.name,
        input=stage.ScoreInput(
            first=first,
            reread=course.n_computed - first,
            catch_up=n,
            n_rows=done.n_rows,
            tokens=(last, *done.draft.tokens) if ends else (),
            parents=(ROOT, *(parent + 1 for parent in done.draft.parents)) if ends else (),
        ),
        output=stage.ScoreOutput(
            dtype=str(measure.dtype).removeprefix("torch.") if measure else "", rows=rows
        ),
        check=_PENDING,
        seconds=done.seconds.score,
        uncertainty=tuple(measure.uncertainty(row.row) for row in rows) if measure else (),
    )


def _accept(done: Round, measure: Measure, rows: tuple[stage.Row, ...]) -> stage.Accept:
    verdict = measure.verdict
    judged = tuple(
        stage.Judged(
            node=j.node, token=j.token, p=j.p, q=j.q, weight=j.weight, mass=j.mass, a=j.a,
            u=_coin(done, j.node) if verdict.rule != "match" else None,
            kept=j.kept,
        )
        for j in verdict.judgements
    )  # fmt: skip
    return stage.Accept(
        owner=f"core.accept.{verdict.rule}",
        input=stage.AcceptInput(rule=verdict.rule, judged=judged, steps=steps(measure, rows)),
        output=stage.AcceptOutput(path=verdict.path, row=verdict.row),
        check=_PENDING,
        seconds=done.seconds.accept,
        rejected=tuple(j.node for j in verdict.judgements if j.node not in verdict.path),
    )


def _coin(done: Round, node: int) -> float:
    position = done.start + done.draft.depths[node] - 1
    return toss(done.turn.sequence.seed, Purpose.ACCEPT, done.start, position, node)


def _resample(done: Round, measure: Measure, token: int | None) -> stage.Resample | None:
    if token is None:  # no token may follow
        return None
    verdict, greedy = measure.verdict, measure.sampling.greedy
    return stage.Resample(
        owner="core.resample",
        input=stage.ResampleInput(
            row=verdict.row,
            position=done.start + len(verdict.path),
            how="draw" if verdict.weights_V is not None else "argmax" if greedy else "coupled",
        ),
        output=stage.ResampleOutput(token=token, draw=measure.draw()),
        check=_PENDING,
        seconds=done.seconds.resample,
        rejected=tuple(measure.next_best()),
    )


def _repeat(done: Round) -> stage.Repeat:
    seq, path = done.turn.sequence, done.verdict.path if done.verdict else ()
    offered = tuple(done.draft.tokens[node] for node in path)
    if done.next_token is not None:
        offered = (*offered, done.next_token)
    return stage.Repeat(
        owner="core.repeat",
        input=offered,
        output=stage.RepeatOutput(
            emitted=done.emitted,
            text_tokens=done.start + len(done.emitted),
            finish=done.finish,
            stop_token=done.emitted[-1] if done.finish == "stop_string" else None,
            error=str(seq.error) if done.finish == "error" else None,
        ),
        check=_PENDING,
        seconds=done.seconds.repeat,
        rejected=offered[len(done.emitted) :],
    )
