"""Records of an evaluation: written, read again, and readable by the benchmark's summaries."""

import json
from pathlib import Path

import pytest

from outpace.bench.client import Speculation
from outpace.bench.record import Block, BlockId, Records, Request
from outpace.bench.summary import summarise
from outpace.errors import ConfigError
from outpace.evaluate.measurement import (
    Grade,
    Measurement,
    Measurements,
    Window,
    read_measurements,
    to_line,
)
from outpace.journal import Journal

PLAN = "ab" * 32
BLOCK = BlockId(load="closed:1", repeat=0, arm="candidate")


def request(item: str = "a", error: str | None = None) -> Request:
    return Request(
        block=BLOCK, attempt=0, item=item, category="chat", turn=0, sched_s=0.0, sent_s=0.1,
        ended_s=1.0, finish="stop", error=error, prompt_tokens=7, completion_tokens=3,
        chunks_s=(0.5, 1.0), chunk_tokens=(1, 2),
        speculation=Speculation(rounds=2, drafted=3, kept=1, lengths=((3, 1, 1), (0, 0, 1))),
        digest="d",
    )  # fmt: skip


def measurement(item: str = "a", error: str | None = None) -> Measurement:
    return Measurement(
        plan=PLAN, phase="test", order=3, request=request(item, error), temperature=0.0, seed=None,
        subgroups={"category": "chat", "language": "de"}, counted_by="engine", text="größer ✓",
        tokens=(5, 6, 7), logprobs=(-0.1, -0.25, 0.0),
        grade=Grade(check="numeric", passed=True, score=1.0), reported={"timings": {"draft_n": 3}},
    )  # fmt: skip


def window() -> Window:
    return Window(
        plan=PLAN, phase="test",
        block=Block(block=BLOCK, attempt=0, wall_s=2.0, full_s=0.0, full_tokens=0, requests=1),
        cpu_s=3.5, counters={"drafts": 2.0}, own_tokens=3, foreign_tokens=4, valid=False,
        reasons=("foreign traffic",),
    )  # fmt: skip


def write(path: Path, *records: Measurement | Window) -> None:
    with Journal(path) as journal:
        for record in records:
            journal.append(to_line(record))


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    write(path, measurement(), window(), measurement("b", error="timeout"))
    found = read_measurements(path, plan=PLAN)
    assert found.requests == (measurement(), measurement("b", error="timeout"))
    assert found.windows == (window(),)
    assert (found.request_lines, found.window_lines) == ((1, 3), (2,))
    assert found.done == {measurement().place}, "what failed is asked again"
    assert found.last_attempt == 0
    assert list(found.of("test", arm="candidate")) == list(found.requests)
    assert found.of("confirm") == found.of("test", arm="baseline") == []


def test_half_a_line_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    write(path, measurement(), measurement("b"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert len(read_measurements(path).requests) == 1
    assert read_measurements(tmp_path / "none") == Measurements(requests=(), windows=())


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("schema",), 2, "schema 2"),
        (("phase",), "tset", "phase"),
        (("order",), "3", "order"),
        (("request", "sent_s"), None, "request.sent_s"),
        (("request", "extra"), 1, "request.extra"),
        (("who",), "x", "who"),
        (("kind",), "block", "no record"),
        (("logprobs",), [0.0], "1 logprobs for 3 tokens"),
        (("plan",), "cd" * 32, "a changed plan is a new plan"),
    ],
)
def test_a_line_of_another_shape_is_refused(
    tmp_path: Path, place: tuple[str, ...], value: object, words: str
) -> None:
    line = json.loads(json.dumps(to_line(measurement())))
    here = line
    for part in place[:-1]:
        here = here[part]
    here[place[-1]] = value
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(line) + "\n", "utf-8")
    with pytest.raises(ConfigError, match=words):
        read_measurements(path, plan=PLAN)


def test_the_benchmark_summarises_them() -> None:
    records = Records(
        facts={}, identity="", blocks=(window().block,), requests=(measurement().request,),
        n_cut_off=0, last_attempt=0,
    )  # fmt: skip
    (cell,) = summarise(records).cells
    assert (cell.arm, cell.completion_tokens) == ("candidate", 3)
    assert cell.acceptance is not None
    assert cell.acceptance.pooled.value == 1.5
