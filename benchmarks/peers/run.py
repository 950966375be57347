"""The run: every arm's worker alive, one awake at a time, taking turns until time is up.

For each block and prompt every arm answers once, in an order rotated from prompt to prompt and
turned round in every second block, so that drift and neighbours fall on all arms alike. A unit
(one prompt, all arms) is kept whole or not at all.
"""

import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.peers import environments, machine
from benchmarks.peers.arms import BATCHED, Arm
from benchmarks.peers.environments import PeerUnavailableError
from benchmarks.peers.processes import Worker, WorkerFailedError
from benchmarks.peers.protocol import Facts, Setup
from benchmarks.peers.records import Item, Records, Shot, Unit

_LOAD_S = 300.0
_IDLE_S = 2.0
_WARM_TOKENS = 32
_LEAST_TOKENS = 16
Say = Callable[[str], None]


class TimeIsUp(Exception):
    """The next unit would not fit the time budget."""


@dataclass(slots=True)
class Budget:
    """Seconds the whole run may take, None = no limit."""

    limit_s: float | None
    began: float = field(default_factory=time.monotonic)
    longest_unit_s: float = 0.0

    def check(self) -> None:
        """
        Raises:
            TimeIsUp: a unit as long as the longest so far would end too late.
        """
        if self.limit_s is not None and self.used_s + self.longest_unit_s > self.limit_s:
            raise TimeIsUp

    @property
    def used_s(self) -> float:
        return time.monotonic() - self.began


def turns(arms: Seq[Arm], block: int, at: int) -> list[Arm]:
    """The order of one unit: rotated by its place, turned round in odd blocks (ABBA)."""
    shift = at % len(arms)
    order = [*arms[shift:], *arms[:shift]]
    return order[::-1] if block % 2 else order


@dataclass(slots=True)
class Field:
    """The workers of a run. left_out: arms that could not take part (any more), and why."""

    workers: dict[str, Worker]
    arms: list[Arm]
    say: Say
    facts: dict[str, Facts] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    idle_cpu: dict[str, float] = field(default_factory=dict)

    def drop(self, arm: Arm, why: str) -> None:
        """An arm ends here; the others go on."""
        self.say(f"{arm.name} is left out: {why}")
        self.left_out[arm.name] = why
        self.arms = [a for a in self.arms if a is not arm]
        if arm.name in self.workers:
            self.workers.pop(arm.name).close()


def enter(
    entrants: Field, arms: Seq[Arm], model: str, gguf: Path, threads: int, stack: ExitStack
) -> None:
    """Start one worker per arm and let it load; failures leave arms out."""
    entrants.arms = list(arms)
    where = {"name": model, "gguf": str(gguf)}
    for arm in arms:
        try:
            environment = environments.ensure(arm.peer)
            if arm.reads == "folder" and "folder" not in where:
                converter = environments.ensure("transformers")
                where["folder"] = str(environments.convert(gguf, converter))
            entrants.say(f"loading {arm.name}")
            log = environments.ROOT / "logs" / f"{arm.name}.log"
            worker = Worker(arm.name, environment, log, threads)
            stack.callback(worker.close)
            entrants.workers[arm.name] = worker
            setup = Setup(
                model=where[arm.reads], speculate=arm.speculate, threads=threads,
                weights=arm.weights,
            )  # fmt: skip
            entrants.facts[arm.name] = worker.open(setup, _LOAD_S)
        except (PeerUnavailableError, WorkerFailedError) as error:
            entrants.drop(arm, str(error))
        else:
            entrants.idle_cpu[arm.name] = _idle_cpu(worker)
            worker.sleep()


def _idle_cpu(worker: Worker) -> float:
    """CPU seconds per second a loaded worker uses while it waits: 1 is a core spinning."""
    before = worker.cpu_s()
    time.sleep(_IDLE_S)
    return round((worker.cpu_s() - before) / _IDLE_S, 3)


def shoot(entrants: Field, arm: Arm, n_cores: int, message: dict[str, object]) -> Shot | None:
    """One arm's turn; None if that was its end."""
    worker = entrants.workers[arm.name]
    busy, own, began = machine.busy_s(), worker.cpu_s(), time.perf_counter()
    try:
        reply = worker.ask(message)
    except WorkerFailedError as error:
        entrants.drop(arm, str(error))
        return None
    wall = time.perf_counter() - began
    others = (machine.busy_s() - busy) - (worker.cpu_s() - own)
    ids = tuple(reply.get("ids", ()))
    return Shot(
        arm=arm.name,
        first_s=reply.get("first_s", 0.0),
        n_first=reply.get("n_first", 0),
        total_s=reply["total_s"],
        n_tokens=reply.get("n_tokens", len(ids)),
        ids=ids,
        wall_s=wall,
        foreign=round(max(0.0, others) / (wall * n_cores), 3),
    )


def warm_up(entrants: Field, texts: Seq[Seq[int]]) -> None:
    """Two answers per arm that nobody counts."""
    for arm in list(entrants.arms):
        entrants.say(f"warming up {arm.name}")
        for ids in texts:
            message = {"op": "generate", "ids": list(ids), "n": _WARM_TOKENS, "stop_at_eos": False}
            if shoot(entrants, arm, 1, message) is None:
                break


@dataclass(slots=True, kw_only=True)
class Course:
    """What the arms have to do: answers in blocks, prefill texts once, streams at the end.
    A prefill that is measured again reads a spare text: engines remember what they have read.
    max_foreign: a unit during which others used more of the CPU than this is measured again.
    commit: what is measured, for the records.
    """

    items: list[Item]
    prefills: list[Item]
    spare_prefills: list[Item]
    n_blocks: int
    n_streams: int
    max_foreign: float
    commit: str

    def units(self) -> Iterator[tuple[str, int, int, Item]]:
        """Kind, block, place and item of every unit, in order."""
        for at, item in enumerate(self.prefills):
            yield "prefill", at, at, item
        for block in range(self.n_blocks):
            for at, item in enumerate(self.items):
                yield "answer", block, at, item
        if self.n_streams:
            for block in range(3):
                yield "streams", block, block, self.items[0]


def race(
    entrants: Field, course: Course, records: Records, budget: Budget, patience: machine.Patience
) -> None:
    """Every unit that is not in the records yet.

    Raises:
        TimeIsUp: the budget ended first; what was finished is in the records.
    """
    done = {unit.key for unit in records.units}
    todo = [u for u in course.units() if (u[0], u[1], u[3].name) not in done]
    n_cores = int(str(machine.facts()["cores"]))
    began = time.monotonic()
    for n, (kind, block, at, item) in enumerate(todo):
        budget.check()
        each_s = (time.monotonic() - began) / n if n else 0.0
        entrants.say(
            f"{kind} {n + 1}/{len(todo)} {item.name}, {each_s * (len(todo) - n):.0f} s left"
        )
        patience.for_idle(course.max_foreign, n_cores)
        unit_began = time.monotonic()
        unit = _unit(entrants, course, (kind, block, at, item), n_cores)
        if unit.foreign > course.max_foreign:
            other = course.spare_prefills[at] if kind == "prefill" else item
            patience.for_idle(course.max_foreign, n_cores)
            again = _unit(entrants, course, (kind, block, at, other), n_cores)
            quieter = min(unit, again, key=lambda u: u.foreign)
            unit = replace(quieter, item=item.name, repeated=True)
        records.add(unit)
        budget.longest_unit_s = max(budget.longest_unit_s, time.monotonic() - unit_began)


def _unit(entrants: Field, course: Course, what: tuple[str, int, int, Item], n_cores: int) -> Unit:
    kind, block, at, item = what
    taking = [a for a in entrants.arms if kind != "streams" or a.name in BATCHED]
    message = _message(kind, item, course)
    if kind != "prefill":
        _forget(entrants)
    shots = [shoot(entrants, arm, n_cores, message) for arm in turns(taking, block, at)]
    return Unit(
        kind=kind, block=block, item=item.name, category=item.category,
        n_prompt=len(item.ids), shots=tuple(s for s in shots if s is not None),
        commit=course.commit,
    )  # fmt: skip


def _message(kind: str, item: Item, course: Course) -> dict[str, object]:
    if kind == "streams":
        several = [course.items[i % len(course.items)] for i in range(course.n_streams)]
        n = max(i.n_tokens for i in course.items)
        return {"op": "batch", "prompts": [list(i.ids) for i in several], "n": n}
    return {"op": "generate", "ids": list(item.ids), "n": item.n_tokens, "stop_at_eos": False}


def _forget(entrants: Field) -> None:
    for arm in list(entrants.arms):
        try:
            entrants.workers[arm.name].ask({"op": "forget"})
        except WorkerFailedError as error:
            entrants.drop(arm, str(error))


def lengths(items: Seq[Item], model: str, threads: int, records: Records, say: Say) -> list[Item]:
    """Each item with the length of outpace's plain answer, from the records or found now.

    A worker of its own finds them, so that no arm has read a prompt before it is timed.

    Raises:
        WorkerFailedError: outpace itself could not answer.
    """
    unknown = [item for item in items if item.name not in records.lengths]
    if unknown:
        log = environments.ROOT / "logs" / "lengths.log"
        with Worker("lengths", environments.ensure("outpace"), log, threads) as worker:
            worker.open(Setup(model=model, speculate=False, threads=threads), _LOAD_S)
            for item in unknown:
                say(f"length of {item.name}")
                message = {"op": "generate", "ids": list(item.ids), "n": item.n_tokens}
                reply = worker.ask({**message, "stop_at_eos": True})
                n = min(item.n_tokens, max(_LEAST_TOKENS, len(reply["ids"])))
                records.add_length(item.name, n)
    return [replace(item, n_tokens=records.lengths[item.name]) for item in items]
