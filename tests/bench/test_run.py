"""Blocks take turns, records keep their schema, and an interrupted run goes on where it was."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest

from outpace.bench.arrivals import Arrival, Closed, Open
from outpace.bench.client import Answer, Client, InProcess, Messages
from outpace.bench.record import SCHEMA_FILE, BlockId, read_records, run_line
from outpace.bench.run import Arm, Plan, Step, parse_arms, run
from outpace.bench.summary import summarise
from outpace.bench.workload import Item, Workload
from outpace.core.sampling import Sampling
from outpace.engine.service import Service
from outpace.errors import ConfigError
from outpace.journal import Journal, read_lines
from small import small_model

ITEMS = tuple(
    Item(id=f"i{i}", category="c", messages=({"role": "user", "content": f"say {i} " * i},))
    for i in range(1, 9)
)
WORDS = Workload(name="words", sha256="0", items=ITEMS)


def plan(**changes: object) -> Plan:
    settings: dict[str, object] = {
        "arms": parse_arms("none,suffix"), "loads": (Closed(streams=2),), "workload": WORDS,
        "sampling": Sampling(max_tokens=24), "requests": 5, "repeats": 2, "warm_up": 1,
    }  # fmt: skip
    return Plan(**{**settings, **changes})  # type: ignore[arg-type]


class Lab:
    """A model, its records, and what happened."""

    def __init__(self, path: Path) -> None:
        self.path = path / "records.jsonl"
        self.model = small_model()
        self.steps: list[Step] = []
        self.opened: list[str] = []
        self.stop_after: int | None = None

    @contextmanager
    def clients(self, arm: Arm) -> Iterator[Client]:
        self.opened.append(arm.name)
        engine = self.model.engine_with(arm.drafter, arm.limits)
        with Service(engine, check_when_idle=True) as service:
            yield InProcess(self.model, service)

    def tell(self, step: Step) -> None:
        if step.request is None:
            n_begun = sum(s.request is None for s in self.steps)
            if self.stop_after is not None and n_begun == self.stop_after:
                raise KeyboardInterrupt
        self.steps.append(step)

    def run(self, plan: Plan, **options: object) -> None:
        with Journal(self.path) as journal:
            if not self.path.stat().st_size:
                journal.append(run_line({"arms": [a.name for a in plan.arms]}, "id"))
            run(plan, self.clients, journal, self.tell, **options)  # type: ignore[arg-type]


def test_arms_take_turns_and_give_the_same_text(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.run(plan())
    order = [(s.block.repeat, s.block.arm) for s in lab.steps if s.request is None]
    assert order == [(0, "none"), (0, "suffix"), (1, "suffix"), (1, "none")]
    records = read_records(lab.path)
    assert len(records.requests) == 20
    assert all(r.ok and r.completion_tokens == 24 == sum(r.chunk_tokens) for r in records.requests)
    summary = summarise(records)
    assert [c.arm for c in summary.cells] == ["none", "suffix"]
    (compared,) = summary.comparisons
    assert (compared.same_text, compared.texts) == (10, 10)
    plain, guessing = (c.acceptance for c in summary.cells)
    assert plain is not None
    assert plain.drafted == 0
    assert guessing is not None
    assert guessing.drafted > 0


def test_every_line_keeps_the_schema(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.run(plan())
    schema = json.loads(SCHEMA_FILE.read_text())
    kinds = []
    for _, line in read_lines(lab.path):
        jsonschema.validate(line, schema)
        kinds.append(line["kind"])
    assert kinds == ["run", *(["request"] * 5 + ["block"]) * 4]


def test_each_block_begins_knowing_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.run(plan(repeats=2, loads=(Closed(streams=1),)))
    records = read_records(lab.path)
    counts = [
        [(r.item, r.speculation) for r in records.requests if r.block.repeat == repeat]
        for repeat in (0, 1)
    ]
    key = lambda pair: (pair[0], str(pair[1]))  # noqa: E731
    assert sorted(counts[0], key=key) == sorted(counts[1], key=key)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.stop_after = 2
    with pytest.raises(KeyboardInterrupt):
        lab.run(plan())
    lab.path.write_bytes(lab.path.read_bytes() + b'{"schema":1,"kind":"requ')
    old = read_records(lab.path)
    assert (len(old.done), len(old.requests)) == (2, 10)
    lab.stop_after = None
    lab.run(plan(), done=old.done, attempt=old.last_attempt + 1)
    records = read_records(lab.path)
    assert len(records.blocks) == len(records.done) == 4
    assert len(records.requests) == 20


def test_requests_of_an_unfinished_block_are_kept_and_not_counted(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.run(plan())
    lines = lab.path.read_bytes().splitlines(keepends=True)
    lab.path.write_bytes(b"".join(lines[:-3]))  # the last block lacks its end and two requests
    old = read_records(lab.path)
    assert (len(old.done), len(old.requests), old.n_cut_off) == (3, 15, 3)
    lab.run(plan(), done=old.done, attempt=old.last_attempt + 1)
    records = read_records(lab.path)
    assert (len(records.requests), records.n_cut_off) == (20, 3)


class Slow:
    """A client whose every answer takes 60 ms, however many are asked."""

    def __init__(self) -> None:
        self.asked: list[Messages] = []
        self.samplings: list[Sampling] = []
        self._lock = threading.Lock()

    def ask(self, messages: Messages, sampling: Sampling, *, want_text: bool = False) -> Answer:
        import time

        began = time.perf_counter()
        with self._lock:
            self.asked.append(list(messages))
            self.samplings.append(sampling)
            time.sleep(0.06)
        now = time.perf_counter()
        return Answer(
            sent_s=began, ended_s=now, finish="length", error=None, prompt_tokens=1,
            completion_tokens=1, chunks_s=(now,), chunk_tokens=(1,), speculation=None, digest="d",
            text="answer" if want_text else "",
        )  # fmt: skip

    @contextmanager
    def opened(self, arm: Arm) -> Iterator[Client]:
        yield self


def test_an_open_loop_counts_from_the_schedule(tmp_path: Path) -> None:
    load = Open(label="t", arrivals=tuple(
        Arrival(at_s=0.01 * i, context_tokens=2, generated_tokens=3 + i) for i in range(4)
    ))  # fmt: skip
    slow = Slow()
    path = tmp_path / "r.jsonl"
    with Journal(path) as journal:
        journal.append(run_line({}, "id"))
        run(plan(loads=(load,), arms=parse_arms("none"), repeats=1, warm_up=0),
            slow.opened, journal, lambda _: None)  # fmt: skip
    times = sorted((r.sched_s, r.e2el_s) for r in read_records(path).requests)
    assert [s for s, _ in times] == pytest.approx([0, 0.01, 0.02, 0.03], abs=1e-4)
    assert max(e for _, e in times) >= 4 * 0.06 - 0.03, "waiting behind others is latency"
    # Those who wait for the lock get it in any order.
    assert sorted(s.max_tokens or 0 for s in slow.samplings) == [3, 4, 5, 6]
    assert all(s.ignore_eos for s in slow.samplings)


def test_later_turns_carry_the_answers_before_them(tmp_path: Path) -> None:
    item = Item(id="t", category="c", messages=({"role": "user", "content": "a"},), later=("b",))
    slow = Slow()
    path = tmp_path / "r.jsonl"
    with Journal(path) as journal:
        journal.append(run_line({}, "id"))
        run(plan(workload=Workload(name="w", sha256="", items=(item,)), arms=parse_arms("none"),
                 requests=1, repeats=1, warm_up=0, loads=(Closed(streams=1),)),
            slow.opened, journal, lambda _: None)  # fmt: skip
    first, second = slow.asked[:2]
    assert [m["content"] for m in second] == ["a", "answer", "b"]
    assert [m["content"] for m in first] == ["a"]
    assert sorted(r.turn for r in read_records(path).requests) == [0, 0, 1, 1]


def test_plans_that_cannot_be_are_refused() -> None:
    for text in ("", "none,none"):
        with pytest.raises(ConfigError, match="different names"):
            parse_arms(text)
    with pytest.raises(ConfigError, match="speculation"):
        parse_arms("auto@sometimes")
    with pytest.raises(ConfigError, match="repeats"):
        plan(repeats=0)
    (off, four) = parse_arms("auto@off, lookup@fixed:4")
    assert (off.drafter, four.drafter) == ("auto", "lookup")
    assert off.limits is not None
    assert four.limits is not None
    assert (off.limits.max_nodes, four.limits.max_nodes) == (0, 4)
    assert plan(requests=20).repeats_items(Closed(streams=1))
    assert not plan().repeats_items(Closed(streams=2))
    assert BlockId(load="a", repeat=0, arm="b") < BlockId(load="b", repeat=0, arm="a")
