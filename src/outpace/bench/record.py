"""What a benchmark keeps: one line per request, written as it finishes.

A file has three kinds of lines. `run` comes first and says what was measured on what; a file is
continued only by the same run. `request` is one answer. `block` ends a block and makes its
requests count: those of a block that was cut off stay in the file, and are measured again by the
next attempt. Times are seconds since the block began. `record.schema.json` is the format.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from outpace.bench.client import Answer, Speculation
from outpace.errors import ConfigError
from outpace.journal import read_lines

SCHEMA = 1
SCHEMA_FILE = Path(__file__).with_name("record.schema.json")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BlockId:
    """One arm under one load, the repeat-th time."""

    load: str
    repeat: int
    arm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One answer. sched_s: when it should have been sent; the rest is as in `Answer`."""

    block: BlockId
    attempt: int
    item: str
    category: str
    turn: int
    sched_s: float
    sent_s: float
    ended_s: float
    finish: str
    error: str | None
    prompt_tokens: int
    completion_tokens: int
    chunks_s: tuple[float, ...]
    chunk_tokens: tuple[int, ...]
    speculation: Speculation | None
    digest: str

    @property
    def ok(self) -> bool:
        """Whether it counts as answered."""
        return self.error is None

    @property
    def ttft_s(self) -> float | None:
        """To the first token, from the scheduled arrival."""
        return self.chunks_s[0] - self.sched_s if self.chunks_s else None

    @property
    def tpot_s(self) -> float | None:
        """Per token after the first; None where there is but one."""
        n = self.completion_tokens
        return (self.chunks_s[-1] - self.chunks_s[0]) / (n - 1) if n > 1 else None

    @property
    def itl_s(self) -> tuple[float, ...]:
        """Gaps between parts of the stream; with speculation not the time per token."""
        return tuple(b - a for a, b in pairwise(self.chunks_s))

    @property
    def e2el_s(self) -> float:
        """To the last token, from the scheduled arrival."""
        return (self.chunks_s[-1] if self.chunks_s else self.ended_s) - self.sched_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A finished block. wall_s: from its start to its last answer. full_s: while no stream was
    idle for want of work, 0 if that was never so; full_tokens: tokens that came in that time.
    speculation: what the server counted meanwhile, for everybody it served; None = not told."""

    block: BlockId
    attempt: int
    wall_s: float
    full_s: float
    full_tokens: int
    requests: int
    speculation: Speculation | None = None


def request_of(
    answer: Answer, block: BlockId, *, attempt: int, place: tuple[str, str, int],
    sched_s: float, began_s: float,
) -> Request:  # fmt: skip
    """A record of an answer. place: item, category and turn. began_s: the block's start."""
    item, category, turn = place
    return Request(
        block=block,
        attempt=attempt,
        item=item,
        category=category,
        turn=turn,
        sched_s=round(sched_s - began_s, 6),
        sent_s=round(answer.sent_s - began_s, 6),
        ended_s=round(answer.ended_s - began_s, 6),
        finish=answer.finish,
        error=answer.error,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        chunks_s=tuple(round(t - began_s, 6) for t in answer.chunks_s),
        chunk_tokens=answer.chunk_tokens,
        speculation=answer.speculation,
        digest=answer.digest,
    )


def to_line(record: Request | Block) -> dict[str, object]:
    """A record as its line."""
    fields = asdict(record)
    block = fields.pop("block")
    kind = "request" if isinstance(record, Request) else "block"
    return {"schema": SCHEMA, "kind": kind, **block, **fields}


def run_line(facts: Mapping[str, object], identity: str) -> dict[str, object]:
    """The first line. identity: equal for runs that may continue each other."""
    return {"schema": SCHEMA, "kind": "run", "identity": identity, "facts": dict(facts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What a file holds. requests: those of finished blocks. n_cut_off: requests that do not
    count, since their block never finished."""

    facts: Mapping[str, Any]
    identity: str
    blocks: tuple[Block, ...]
    requests: tuple[Request, ...]
    n_cut_off: int
    last_attempt: int

    @property
    def done(self) -> frozenset[BlockId]:
        """Blocks that need not be measured again."""
        return frozenset(block.block for block in self.blocks)


def read_records(path: Path) -> Records:
    """Read a file of records; a half line at its end is no record.

    Raises:
        ConfigError: it is no such file, or of a schema this version does not read.
    """
    head: dict[str, Any] | None = None
    blocks: list[Block] = []
    requests: list[Request] = []
    for at, line in read_lines(path):
        if line.get("schema") != SCHEMA:
            raise ConfigError(
                f"{path}:{at} has schema {line.get('schema')!r}; this version reads {SCHEMA}"
            )
        try:
            if line["kind"] == "run":
                head = head or line
            elif line["kind"] == "block":
                blocks.append(_block(line))
            else:
                requests.append(_request(line))
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{path}:{at} is no record: {error!r}") from None
    if head is None:
        raise ConfigError(f"{path} does not begin with a run; name a file that a benchmark wrote")
    counted = {(block.block, block.attempt) for block in blocks}
    kept = tuple(r for r in requests if (r.block, r.attempt) in counted)
    return Records(
        facts=head["facts"],
        identity=head["identity"],
        blocks=tuple(blocks),
        requests=kept,
        n_cut_off=len(requests) - len(kept),
        last_attempt=max((r.attempt for r in requests), default=-1),
    )


def _block_id(line: dict[str, Any]) -> BlockId:
    return BlockId(load=line.pop("load"), repeat=line.pop("repeat"), arm=line.pop("arm"))


def _block(line: dict[str, Any]) -> Block:
    block, fields = _block_id(line), _without_head(line)
    return Block(block=block, speculation=_speculation(fields.pop("speculation", None)), **fields)


def _request(line: dict[str, Any]) -> Request:
    block, fields = _block_id(line), _without_head(line)
    said = _speculation(fields.pop("speculation"))
    for name in ("chunks_s", "chunk_tokens"):
        fields[name] = tuple(fields[name])
    return Request(block=block, speculation=said, **fields)


def _speculation(said: dict[str, Any] | None) -> Speculation | None:
    if said is None:
        return None
    lengths: Seq[Seq[int]] = said.pop("lengths")
    return Speculation(lengths=tuple((d, k, n) for d, k, n in lengths), **said)


def _without_head(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in ("schema", "kind")}
