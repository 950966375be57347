"""The format of a trace: one frozen value per JSON line, and the schema's version.

A trace is a header, then for each request one `request` line, one `round` line per round and one
`end` line; the lines of requests that ran together are interleaved. A round has the five stages,
each with its owner, what went in, what came out, what must hold, its seconds and what it turned
down (`stage.py`). Rows are numbered as in `core.law`: row 0 follows the committed text, row i + 1
follows guess i.

`trace.schema.json` says the same to other programs; a test compares the two.
"""

from dataclasses import dataclass
from typing import Literal

from outpace.core.sampling import Rule
from outpace.core.sequence import Finish
from outpace.engine.tracing.stage import Accept, Draft, Repeat, Resample, Score

SCHEMA = "outpace.trace"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The runtime as it declared itself."""

    name: str
    digest: str
    vocab_size: int
    context_tokens: int
    eos_ids: tuple[int, ...]
    trees: bool
    row_invariant: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """First line: who ran, with what. `started_at` is the caller's clock, in its own words."""

    kind: Literal["header"] = "header"
    schema: str = SCHEMA
    version: int = VERSION
    outpace: str
    model: str
    drafter: str
    started_at: str
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`core.sampling.Sampling` in JSON; a bias of None is minus infinity."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: tuple[tuple[int, float | None], ...]
    banned: tuple[tuple[int, ...], ...]
    forced: tuple[int, ...]
    min_tokens: int
    max_tokens: int | None
    stop: tuple[str, ...]
    stop_token_ids: tuple[int, ...]
    ignore_eos: bool
    seed: int | None
    rule: Rule | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it began.

    seed: the coins' seed (the caller's, or drawn for this request). known_tokens: leading tokens
    the runtime already had. prompt_ids, prompt_text: None unless recording them was allowed.
    identity: digest of all that a seeded or greedy text is a function of; two traces with equal
    identities promise equal texts. None without prompt ids.
    """

    kind: Literal["request"] = "request"
    request: int
    prompt_tokens: int
    known_tokens: int
    prompt_ids: tuple[int, ...] | None
    prompt_text: str | None
    seed: int
    first_coin: float
    masked: bool
    sampling: Asked
    identity: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The pass the round was part of: its number, and all sequences and rows that shared it."""

    index: int
    sequences: int
    traced: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """How many guesses the control allowed, and why in its own words.

    worth: the least chance of being kept for which a guess pays for its row.
    """

    reason: str
    max_nodes: int
    max_depth: int
    worth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of one request. at_s: seconds from the writer's opening to the round's end.

    accept and resample are None in a round that only read the prompt, or that failed; resample
    alone where no token may follow.
    """

    kind: Literal["round"] = "round"
    request: int
    round: int
    start: int
    at_s: float | None
    batch: Batch
    control: Control
    draft: Draft
    score: Score
    accept: Accept | None
    resample: Resample | None
    repeat: Repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What one drafter's guesses came to: offered, judged, kept."""

    name: str
    drafted: int
    judged: int
    kept: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """Time per stage, over all rounds; draft and score include the pass's other sequences."""

    draft: float
    score: float
    accept: float
    resample: float
    repeat: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The funnel of guesses (allowed, drafted, judged, kept) and what it cost."""

    rounds: int
    rows: int
    allowed: int
    drafted: int
    judged: int
    kept: int
    seconds: Seconds
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Last line of a request. text_digest: of the completion's token ids."""

    kind: Literal["end"] = "end"
    request: int
    finish: Finish
    error: str | None
    prompt_tokens: int
    completion_tokens: int
    text_digest: str
    totals: Totals


Line = Header | Request | Round | End
