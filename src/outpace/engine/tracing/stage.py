"""The five stages as a trace records them: owner, input, output, check, seconds, rejected.

What a stage was unsure of and what it turned down stand beside what it decided, so that one line
can be read forward (does each number follow?) and backward (why this token?).
"""

from dataclasses import dataclass
from typing import Literal

from outpace.core.draft import Style
from outpace.core.sampling import Rule
from outpace.core.sequence import Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What must hold of a stage, and whether it held when the line was written."""

    says: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftInput:
    """What the drafter was asked for; all zero when it was not asked."""

    asked: bool
    max_nodes: int
    max_depth: int
    worth: float
    trees: bool
    style: Style


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftOutput:
    """The guesses. q: each judged guess's probability in the law it was drawn from."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    sources: tuple[str, ...]
    drawn: bool
    replacement: bool
    q: tuple[float | None, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Stage 1. rejected: the likeliest other token of each judged guess's law, [node, id, q]."""

    owner: str
    input: DraftInput
    output: DraftOutput
    check: Check
    seconds: float
    rejected: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreInput:
    """The rows of the pass: tokens first .. first + catch_up of the text, then the guesses.

    reread: tokens read again because their memory had been taken away. tokens, parents: the
    asked rows (the last committed token, then the guesses) and the asked row before each.
    """

    first: int
    reread: int
    catch_up: int
    n_rows: int
    tokens: tuple[int, ...]
    parents: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row that a decision read, at the few tokens that matter: guesses, the best, the chosen.

    No tokens: the row is dead, no token may follow it.

    scores: logits after every processor, None = impossible. p: the law; at temperature 0, whose
    law is one-hot, what it would be at temperature 1. log_total: log of the sum of
    exp((score - best) / temperature) over the law's support, so that p can be re-derived.
    choice: the target's own token, where a rule asked for it. coupled, noise: log-weights and
    the position's shared noise, whose sums the choice maximises.
    """

    row: int
    position: int
    tokens: tuple[int, ...]
    scores: tuple[float | None, ...]
    p: tuple[float, ...]
    log_total: float
    choice: int | None
    coupled: tuple[float | None, ...] | None
    noise: tuple[float, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertainty:
    """Of a row: entropies in nats, and how much of the target's law the guesses could cover.

    overlap: sum of min(p, q) for a drawn guess, the sum of p over chosen guesses.
    """

    entropy_p: float
    entropy_q: float | None
    overlap: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOutput:
    """The rows that were read. dtype: of the laws, which decides how exactly they re-derive."""

    dtype: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Stage 2. uncertainty: one per row of the output."""

    owner: str
    input: ScoreInput
    output: ScoreOutput
    check: Check
    seconds: float
    uncertainty: tuple[Uncertainty, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """`core.accept.Judgement` with its coin: kept where u < a. u is None for rule match."""

    node: int
    token: int
    p: float
    q: float
    weight: float
    mass: float
    a: float
    u: float | None
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a lost guess takes out of its row's law: p becomes max(0, scale * p - q) / left.

    mass: the sum of what is left, in float64; left: the same in the law's own precision.
    q, p: at the row's recorded tokens; q is None where it takes all there was.
    """

    row: int
    child: int
    scale: float
    mass: float
    left: float
    q: tuple[float | None, ...]
    p: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptOutput:
    """Nodes kept, top down, and the row whose law rules the next token."""

    path: tuple[int, ...]
    row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptInput:
    """The rule, and the guesses it judged in order."""

    rule: Rule
    judged: tuple[Judged, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """Stage 3. rejected: judged nodes that are not part of the text."""

    owner: str
    input: AcceptInput
    output: AcceptOutput
    check: Check
    seconds: float
    rejected: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A draw by inverse CDF: the token covers [low, high) of total, and u * total lies there."""

    u: float
    low: float
    high: float
    total: float
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResampleInput:
    """Where the next token is chosen, and how."""

    row: int
    position: int
    how: Literal["argmax", "coupled", "draw"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResampleOutput:
    """The token the target chose; `draw` when it was drawn from weights."""

    token: int
    draw: Draw | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resample:
    """Stage 4. rejected: the likeliest other tokens, [id, weight]."""

    owner: str
    input: ResampleInput
    output: ResampleOutput
    check: Check
    seconds: float
    rejected: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatOutput:
    """What was committed, and why the text ended if it did.

    text_tokens: length of the text now, prompt included. stop_token: the token that completed a
    stop string. error: why the request turned out impossible.
    """

    emitted: tuple[int, ...]
    text_tokens: int
    finish: Finish | None
    stop_token: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """Stage 5. input: the kept guesses and the next token. rejected: those past the end."""

    owner: str
    input: tuple[int, ...]
    output: RepeatOutput
    check: Check
    seconds: float
    rejected: tuple[int, ...]
