"""What records amount to: times, speed, acceptance, and how arms compare.

Terms. ttft: to the first token. tpot: per token after the first, of a request. itl: gaps between
parts of a stream; speculation makes parts longer and gaps rarer, so arms are never compared by
it. e2el: to the last token. All count from the scheduled arrival. goodput: requests per second
that meet every objective; one that failed meets none. Acceptance length: tokens per pass, pooled
over all passes and as the mean of requests. Per position i: `marginal` is how often guess i was
kept where a draft reached it, `conditional` the same given that guess i-1 was kept.

None is "no data": nothing was guessed, nobody said, too few requests. It is never shown as 0.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from outpace.bench.comparison import Comparison, Side, compare, speed_of
from outpace.bench.record import Block, Records, Request
from outpace.errors import ConfigError
from outpace.stats import Estimate, mean_t, quantile, ratio_of_totals

QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objectives:
    """What a request must meet to be good, in seconds; None = not asked."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2el_s: float | None = None

    @property
    def asked(self) -> bool:
        """Whether there is any."""
        return any(x is not None for x in (self.ttft_s, self.tpot_s, self.e2el_s))

    def met_by(self, r: Request) -> bool:
        """Whether a request is good; without a second token there is no tpot to miss."""
        if not r.ok or r.ttft_s is None:
            return False
        pairs = ((r.ttft_s, self.ttft_s), (r.tpot_s or 0.0, self.tpot_s), (r.e2el_s, self.e2el_s))
        return all(limit is None or value <= limit for value, limit in pairs)


def parse_objectives(text: str) -> Objectives:
    """`ttft:500 tpot:60 e2el:8000`, in milliseconds.

    Raises:
        ConfigError: another name, or no number.
    """
    limits: dict[str, float] = {}
    for part in text.replace(",", " ").split():
        name, _, number = part.partition(":")
        try:
            limit_s = float(number) / 1e3
        except ValueError:
            limit_s = -1.0
        if name not in ("ttft", "tpot", "e2el") or not 0 < limit_s < float("inf"):
            raise ConfigError(f"objective {part!r}; allowed: ttft:MS, tpot:MS, e2el:MS")
        limits[f"{name}_s"] = limit_s
    return Objectives(**limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A time over requests, in seconds: mean with its interval, and quantiles by their name."""

    mean: Estimate
    quantiles: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Acceptance of the i-th guess of a draft's longest path; offered: drafts that reached it."""

    position: int
    offered: int
    marginal: float
    conditional: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """How guesses fared. pooled: over all passes; per_request: the mean of requests.

    Where only the server's counters told, pooled is over blocks, and per_request None.
    """

    pooled: Estimate
    per_request: Estimate | None
    positions: tuple[Position, ...]
    drafted: int
    kept: int
    waste: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One arm under one load, all its finished blocks together.

    tokens_per_s: over whole blocks. full_tokens_per_s: while every stream had work. Both means
    over blocks. goodput_per_s: None without objectives.
    """

    arm: str
    load: str
    blocks: int
    requests: int
    failed: int
    completion_tokens: int
    tokens_per_s: Estimate | None
    full_tokens_per_s: Estimate | None
    requests_per_s: float | None
    goodput_per_s: float | None
    ttft_s: Spread | None
    tpot_s: Spread | None
    itl_s: Spread | None
    e2el_s: Spread | None
    acceptance: Acceptance | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All cells, all comparisons; notes say what limits them."""

    cells: tuple[Cell, ...]
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...] = field(default=())


def summarise(
    records: Records, objectives: Objectives | None = None, notes: Iterable[str] = ()
) -> Summary:
    """Summarise finished blocks, arms and loads in the order they first came."""
    blocks, requests = records.blocks, records.requests
    loads = list(dict.fromkeys(b.block.load for b in blocks))
    known = list(dict.fromkeys(b.block.arm for b in blocks))
    arms = [a for a in records.facts.get("arms", known) if a in known]
    cells, comparisons = [], []
    for load in loads:
        at_load = {
            arm: (
                [b for b in blocks if (b.block.load, b.block.arm) == (load, arm)],
                [r for r in requests if (r.block.load, r.block.arm) == (load, arm)],
            )
            for arm in arms
        }
        cells += [_cell(arm, load, *at_load[arm], objectives) for arm in arms if at_load[arm][0]]
        first = arms[0]
        comparisons += [
            compare(load, Side(first, *at_load[first]), Side(arm, *at_load[arm]))
            for arm in arms[1:]
            if at_load[arm][0] and at_load[first][0]
        ]
    all_notes = list(notes)
    if records.n_cut_off:
        all_notes.append(
            f"{records.n_cut_off} requests of unfinished blocks are in the records and not counted"
        )
    return Summary(cells=tuple(cells), comparisons=tuple(comparisons), notes=tuple(all_notes))


def acceptance(requests: Seq[Request], blocks: Seq[Block] = ()) -> Acceptance | None:
    """How guesses fared: by the answers, else by what the server counted in their blocks.

    None where nobody said, or there was no pass.
    """
    by_answers = [r.speculation for r in requests if r.speculation and r.speculation.rounds]
    by_blocks = [b.speculation for b in blocks if b.speculation and b.speculation.rounds]
    said = by_answers or by_blocks
    if not said:
        return None
    rounds = [float(s.rounds) for s in said]
    tokens = [float(s.rounds + s.kept) for s in said]
    pooled = ratio_of_totals(tokens, rounds)
    mean = mean_t([t / n for t, n in zip(tokens, rounds, strict=True)]) if by_answers else None
    if pooled is None:
        return None
    lengths: dict[tuple[int, int], int] = {}
    for s in said:
        for depth, kept, n in s.lengths:
            lengths[depth, kept] = lengths.get((depth, kept), 0) + n
    return Acceptance(
        pooled=pooled,
        per_request=mean,
        positions=positions(lengths),
        drafted=sum(s.drafted for s in said),
        kept=sum(s.kept for s in said),
        waste=ratio_of_totals(
            [float(s.drafted - s.kept) for s in said], [float(s.drafted) for s in said]
        ),
    )


def positions(lengths: Mapping[tuple[int, int], int]) -> tuple[Position, ...]:
    """Acceptance by position from (guesses on the longest path, kept) -> rounds."""
    made: list[Position] = []
    for i in range(1, max((depth for depth, _ in lengths), default=0) + 1):
        offered = sum(n for (depth, _), n in lengths.items() if depth >= i)
        kept = sum(n for (depth, kept), n in lengths.items() if depth >= i and kept >= i)
        # Given that guess i-1 was kept *and* guess i offered: drafts differ in length.
        before = sum(n for (depth, kept), n in lengths.items() if depth >= i and kept >= i - 1)
        made.append(
            Position(
                position=i,
                offered=offered,
                marginal=kept / offered,
                conditional=kept / before if before else None,
            )
        )
    return tuple(made)


def _cell(
    arm: str, load: str, blocks: Seq[Block], requests: Seq[Request], objectives: Objectives | None
) -> Cell:
    good = [r for r in requests if r.ok]
    wall_s = sum(b.wall_s for b in blocks)
    speeds = [speed_of(b, requests) for b in blocks if b.wall_s > 0]
    full = [b.full_tokens / b.full_s for b in blocks if b.full_s > 0 and b.full_tokens]
    goodput = None
    if objectives is not None and objectives.asked and wall_s > 0:
        goodput = sum(map(objectives.met_by, requests)) / wall_s
    return Cell(
        arm=arm,
        load=load,
        blocks=len(blocks),
        requests=len(requests),
        failed=len(requests) - len(good),
        completion_tokens=sum(r.completion_tokens for r in requests),
        tokens_per_s=mean_t(speeds),
        full_tokens_per_s=mean_t(full),
        requests_per_s=len(good) / wall_s if wall_s > 0 else None,
        goodput_per_s=goodput,
        ttft_s=_spread([r.ttft_s for r in good]),
        tpot_s=_spread([r.tpot_s for r in good]),
        itl_s=_spread([gap for r in good for gap in r.itl_s]),
        e2el_s=_spread([r.e2el_s for r in good]),
        acceptance=acceptance(good, blocks),
    )


def _spread(values: Iterable[float | None]) -> Spread | None:
    known = [v for v in values if v is not None]
    mean = mean_t(known)
    if mean is None:
        return None
    return Spread(
        mean=mean, quantiles={f"p{100 * q:g}": quantile(known, q) or 0.0 for q in QUANTILES}
    )
