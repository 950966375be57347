"""A line's decisions, re-derived from its numbers: what each of the five stages must satisfy.

Nothing here reads a model or a law: only the line, and the `Course` it must continue. What
cannot follow from recorded numbers is taken as given, and bounded where it can be: the words of
the control, seconds, entropies, and the scores themselves.
"""

from collections.abc import Mapping

from outpace.core.coins import Purpose, toss
from outpace.core.draft import ROOT, Style
from outpace.core.sampling import Rule
from outpace.engine.replaying.audit import Audit, OffTheRecord
from outpace.engine.replaying.ledger import LOOSE, Ledger
from outpace.engine.replaying.rows import check_rows
from outpace.engine.replaying.rules import walk
from outpace.engine.tracing import lines, stage
from outpace.engine.tracing.course import Course

STAGES = ("draft", "score", "accept", "resample", "repeat")
_SAYS: Mapping[str, str] = {
    "draft": "no more guesses than the control and the room allow",
    "score": "the rows continue the text, and each p follows from its scores",
    "accept": "each guess is kept or lost as p, q and its coin say",
    "resample": "the next token is the one its scores or weights and its coin choose",
    "repeat": "the kept guesses and the next token, cut at the earliest end",
}


def says(name: str, line: lines.Round) -> str:
    """What must hold of a stage, in words."""
    if name == "accept" and line.accept is not None:
        return f"{_SAYS[name]} (rule {line.accept.input.rule})"
    return _SAYS[name]


def check_round(line: lines.Round, course: Course) -> Audit:
    """Re-derive all five stages of a line that continues `course`."""
    audit = Audit()
    try:
        _check_draft(line, course, audit)
        _check_score(line, course, audit)
        if line.accept is not None:
            audit.enter("accept")
            ledger = Ledger(line, line.accept, course, audit)
            _check_accept(line, line.accept, course, ledger)
            audit.enter("score")
            check_rows(line, line.accept, course, audit)
        if line.accept is not None and line.resample is not None:
            audit.enter("resample")
            _check_resample(line.resample, line.accept, course, ledger)
        _check_repeat(line, course, audit)
    except (OffTheRecord, RecursionError):
        audit.true("what follows", ok=False, found="not re-derived", expected="re-derived")
    return audit


def _style(course: Course) -> Style:
    asked = course.asked
    if course.greedy:
        return "chosen"
    if asked.rule == "match" or (asked.rule is None and asked.seed is not None):
        return "coupled"
    return "drawn"


def _rule(course: Course, draft: stage.DraftOutput) -> Rule:
    asked = course.asked
    if asked.rule is not None:
        return asked.rule
    if course.greedy or asked.seed is not None:
        return "match"
    if not draft.drawn:
        return "token"
    return "block" if _is_chain(draft.parents) else "traversal"


def _is_chain(parents: tuple[int, ...]) -> bool:
    return parents == tuple(range(-1, len(parents) - 1))


def _check_draft(line: lines.Round, course: Course, audit: Audit) -> None:
    audit.enter("draft")
    found, out, target = line.draft.input, line.draft.output, course.header.target
    ends = line.score.input.first + line.score.input.catch_up == line.start
    depth = min(line.control.max_depth, course.room - 1)
    asked = ends and line.control.max_nodes >= 1 and depth >= 1
    expected = stage.DraftInput(
        asked=asked,
        max_nodes=line.control.max_nodes if asked else 0,
        max_depth=depth if asked else 0,
        worth=line.control.worth if asked else 0.0,
        trees=asked and target.trees and course.asked.rule != "block",
        style=_style(course),
    )
    audit.same("what the drafter was asked", found, expected)
    audit.same("owner", line.draft.owner, course.header.drafter)
    n = len(out.tokens)
    audit.true("guesses", n <= expected.max_nodes, n, f"at most {expected.max_nodes}")
    ok = len(out.parents) == n and all(ROOT <= p < i for i, p in enumerate(out.parents))
    audit.true("parents", ok, out.parents, f"{n} earlier guesses, or {ROOT}")
    if not ok or (out.q is not None and len(out.q) != n) or out.drawn != (out.q is not None):
        raise audit.missing("a tree of guesses with their laws")
    audit.same("sources", len(out.sources), n)
    ok = all(0 <= t < target.vocab_size for t in out.tokens)
    audit.true("guesses", ok, out.tokens, f"token ids below {target.vocab_size}")
    if not expected.trees:
        audit.true("guesses", _is_chain(out.parents), out.parents, "a chain")
    reached: set[int] = set()
    if line.accept is not None:
        reached = {*line.accept.output.path, *(j.node for j in line.accept.input.judged)}
    with_law = {i for i, q in enumerate(out.q or ()) if q is not None}
    audit.same("guesses with a law", with_law, reached if out.drawn else set())
    for node, token, q in line.draft.rejected:
        ok = node in with_law and token != out.tokens[node] and 0 < q <= 1
        audit.true("the drafter's other choice", ok, (node, token, q), "another token's q")


def _check_score(line: lines.Round, course: Course, audit: Audit) -> None:
    audit.enter("score")
    found, out = line.score.input, line.draft.output
    n = len(out.tokens)
    audit.same("owner", line.score.owner, course.header.target.name)
    audit.same("start", line.start, course.n_text)
    audit.same("first", found.first, course.n_computed - found.reread)
    audit.true("reread", found.reread >= 0, found.reread, "0 or more")
    behind = line.start - found.first
    audit.true("catch_up", 1 <= found.catch_up <= behind, found.catch_up, f"1 to {behind}")
    audit.same("n_rows", found.n_rows, found.catch_up + n)
    ends = found.catch_up == behind
    audit.same("parents", found.parents, (ROOT, *(p + 1 for p in out.parents)) if ends else ())
    audit.same("asked rows", found.tokens[1:], out.tokens if ends else ())
    if ends and course.last_token is not None:
        audit.same("last committed token", found.tokens[:1], (course.last_token,))
    decided, failed = line.accept is not None, line.repeat.output.finish == "error"
    audit.true("judged", decided == ends or (failed and not decided), decided, str(ends))
    dtypes = tuple(LOOSE) if decided else ("",)
    audit.true("dtype", line.score.output.dtype in dtypes, line.score.output.dtype, str(dtypes))


def _check_accept(line: lines.Round, accept: stage.Accept, course: Course, ledger: Ledger) -> None:
    audit = ledger.audit
    rule = _rule(course, line.draft.output)
    audit.same("rule", accept.input.rule, rule)
    audit.same("owner", accept.owner, f"core.accept.{rule}")
    path = walk(rule, ledger)
    ledger.finish()
    audit.same("path", accept.output.path, path)
    audit.same("row", accept.output.row, path[-1] + 1 if path else 0)
    dead = {row.row for row in line.score.output.rows if not row.tokens}
    chosen = line.resample is not None
    audit.same("whether a token was chosen", chosen, accept.output.row not in dead)
    lost = tuple(j.node for j in accept.input.judged if j.node not in path)
    audit.same("rejected", accept.rejected, lost)


def _check_resample(
    found: stage.Resample, accept: stage.Accept, course: Course, ledger: Ledger
) -> None:
    audit, token, row = ledger.audit, found.output.token, accept.output.row
    matched = accept.input.rule == "match"
    expected = stage.ResampleInput(
        row=row,
        position=ledger.line.start + len(accept.output.path),
        how="draw" if not matched else "argmax" if course.greedy else "coupled",
    )
    audit.same("where and how", found.input, expected)
    audit.same("owner", found.owner, "core.resample")
    audit.same("whether it was drawn", found.output.draw is not None, not matched)
    if found.output.draw is None:
        audit.same("token", token, ledger.row(row).choice)
    else:
        _check_draw(found.output.draw, token, expected.position, row, ledger)
    for other, weight in found.rejected:
        audit.true("rejected", other != token and not matched, other, "another drawn token")
        audit.same(f"weight of token {other}", weight, ledger.p(row, other))


def _check_draw(draw: stage.Draw, token: int, position: int, row: int, ledger: Ledger) -> None:
    audit, start = ledger.audit, ledger.line.start
    audit.same("weight", draw.weight, ledger.p(row, token))
    audit.true("weight", draw.weight > 0, draw.weight, "more than 0")
    audit.same("u", draw.u, toss(ledger.course.request.seed, Purpose.RESAMPLE, start, position))
    audit.near("total", draw.total, 1.0, rel=ledger.loose, least=0)
    audit.near("high - low", draw.high - draw.low, draw.weight, rel=0, least=1e-13)
    point = draw.u * draw.total
    # The last possible token also takes what rounding leaves above it.
    ok = draw.low <= point and (point < draw.high or draw.high == draw.total)
    audit.true("u * total", ok, point, f"in [{draw.low}, {draw.high})")


def _check_repeat(line: lines.Round, course: Course, audit: Audit) -> None:
    audit.enter("repeat")
    found, out = line.repeat, line.repeat.output
    path, guesses = line.accept.output.path if line.accept else (), line.draft.output.tokens
    offered = tuple(guesses[node] for node in path if 0 <= node < len(guesses))
    if line.resample is not None:
        offered = (*offered, line.resample.output.token)
    stopped = out.finish == "stop_string"
    n_cut = len(found.rejected)
    reached = offered[: len(offered) - n_cut] if stopped else offered
    emitted, finish = course.end_after(reached, stop_string_last=stopped)
    ends = line.score.input.first + line.score.input.catch_up == line.start
    if finish is None and ends and line.resample is None:
        finish = "error"
    audit.same("owner", found.owner, "core.repeat")
    audit.same("kept guesses and the next token", found.input, offered)
    audit.same("emitted", out.emitted, emitted)
    audit.same("rejected", found.rejected, offered[len(emitted) :])
    audit.same("text_tokens", out.text_tokens, course.n_text + len(emitted))
    audit.same("finish", out.finish, finish)
    audit.same("stop_token", out.stop_token, emitted[-1] if stopped and emitted else None)
    audit.same("whether there is an error", out.error is not None, out.finish == "error")
    if stopped:
        ok = bool(course.asked.stop)
        audit.true("finish", ok, out.finish, "an end the request asked for")
