"""The writer: what a trace contains, when it is written, and what it leaves out."""

import json
import math
from pathlib import Path

import pytest
import torch

from engine.trace_world import (
    CHAIN,
    PROMPT,
    SCENES,
    TREE,
    Guesser,
    Scene,
    World,
    about,
    parsed,
    record,
    runtime,
)
from outpace.core.sampling import Rule, Sampling
from outpace.engine.replay import replay
from outpace.engine.trace import TraceWriter
from outpace.errors import ConfigError
from outpace.events import Admitted, RequestDone, RoundsDone
from outpace.runtimes.toy import TableRuntime


def _kinds(path: Path) -> list[str]:
    return [line["kind"] for line in parsed(path)]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: str(scene.name))
def test_tracing_changes_no_token(scene: Scene, tmp_path: Path) -> None:
    traced = record(tmp_path / "t.jsonl", scene)
    target = runtime(scene)
    world = World(target, Guesser(scene.shape, chosen=scene.chosen), chunk=scene.chunk)
    seq = world.open(0, scene.sampling, seed=scene.seed)
    while seq.finish is None:
        world.step(seq, traced=False)
    assert seq.output == traced


def test_a_line_is_on_disk_as_soon_as_its_round_is_over(tmp_path: Path) -> None:
    path, target = tmp_path / "t.jsonl", runtime()
    world = World(target, Guesser(CHAIN))
    seq = world.open(0, Sampling(max_tokens=6, ignore_eos=True))
    with TraceWriter(path, about(target)) as writer:
        assert _kinds(path) == ["header"]
        writer.rounds(world.step(seq))
        assert _kinds(path) == ["header", "request", "round"]
    while seq.finish is None:
        world.step(seq)
    assert replay(path).unfinished == (0,)


def test_a_trace_has_every_stage_with_owner_check_and_seconds(tmp_path: Path) -> None:
    record(tmp_path / "t.jsonl", SCENES[4])
    [round_line, *_] = [x for x in parsed(tmp_path / "t.jsonl") if x["kind"] == "round"]
    for name in ("draft", "score", "accept", "resample", "repeat"):
        stage = round_line[name]
        assert {"owner", "input", "output", "check", "seconds"} <= stage.keys()
        assert stage["check"]["holds"] is True
    assert round_line["control"]["reason"] == "fixed"
    for judged in round_line["accept"]["input"]["judged"]:
        assert 0 <= judged["u"] < 1
    for uncertainty in round_line["score"]["uncertainty"][:-1]:
        assert 0 < uncertainty["entropy_p"] <= math.log(8)
        assert 0 < uncertainty["overlap"] <= 1


def test_overlap_and_entropy_are_those_of_the_laws(tmp_path: Path) -> None:
    target = runtime()
    world = World(target, Guesser((-1,)))
    seq = world.open(0, Sampling(max_tokens=5, temperature=1.0))
    with TraceWriter(tmp_path / "t.jsonl", about(target)) as writer:
        [done] = world.step(seq)
        writer.round(done)
    assert done.laws is not None
    p_V, q_V = done.laws.law(0), done.draft.law(0)
    [found, *_] = parsed(tmp_path / "t.jsonl")[2]["score"]["uncertainty"]
    assert found["overlap"] == pytest.approx(float(torch.minimum(p_V, q_V).sum()), rel=1e-12)
    assert found["entropy_p"] == pytest.approx(-float((p_V * p_V.log()).sum()), rel=1e-12)
    assert found["entropy_q"] == pytest.approx(-float((q_V * q_V.log()).sum()), rel=1e-12)


def test_numbers_survive_json_exactly(tmp_path: Path) -> None:
    target = runtime(Scene(name="x", sampling=Sampling(), single=True))
    world = World(target, Guesser(CHAIN))
    seq = world.open(0, Sampling(max_tokens=6, temperature=1.0))
    with TraceWriter(tmp_path / "t.jsonl", about(target)) as writer:
        [done] = world.step(seq)
        writer.round(done)
    assert done.verdict is not None
    judged = parsed(tmp_path / "t.jsonl")[2]["accept"]["input"]["judged"]
    expected = [(j.p, j.q, j.a, j.weight, j.mass) for j in done.verdict.judgements]
    assert [(j["p"], j["q"], j["a"], j["weight"], j["mass"]) for j in judged] == expected


def test_prompt_ids_can_be_left_out_and_text_is_only_written_when_given(tmp_path: Path) -> None:
    for name, ids, text in (("ids", True, None), ("none", False, None), ("text", True, "héllo")):
        path, target = tmp_path / f"{name}.jsonl", runtime()
        world = World(target, Guesser(TREE))
        seq = world.open(0, Sampling(max_tokens=4, ignore_eos=True))
        with TraceWriter(path, about(target, prompt_ids=ids)) as writer:
            if text is not None:
                writer.prompt_text(seq, text)
            while seq.finish is None:
                writer.rounds(world.step(seq))
        request = parsed(path)[1]
        assert request["prompt_ids"] == (list(PROMPT) if ids else None)
        assert request["prompt_text"] == text
        assert request["prompt_tokens"] == len(PROMPT)
        assert replay(path).holds


def test_requests_that_run_together_share_a_trace(tmp_path: Path) -> None:
    path, target = tmp_path / "t.jsonl", runtime()
    world = World(target, Guesser(TREE))
    kinds = [Sampling(max_tokens=5), Sampling(max_tokens=9, temperature=1.0, ignore_eos=True)]
    flying = [world.open(key, s, seed=key) for key, s in enumerate(kinds)]
    with TraceWriter(path, about(target), clock=world.clock) as writer:
        while flying:
            writer.rounds(world.step(*flying))
            flying = [seq for seq in flying if seq.finish is None]
    report = replay(path)
    assert report.holds, report.text()
    assert report.n_requests == 2
    batches = [line["batch"] for line in parsed(path) if line["kind"] == "round"]
    assert batches[0] == batches[1]
    assert batches[0]["sequences"] == batches[0]["traced"] == 2


def test_untraced_neighbours_are_counted_and_not_written(tmp_path: Path) -> None:
    path, target = tmp_path / "t.jsonl", runtime()
    world = World(target, Guesser(CHAIN))
    ours, theirs = (world.open(k, Sampling(max_tokens=4, ignore_eos=True)) for k in (0, 1))
    with TraceWriter(path, about(target)) as writer:
        # one pass of two sequences, as an engine that samples its traces would run it
        mixed = [*world.step(ours), *world.step(theirs, traced=False)]
        writer.rounds(mixed)
        writer.end(theirs)
        writer.end(ours)
        writer.end(ours)
    assert _kinds(path) == ["header", "request", "round", "end"]
    assert parsed(path)[2]["batch"]["sequences"] == 2
    assert replay(path).holds


def test_the_writer_listens_to_the_engines_events(tmp_path: Path) -> None:
    path, target = tmp_path / "t.jsonl", runtime()
    world = World(target, Guesser(CHAIN))
    done, aborted = (world.open(k, Sampling(max_tokens=4, ignore_eos=True)) for k in (0, 1))
    with TraceWriter(path, about(target)) as writer:
        writer.listen(Admitted(done, 0))
        writer.listen(RoundsDone(tuple(world.step(done, aborted)), 0.5))
        aborted.finish = "abort"
        writer.listen(RequestDone(aborted))
        while done.finish is None:
            writer.listen(RoundsDone(tuple(world.step(done)), 0.5))
        writer.listen(RequestDone(done))
    ends = {line["request"]: line["finish"] for line in parsed(path) if line["kind"] == "end"}
    assert ends == {0: "length", 1: "abort"}
    assert replay(path).holds


def test_memory_that_was_taken_away_shows_as_tokens_read_again(tmp_path: Path) -> None:
    path, target = tmp_path / "t.jsonl", runtime()
    world = World(target, Guesser(CHAIN))
    seq = world.open(0, Sampling(max_tokens=9, ignore_eos=True))
    with TraceWriter(path, about(target)) as writer:
        writer.rounds(world.step(seq))
        n_read = seq.n_computed
        target.close(0)
        seq.n_computed = target.open(0, seq.tokens)
        while seq.finish is None:
            writer.rounds(world.step(seq))
    rounds = [line for line in parsed(path) if line["kind"] == "round"]
    assert [line["score"]["input"]["reread"] for line in rounds[:3]] == [0, n_read, 0]
    assert replay(path).holds


class _Words:
    """A stop scan that finds its string once a certain token was seen."""

    def __init__(self, last: int) -> None:
        self._last = last

    def completes(self, token: int) -> bool:
        return token == self._last


def test_a_stop_string_is_recorded_by_the_token_that_completed_it(tmp_path: Path) -> None:
    path, target = tmp_path / "t.jsonl", runtime()
    world = World(target, Guesser(TREE))
    sampling = Sampling(max_tokens=30, temperature=1.0, stop=("x",), ignore_eos=True)
    seq = world.open(0, sampling, stops=_Words(5))
    with TraceWriter(path, about(target)) as writer:
        while seq.finish is None:
            writer.rounds(world.step(seq))
    assert seq.finish == "stop_string"
    assert parsed(path)[-2]["repeat"]["output"]["stop_token"] == 5
    assert replay(path).holds


@pytest.mark.parametrize("shape", [(), CHAIN, TREE])
@pytest.mark.parametrize("rule", [None, "match", "token", "traversal"])
def test_a_request_no_token_can_continue_ends_with_its_error(
    shape: tuple[int, ...], rule: Rule | None, tmp_path: Path
) -> None:
    path, target = tmp_path / "t.jsonl", runtime()
    world = World(target, Guesser(shape, chosen=rule == "match"))
    everything = tuple((before, after) for before in range(8) for after in range(8))
    sampling = Sampling(
        temperature=1.0, banned=everything, ignore_eos=True, rule=rule, max_tokens=9
    )
    seq = world.open(0, sampling)
    with TraceWriter(path, about(target)) as writer:
        while seq.finish is None:
            writer.rounds(world.step(seq))
    assert seq.finish == "error"
    report = replay(path)
    assert report.holds, report.text()
    assert "no token is allowed" in parsed(path)[-1]["error"]


def test_a_file_that_cannot_be_written_is_the_operators_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        TraceWriter(tmp_path / "absent" / "t.jsonl", about(runtime()))
    with pytest.raises(ConfigError, match="cannot be written"):
        TraceWriter(tmp_path, about(runtime()))


def test_a_full_disk_is_the_operators_error() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(ConfigError, match="No space left"):
        TraceWriter(full, about(runtime()))


def test_an_existing_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("old\n" * 100, encoding="ascii")
    record(path, SCENES[0])
    assert replay(path).holds


def test_a_trace_names_no_path_and_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTPACE_SECRET_TOKEN", "hush-7351")
    record(tmp_path / "t.jsonl", SCENES[4])
    text = (tmp_path / "t.jsonl").read_text(encoding="ascii")
    assert "hush" not in text
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text


def test_identity_is_equal_where_equal_texts_are_promised(tmp_path: Path) -> None:
    """Drafter, control and time do not enter it; the prompt, the model and the seed do."""
    lines = []
    for i, (shape, seed) in enumerate([((), 9), (TREE, 9), (TREE, 10)]):
        sampling = Sampling(max_tokens=4, temperature=1.0, seed=seed)
        record(tmp_path / f"{i}.jsonl", Scene(name="a", sampling=sampling, shape=shape))
        lines.append(parsed(tmp_path / f"{i}.jsonl"))
    identities = [line[1]["identity"] for line in lines]
    texts = [line[-1]["text_digest"] for line in lines]
    assert identities[0] == identities[1] != identities[2]
    assert texts[0] == texts[1]


def test_wide_vocabularies_and_long_numbers_stay_one_ascii_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    table_V = torch.linspace(-9, 9, 5000, dtype=torch.float32)
    target = TableRuntime(lambda text: table_V.roll(len(text)), vocab_size=5000)
    world = World(target, Guesser())
    seq = world.open(0, Sampling(max_tokens=3, temperature=0.3, stop=("é\ud800",), seed=2**64 - 1))
    with TraceWriter(path, about(target, model="modèle")) as writer:
        while seq.finish is None:
            writer.rounds(world.step(seq))
    assert path.read_bytes().isascii()
    assert all(len(line) < 10_000 for line in path.read_bytes().splitlines())
    assert json.loads(path.read_text(encoding="ascii").splitlines()[0])["model"] == "modèle"
    assert replay(path).holds
