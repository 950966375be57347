"""What the control knows and decided, for metrics, `doctor` and people: values and sentences.

Whatever has no data is None, never 0: a rate nobody measured is not a bad rate.
"""

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from outpace.control.acceptance import Prior
from outpace.control.breaker import BreakerConfig
from outpace.control.depth import Market
from outpace.control.record import Record
from outpace.core.draft import ROOT, Draft


@dataclass(slots=True)
class Source:
    """What one drafter's guesses came to, over all sequences."""

    guesses: int = 0
    verified: int = 0
    kept: int = 0


def count(sources: dict[str, Source], draft: Draft, path: Seq[int], name: str) -> None:
    """Add a draft to the tallies by source; `name` is whose guesses without a source are."""
    names = draft.sources or (name,) * len(draft)
    for source in names:
        if source not in sources:
            sources[source] = Source()
        sources[source].guesses += 1
    for node in (ROOT, *path):
        for child in draft.children[node + 1]:
            sources[names[child]].verified += 1
    for node in path:
        sources[names[node]].kept += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """One drafter's guesses over all sequences: kept is the share of those that were reached."""

    name: str
    guesses: int
    verified: int
    kept: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided last for a sequence, and why."""

    key: int
    state: str
    depth: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The control's state.

    breakeven: tokens a round must bring to pay for its guesses, at the size drafts have now.
    tokens_per_round: what rounds with guesses brought. depth: guesses granted on average to those
    that may guess. row_share: seconds of one more row, in passes. speedup: rate over plain, as
    predicted by the cost table. n_passes: passes the table learned from.
    """

    drafter: str
    owner: str
    severity: str
    n_passes: int
    n_closed: int
    n_open: int
    n_switches: int
    breakeven: float | None
    tokens_per_round: float | None
    depth: float | None
    row_share: float | None
    speedup: float | None
    sources: tuple[SourceView, ...]
    decisions: tuple[Decision, ...]

    def sentences(self) -> list[str]:
        """The same for people."""
        lines = [
            f"drafter {self.drafter}: {self.n_closed} sequences guess, {self.n_open} rest "
            f"({self.n_switches} switches so far)",
            f"break-even is {_number(self.breakeven)} tokens a round; rounds with guesses bring "
            f"{_number(self.tokens_per_round)}",
            f"one more row costs {_percent(self.row_share)} of a pass; "
            f"guesses granted: {_number(self.depth)}; speed over plain: {_number(self.speedup)}",
        ]
        for s in self.sources:
            lines.append(
                f"{s.name}: {s.guesses} guesses, {s.verified} reached, {_number(s.kept)} kept"
            )
        return lines


def _number(x: float | None) -> str:
    return "no data" if x is None else f"{x:.2f}"


def _percent(x: float | None) -> str:
    return "no data" if x is None else f"{100 * x:.1f} %"


def snapshot(
    name: str,
    config: BreakerConfig,
    *,
    records: dict[int, Record],
    priors: Iterable[Prior],
    sources: dict[str, Source],
    market: Market,
    n_passes: int,
    n_switches: int,
) -> Snapshot:
    """Gather the state of a control, from any thread: each collection is copied at once."""
    records, sources = dict(records), dict(sources)
    learned = [prior.evidence for prior in list(priors)]
    drafts = sum(e.drafts for e in learned)
    granted = [r.limits.max_depth for r in records.values() if r.limits and r.turn == "guess"]
    n_open = sum(r.breaker.state == "open" for r in records.values())
    return Snapshot(
        drafter=name,
        owner=config.owner,
        severity=config.severity,
        n_passes=n_passes,
        n_closed=len(records) - n_open,
        n_open=n_open,
        n_switches=n_switches,
        breakeven=market.breakeven(sum(e.guesses for e in learned) / drafts) if drafts else None,
        tokens_per_round=1 + sum(e.kept for e in learned) / drafts if drafts else None,
        depth=sum(granted) / len(granted) if granted else None,
        row_share=market.row_share if n_passes else None,
        speedup=market.speedup if drafts else None,
        sources=tuple(
            SourceView(
                name=source,
                guesses=s.guesses,
                verified=s.verified,
                kept=s.kept / s.verified if s.verified else None,
            )
            for source, s in sorted(sources.items())
        ),
        decisions=tuple(
            Decision(
                key=key, state=r.breaker.state, depth=r.limits.max_depth, reason=r.limits.reason
            )
            for key, r in records.items()
            if r.limits
        ),
    )
