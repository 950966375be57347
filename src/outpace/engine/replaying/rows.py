"""Stage 2 again: a row's p from its scores, and the target's own choice from scores and noise."""

import math

import numpy as np

from outpace.core.coins import gumbel, noise_bits
from outpace.engine.replaying.audit import Audit
from outpace.engine.replaying.ledger import LOOSE
from outpace.engine.tracing import lines, stage
from outpace.engine.tracing.course import Course

# Logarithms of one number differ between machines by their last bits only.
_LOG = 1e-12


def check_rows(line: lines.Round, accept: stage.Accept, course: Course, audit: Audit) -> None:
    """Every row that a decision read is there, and its numbers follow from its scores."""
    parents = line.draft.output.parents
    read = {0, *(node + 1 for node in accept.output.path)}
    read |= {parents[j.node] + 1 for j in accept.input.judged if 0 <= j.node < len(parents)}
    rows = line.score.output.rows
    below = {j.node + 1 for j in accept.input.judged}
    read |= {row.row for row in rows if not row.tokens and row.row in below}
    audit.same("rows", tuple(row.row for row in rows), tuple(sorted(read)))
    audit.same("uncertainties", len(line.score.uncertainty), len(rows))
    for row, uncertainty in zip(rows, line.score.uncertainty, strict=False):
        if row.row in read and not row.tokens:
            _check_dead(row, uncertainty, course, audit)
        elif row.row in read:
            _check_row(row, line, accept, course, audit)
            _check_uncertainty(row, uncertainty, line, accept, audit)


def _check_dead(
    row: stage.Row, uncertainty: stage.Uncertainty, course: Course, audit: Audit
) -> None:
    """A row no token may follow: only where something forbids tokens, and with no numbers."""
    asked = course.asked
    can_die = bool(asked.logit_bias or asked.banned or asked.forced or asked.min_tokens)
    ok = can_die or course.request.masked
    audit.true(f"row {row.row}, no token", ok, "no token", "bans, bias, grammar or forced tokens")
    empty = stage.Row(
        row=row.row, position=row.position, tokens=(), scores=(), p=(), log_total=0.0,
        choice=None, coupled=None, noise=None,
    )  # fmt: skip
    audit.same(f"row {row.row}, no token", row, empty)
    none = stage.Uncertainty(entropy_p=0.0, entropy_q=None, overlap=None)
    audit.same(f"row {row.row}, no token", uncertainty, none)


def _check_row(
    row: stage.Row, line: lines.Round, accept: stage.Accept, course: Course, audit: Audit
) -> None:
    says = f"row {row.row}"
    audit.same(f"{says}, position", row.position, line.start + _depth(row.row, line))
    n, vocab = len(row.tokens), course.header.target.vocab_size
    ok = len(set(row.tokens)) == n and all(0 <= token < vocab for token in row.tokens)
    audit.true(f"{says}, tokens", ok, row.tokens, f"different ids below {vocab}")
    best = max((s for s in row.scores if s is not None), default=None)
    if not ok or best is None or not n == len(row.scores) == len(row.p):
        raise audit.missing(f"{says} with a score and a p for each of {n} tokens")
    loose = LOOSE.get(line.score.output.dtype, 0.0)
    temperature = 1.0 if course.greedy else course.asked.temperature
    for token, score, p in zip(row.tokens, row.scores, row.p, strict=True):
        warm = -math.inf if score is None else (score - best) / temperature
        expected = math.exp(min(warm - row.log_total, 700.0))
        # Far below the best, a rounding of the exponent is a larger one of p.
        rel = loose * (1 + (abs(warm) if score is not None else 0.0) / 100)
        audit.near(f"{says}, p of token {token}", p, expected, rel=rel, least=1e-37)
    _check_choice(row, best, accept, course, audit, loose)


def _depth(row: int, line: lines.Round) -> int:
    depth, node = 0, row - 1
    while node >= 0:
        depth, node = depth + 1, line.draft.output.parents[node]
    return depth


def _check_choice(
    row: stage.Row, best: float, accept: stage.Accept, course: Course, audit: Audit, loose: float
) -> None:
    says = f"row {row.row}, choice"
    coupled = accept.input.rule == "match" and not course.greedy
    audit.same(f"{says} by shared noise", row.coupled is not None, coupled)
    audit.same(f"{says} by shared noise", row.noise is not None, coupled)
    if coupled:
        audit.same(says, row.choice, _coupled_choice(row, best, course, audit, loose))
    elif course.greedy:
        tops = [t for t, s in zip(row.tokens, row.scores, strict=True) if s == best]
        audit.same(says, row.choice, min(tops))
    else:
        audit.same(says, row.choice, None)


def _coupled_choice(row: stage.Row, best: float, course: Course, audit: Audit, loose: float) -> int:
    """The token with the largest sum of log-weight and re-derived noise; lowest id on a tie."""
    says = f"row {row.row}, noise"
    if row.coupled is None or row.noise is None or not (
        len(row.tokens) == len(row.coupled) == len(row.noise)
    ):  # fmt: skip
        raise audit.missing(f"{says} of each token")
    ids = np.array(row.tokens, dtype=np.int64).astype(np.uint64)
    noise = gumbel(noise_bits(course.request.seed, row.position, ids))
    sums: list[tuple[float, int]] = []
    for i, token in enumerate(row.tokens):
        audit.near(f"{says} of token {token}", row.noise[i], float(noise[i]), rel=_LOG, least=_LOG)
        score, weight = row.scores[i], row.coupled[i]
        audit.same(f"{says}, possible", weight is None, score is None)
        if score is None or weight is None:
            continue
        expected = (score - best) / course.asked.temperature
        audit.near(
            f"{says}, log-weight of token {token}", weight, expected, rel=loose, least=1e-300
        )
        sums.append((-(weight + float(noise[i])), token))
    if not sums:
        raise audit.missing(f"{says} of a possible token")
    return min(sums)[1]


def _check_uncertainty(
    row: stage.Row, found: stage.Uncertainty, line: lines.Round, accept: stage.Accept,
    audit: Audit,
) -> None:  # fmt: skip
    """Statistics of whole laws: bounded, and compared with the residual where one was weighed."""
    says, out = f"row {row.row}", line.draft.output
    children = [i for i, parent in enumerate(out.parents) if parent == row.row - 1]
    loose = LOOSE.get(line.score.output.dtype, 0.0)
    audit.true(f"{says}, entropy of p", found.entropy_p >= 0, found.entropy_p, "0 or more")
    audit.same(f"{says}, entropy of q", found.entropy_q is not None, bool(children))
    audit.same(f"{says}, overlap", found.overlap is not None, bool(children))
    if found.entropy_q is None or found.overlap is None:
        return
    if not out.drawn:
        p = dict(zip(row.tokens, row.p, strict=True))
        covered = math.fsum(p.get(token, 0.0) for token in {out.tokens[c] for c in children})
        audit.near(f"{says}, overlap", found.overlap, covered, rel=loose, least=0)
        audit.same(f"{says}, entropy of q", found.entropy_q, 0.0)
        return
    audit.true(f"{says}, entropy of q", found.entropy_q >= 0, found.entropy_q, "0 or more")
    ok = 0 <= found.overlap <= 1 + loose
    audit.true(f"{says}, overlap", ok, found.overlap, "0 to 1")
    for step in accept.input.steps:
        if step.row == row.row and step.child == children[0] and step.scale == 1:
            audit.near(f"{says}, overlap", found.overlap, 1 - step.mass, rel=0, least=10 * loose)
