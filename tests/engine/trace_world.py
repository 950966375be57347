"""A small world for traces: a table model, a drafter that guesses what it is told, rounds by hand.

`record` runs requests through `one_round` and traces them; `leaves`, `changed` and `sealed` edit
a trace the way a test wants, with its chain of digests made right again.
"""

import json
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from outpace.core.coins import Purpose
from outpace.core.draft import ROOT, Ask, Draft, Seen
from outpace.core.law import TokenMask
from outpace.core.repeat import Round, Turn, one_round
from outpace.core.sampling import Sampling
from outpace.core.sequence import Sequence, StopScan
from outpace.engine.trace import About, TraceWriter
from outpace.engine.tracing.codec import GENESIS, digest
from outpace.runtimes.toy import TableRuntime, random_table

V = 8
EOS = 7
PROMPT = (1, 2, 3)
# A path into a line's JSON, the line's number first.
Place = tuple[int | str, ...]
Json = dict[str, Any]  # a parsed line; a test looks where it likes


class Guesser:
    """Grows a tree from its own table: `shape` gives the parents; drawn where that is wanted."""

    name = "guesser"

    def __init__(self, shape: tuple[int, ...] = (), *, seed: int = 2, chosen: bool = False) -> None:
        self._shape = shape
        self._table = random_table(V, seed=seed, sharpness=0.7)
        self._chosen = chosen

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return [self._guess(ask) for ask in asks]

    def observe(self, seen: Seq[Seen]) -> None:
        pass

    def forget(self, key: int) -> None:
        pass

    def _guess(self, ask: Ask) -> Draft:
        tokens: list[int] = []
        parents: list[int] = []
        laws: list[Tensor] = []
        texts = {ROOT: tuple(ask.tokens)}
        for node, parent in enumerate(self._shape[: ask.max_nodes]):
            if len(texts.get(parent, ())) - len(ask.tokens) >= ask.max_depth or parent not in texts:
                break
            q_V = self._table(texts[parent]).softmax(0)
            left_V = q_V.clone()
            left_V[[t for t, p in zip(tokens, parents, strict=True) if p == parent]] = 0
            token = ask.coins.categorical(left_V, Purpose.DRAFT, len(texts[parent]), node)
            tokens.append(token)
            parents.append(parent)
            laws.append(q_V)
            texts[node] = (*texts[parent], token)
        sources = tuple("left" if parent == ROOT else "right" for parent in parents)
        if self._chosen or ask.style != "drawn" or not tokens:
            return Draft(tokens=tuple(tokens), parents=tuple(parents), sources=sources)
        return Draft(
            tokens=tuple(tokens),
            parents=tuple(parents),
            laws_LV=torch.stack(laws),
            law_rows=tuple(range(len(laws))),
            sources=sources,
        )


CHAIN = (-1, 0, 1)
TREE = (-1, -1, 0, 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One request to trace."""

    name: str
    sampling: Sampling
    shape: tuple[int, ...] = CHAIN
    chosen: bool = False
    single: bool = False  # laws in float32
    seed: int = 5
    chunk: int = 512


RULES: tuple[Literal["match", "token", "traversal"], ...] = ("match", "token", "traversal")
SCENES: tuple[Scene, ...] = (
    Scene(name="plain", sampling=Sampling(max_tokens=4), shape=()),
    Scene(name="greedy-tree", sampling=Sampling(max_tokens=4), shape=TREE),
    Scene(name="greedy-token", sampling=Sampling(max_tokens=4, rule="token")),
    Scene(
        name="seeded", sampling=Sampling(max_tokens=4, temperature=0.8, seed=3, top_k=4), shape=TREE
    ),
    Scene(name="block", sampling=Sampling(max_tokens=4, temperature=1.0), single=True),
    Scene(name="block-64", sampling=Sampling(max_tokens=4, temperature=0.6), seed=8),
    Scene(name="traversal", sampling=Sampling(max_tokens=4, temperature=1.0), shape=TREE),
    Scene(name="chosen", sampling=Sampling(max_tokens=4, temperature=1.2), shape=TREE, chosen=True),
    Scene(
        name="token-tree",
        sampling=Sampling(max_tokens=4, temperature=0.9, rule="token", top_k=3),
        shape=TREE,
        single=True,
    ),
    Scene(
        name="processed",
        sampling=Sampling(
            max_tokens=4,
            temperature=0.7,
            repetition_penalty=1.2,
            logit_bias={0: -float("inf"), 2: 1.5},
            banned=((4, 5),),
            stop_token_ids=frozenset({6}),
            min_tokens=2,
        ),
        shape=TREE,
    ),
    Scene(name="prefill", sampling=Sampling(max_tokens=3, temperature=1.0), chunk=2),
)


def runtime(scene: Scene | None = None, *, context_tokens: int = 64) -> TableRuntime:
    """The target: a table whose next token depends on the last two."""
    table = random_table(V, seed=1)
    single = scene is not None and scene.single
    return TableRuntime(
        (lambda text: table(text).to(torch.float32)) if single else table,
        vocab_size=V,
        context_tokens=context_tokens,
        eos_ids=frozenset({EOS}),
    )


def about(target: TableRuntime, **changes: Any) -> About:  # a test changes what it likes
    """What the trace says of this process."""
    facts: dict[str, Any] = {
        "outpace": "0.1",
        "model": "table",
        "traits": target.traits,
        "drafter": "guesser",
        "started_at": "2026-01-01T00:00:00Z",
    }
    return About(**{**facts, **changes})


class Clock:
    """Time that passes a little at every look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


class World:
    """Requests on one runtime, stepped together."""

    def __init__(self, target: TableRuntime, drafter: Guesser, *, chunk: int = 512) -> None:
        self.target = target
        self.drafter = drafter
        self.chunk = chunk
        self.clock = Clock()
        self.max_nodes, self.max_depth = 6, 3

    def open(
        self,
        key: int,
        sampling: Sampling,
        *,
        seed: int = 5,
        stops: StopScan | None = None,
        mask: TokenMask | None = None,
    ) -> Sequence:
        """Begin a request."""
        seq = Sequence(
            key=key, prompt=PROMPT, sampling=sampling, seed=seed, traits=self.target.traits,
            stops=stops, mask=mask,
        )  # fmt: skip
        seq.n_computed = self.target.open(key, seq.tokens)
        return seq

    def step(self, *sequences: Sequence, traced: bool = True) -> list[Round]:
        """One round for all of them."""
        turns = [
            Turn(
                sequence=seq,
                catch_up=min(seq.behind, self.chunk),
                max_nodes=self.max_nodes,
                max_depth=self.max_depth,
                reason="fixed",
                traced=traced,
            )
            for seq in sequences
        ]
        return one_round(self.target, self.drafter, turns, self.clock)


def record(path: Path, scene: Scene) -> list[int]:
    """Trace one request to its end; returns the answer's token ids."""
    target = runtime(scene)
    world = World(target, Guesser(scene.shape, chosen=scene.chosen), chunk=scene.chunk)
    seq = world.open(0, scene.sampling, seed=scene.seed)
    with TraceWriter(path, about(target), clock=world.clock) as writer:
        while seq.finish is None:
            writer.rounds(world.step(seq))
    return seq.output


def parsed(path: Path) -> list[Json]:
    """The lines as JSON."""
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def sealed(lines: Seq[Json]) -> str:
    """The lines with their chain of digests made right, as a careful forger would."""
    text, previous = "", GENESIS
    for line in lines:
        plain = {key: value for key, value in line.items() if key != "sha256"}
        body = json.dumps(plain, separators=(",", ":"))
        previous = digest(previous, body)
        text += f'{body[:-1]},"sha256":"{previous}"}}\n'
    return text


def leaves(value: object, place: Place = ()) -> Iterator[tuple[Place, object]]:
    """Every number, string and truth value, with its place; digests apart."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key != "sha256":
                yield from leaves(item, (*place, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, (*place, i))
    elif value is not None:
        yield place, value


def other(value: object) -> object:
    """A different value of the same type; numbers change by a percent or a little more."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.01 if abs(value) > 0.1 else value + 1e-3
    return f"{value}x"


def put(value: Any, place: Place, leaf: object) -> None:  # JSON, walked by its own keys
    """Replace one leaf."""
    for key in place[:-1]:
        value = value[key]
    value[place[-1]] = leaf


def called(place: Place, kind: str) -> str:
    """A leaf's name: its keys, with * for positions in lists."""
    return ".".join([kind, *(key if isinstance(key, str) else "*" for key in place)])
