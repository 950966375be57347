"""Explain: sentences whose numbers are the trace's, about the right token and the right round."""

import json
from pathlib import Path

import pytest

from engine.trace_world import (
    CHAIN,
    TREE,
    Guesser,
    Json,
    Scene,
    World,
    about,
    parsed,
    record,
    runtime,
)
from outpace.core.sampling import Sampling
from outpace.engine.explain import explain
from outpace.engine.explaining.words import number
from outpace.engine.trace import TraceWriter
from outpace.errors import TraceError

LETTERS = "abcdefgh"
SCENES = (
    Scene(name="none", sampling=Sampling(max_tokens=6, ignore_eos=True), shape=()),
    Scene(name="greedy", sampling=Sampling(max_tokens=12, ignore_eos=True), shape=TREE),
    Scene(
        name="seeded",
        sampling=Sampling(max_tokens=12, temperature=1.0, seed=4, ignore_eos=True),
        shape=TREE,
    ),
    Scene(name="block", sampling=Sampling(max_tokens=12, temperature=1.0, ignore_eos=True)),
    Scene(
        name="token",
        sampling=Sampling(max_tokens=12, temperature=1.0, rule="token", ignore_eos=True),
        shape=TREE,
    ),
    Scene(
        name="traversal",
        sampling=Sampling(max_tokens=12, temperature=1.0, ignore_eos=True),
        shape=TREE,
    ),
)


def _rounds(path: Path) -> list[Json]:
    return [line for line in parsed(path) if line["kind"] == "round"]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: str(scene.name))
def test_each_token_is_told_from_the_round_that_gave_it(scene: Scene, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    output = record(path, scene)
    n = 0
    for line in _rounds(path):
        for i, token in enumerate(line["repeat"]["output"]["emitted"]):
            n += 1
            told = explain(path, request=0, token=n, spell=LETTERS.__getitem__)
            [passage] = told.passages
            assert passage.facts["token"] == token == output[n - 1]
            assert passage.round == line["round"]
            assert repr(LETTERS[token]) in passage.title
            kept = i < len(line["accept"]["output"]["path"])
            assert passage.facts["kept_guess"] is kept
            assert ("and kept" in told.text()) is kept
            json.dumps(told.as_dict())
    assert n == len(output)


def test_a_lost_guess_is_told_with_p_q_a_and_its_coin(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    record(path, SCENES[4])
    n = 0
    seen = 0
    for line in _rounds(path):
        emitted = line["repeat"]["output"]["emitted"]
        path_kept = line["accept"]["output"]["path"]
        n += len(emitted)
        above = path_kept[-1] if path_kept else -1
        parents = line["draft"]["output"]["parents"]
        lost = [
            judged
            for judged in line["accept"]["input"]["judged"]
            if not judged["kept"] and parents[judged["node"]] == above
        ]
        if not lost or len(emitted) == len(path_kept):
            continue
        seen += 1
        text = explain(path, token=n).text()
        for judged in lost:
            for name in ("q", "p", "a", "u"):
                assert f"{name}={number(judged[name])}" in text
        draw = line["resample"]["output"]["draw"]
        assert "what was left of the target's law" in text
        assert f"it had {number(draw['weight'] / draw['total'])}" in text
        assert "The control had allowed 6 guesses, 3 deep because: fixed." in text
    assert seen


def test_silence_is_told_with_its_cause(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    record(path, SCENES[0])
    assert "offered none" in explain(path, token=2).text()
    assert "room for one more token only" in explain(path, token=6).text()
    assert "6 because" not in explain(path, request=0).text()
    target = runtime()
    world = World(target, Guesser(CHAIN))
    world.max_nodes = 0
    seq = world.open(0, SCENES[0].sampling)
    with TraceWriter(path, about(target)) as writer:
        while seq.finish is None:
            writer.rounds(world.step(seq))
    assert "The control had allowed no guesses because: fixed." in explain(path, token=2).text()
    assert "6 rounds had no guess: 6 because fixed" in explain(path, request=0).text()


def test_a_guess_that_repeats_the_text_is_traced_to_where_it_was(tmp_path: Path) -> None:
    """Whatever guessed it: the longest earlier match before the guess is named."""
    path = tmp_path / "t.jsonl"
    record(path, Scene(name="long", sampling=Sampling(max_tokens=40, ignore_eos=True), shape=TREE))
    texts = [explain(path, token=n).text() for n in range(20, 41)]
    assert any("had occurred earlier in the text, followed by this guess" in t for t in texts)


def test_the_slowest_rounds_come_first_with_their_causes(tmp_path: Path) -> None:
    path, target = tmp_path / "t.jsonl", runtime()
    world = World(target, Guesser(CHAIN), chunk=2)
    one, two = (world.open(k, Sampling(max_tokens=9, ignore_eos=True)) for k in (0, 1))
    with TraceWriter(path, about(target), clock=world.clock) as writer:
        writer.rounds(world.step(one, two))
        world.clock.now += 10  # nothing runs for a while
        writer.rounds(world.step(one))
        while one.finish is None:
            writer.rounds(world.step(one))
    told = explain(path, slowest=50)
    document = json.loads(json.dumps(told.as_dict()))
    totals = [passage["facts"]["total_s"] for passage in document["passages"]]
    assert totals == sorted(totals, reverse=True)
    text = told.text()
    assert "It read 2 tokens of the prompt besides." in text
    assert "shared by 2 sequences" in text
    assert "waited 10." in text
    assert "None of 3 guesses was kept" in text
    assert "%" in text
    [slowest] = explain(path, slowest=1, request=0).passages
    assert slowest.request == 0


def test_a_request_is_told_in_its_funnel_its_time_and_its_surprise(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    record(path, SCENES[5])
    end = parsed(path)[-1]
    [summary, *_] = explain(path, request=0).passages
    said = " ".join(summary.sentences)
    totals = end["totals"]
    assert "ended by length" in said
    assert f"{totals['drafted']} offered, {totals['kept']} kept" in said
    assert "left offered" in said
    assert "most surprising token" in said
    assert summary.facts["completion_tokens"] == 12
    assert "Request 0" in explain(path).text()


def test_a_killed_trace_is_explained_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    record(path, SCENES[3])
    whole = path.read_text(encoding="ascii").splitlines(keepends=True)
    path.write_text("".join(whole[:-1]), encoding="ascii")
    assert "killed, or still running" in explain(path).text()


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    output = record(path, SCENES[3])
    with pytest.raises(TraceError, match="no request 9; the trace has 0"):
        explain(path, request=9)
    for token in (0, -1, len(output) + 1):
        with pytest.raises(TraceError, match=f"request 0 has {len(output)}, counted from 1"):
            explain(path, request=0, token=token)
    with pytest.raises(TraceError, match="allowed: 1 or more"):
        explain(path, slowest=0)


@pytest.mark.parametrize(
    ("x", "said"),
    [(0.62, ".62"), (1.0, "1"), (0.0, "0"), (3.1e-7, "3.1e-07"), (12.3456, "12.3"), (0.05, ".05")],
)
def test_numbers_are_said_in_three_digits(x: float, said: str) -> None:
    assert number(x) == said
