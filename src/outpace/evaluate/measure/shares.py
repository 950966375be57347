"""What an arm's turns of a block took, added up to its `Window` when the block ends.

Each turn's share is a line in `shares.jsonl`, written before the turn's measurements: where all
measurements of a group are there, so are its shares, whenever the process was killed.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from outpace.bench.record import Block, BlockId
from outpace.errors import ConfigError
from outpace.evaluate.arms.arm import GENERATED
from outpace.evaluate.measurement import Phase, Window
from outpace.journal import read_lines

SHARES = "shares.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One arm's turn of one group; the group is the index-th of its block."""

    plan: str
    phase: Phase
    variant: str
    load: str
    repeat: int
    group: int
    arm: str
    attempt: int
    wall_s: float
    requests: int
    own_tokens: int
    cpu_s: float | None = None
    gpu_s: float | None = None
    energy_j: float | None = None
    peak_bytes: int | None = None
    counters: Mapping[str, float] = field(default_factory=dict)


def to_line(share: Share) -> dict[str, object]:
    """A share as its line."""
    return asdict(share)


def read_shares(path: Path) -> list[Share]:
    """All shares of a file; no file = none.

    Raises:
        ConfigError: a line is no share.
    """
    found: list[Share] = []
    for at, line in read_lines(path) if path.exists() else ():
        try:
            found.append(Share(**line))
        except TypeError as error:
            raise ConfigError(f"{path}:{at} is no share of a block: {error}") from None
    return found


def window_of(shares: Seq[Share], *, one_stream: bool) -> Window:
    """The window of one arm's shares of one block."""
    first = shares[0]
    own, wall_s = sum(s.own_tokens for s in shares), sum(s.wall_s for s in shares)
    counters: dict[str, float] = {}
    for share in shares:
        for name, value in share.counters.items():
            counters[name] = counters.get(name, 0.0) + value
    foreign = int(counters[GENERATED] - own) if GENERATED in counters else None
    reasons = (
        (f"{foreign} tokens were generated for others meanwhile",)
        if foreign and foreign > 0
        else ()
    )
    return Window(
        plan=first.plan,
        phase=first.phase,
        variant=first.variant,
        block=Block(
            block=BlockId(load=first.load, repeat=first.repeat, arm=first.arm),
            attempt=max(s.attempt for s in shares),
            wall_s=wall_s,
            full_s=wall_s if one_stream else 0.0,
            full_tokens=own if one_stream else 0,
            requests=sum(s.requests for s in shares),
        ),
        cpu_s=_sum(s.cpu_s for s in shares),
        gpu_s=_sum(s.gpu_s for s in shares),
        energy_j=_sum(s.energy_j for s in shares),
        peak_bytes=max((s.peak_bytes for s in shares if s.peak_bytes is not None), default=None),
        counters=counters,
        own_tokens=own,
        foreign_tokens=foreign,
        valid=not reasons,
        reasons=reasons,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum, or None if any is unknown."""
    known: list[Any] = list(values)
    return None if any(value is None for value in known) else float(sum(known))
