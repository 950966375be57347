"""Replay: an honest trace holds, and a changed number anywhere does not."""

import copy
import json
from pathlib import Path

import pytest

from engine.trace_world import (
    SCENES,
    Place,
    Scene,
    called,
    leaves,
    other,
    parsed,
    put,
    record,
    sealed,
)
from outpace.core.sampling import Sampling
from outpace.engine.replay import replay
from outpace.errors import TraceError

# Nothing in a trace follows from these, and they from nothing; only the chain ties them.
INFORMATION = {
    # who, what and when: words about the process
    "header.outpace": "a version no number depends on",
    "header.model": "the name the user chose; the weights are known by target.digest",
    "header.started_at": "the caller's clock",
    "header.target.row_invariant": "a promise of the runtime",
    "request.masked": "a grammar is not in the trace",
    "round.at_s": "a clock",
    "round.batch.index": "a pass's number; only its order matters",
    # the control's own: taken as given, checked as limits where they applied
    "round.control.reason": "the control's words",
    "round.control.max_depth": "unused where the room was smaller or nothing was asked",
    "round.control.worth": "unused where nothing was asked",
    "round.draft.output.replacement": "q is recorded as drawn, elder siblings taken out",
    # statistics of laws the trace does not hold in full; no decision reads them
    "round.draft.rejected.*.*": "the drafter's second choice",
    "round.score.output.rows.*.tokens.*": "the id of an alternative that lost by its score",
    "round.score.uncertainty.*.entropy_p": "bounded only",
    "round.score.uncertainty.*.entropy_q": "bounded only",
    "round.score.uncertainty.*.overlap": "tied to the residual where one was weighed",
}


def _name(scene: Scene) -> str:
    return scene.name


@pytest.mark.parametrize("scene", SCENES, ids=_name)
def test_an_honest_trace_holds(scene: Scene, tmp_path: Path) -> None:
    output = record(tmp_path / "t.jsonl", scene)
    report = replay(tmp_path / "t.jsonl")
    assert report.holds, report.text()
    assert report.failures == ()
    assert report.n_tokens == len(output)
    assert report.n_requests == 1
    assert report.unfinished == ()
    assert {part.name for part in report.parts if part.compared} >= {"chain", "score", "end"}


@pytest.mark.parametrize("scene", SCENES, ids=_name)
def test_every_change_is_found_by_what_the_numbers_mean(scene: Scene, tmp_path: Path) -> None:
    """With the chain made right again: the decisions themselves give the change away."""
    missed = _missed(scene, tmp_path, stride=1, seal=True)
    assert missed <= set(INFORMATION)


@pytest.mark.parametrize("scene", SCENES[::4], ids=_name)
def test_every_change_is_found_by_the_chain(scene: Scene, tmp_path: Path) -> None:
    """Informational words and numbers included."""
    assert _missed(scene, tmp_path, stride=7, seal=False) == set()


def _missed(scene: Scene, tmp_path: Path, *, stride: int, seal: bool) -> set[str]:
    """Names of leaves whose change replay did not notice."""
    path = tmp_path / "t.jsonl"
    record(path, scene)
    lines = parsed(path)
    texts = path.read_text(encoding="ascii").splitlines()
    places: list[tuple[int, Place, object]] = [
        (i, place, leaf) for i, line in enumerate(lines) for place, leaf in leaves(line)
    ]
    missed: set[str] = set()
    for i, place, leaf in places[::stride]:
        changed = copy.deepcopy(lines[i])
        put(changed, place, other(leaf))
        if seal:
            path.write_text(sealed([*lines[:i], changed, *lines[i + 1 :]]), encoding="ascii")
        else:
            body = json.dumps(changed, separators=(",", ":"))
            path.write_text("\n".join([*texts[:i], body, *texts[i + 1 :], ""]), encoding="ascii")
        try:
            noticed = not replay(path).holds
        except TraceError:
            noticed = True
        if not noticed:
            missed.add(called(place, str(lines[i]["kind"])))
    return missed


def test_each_number_in_the_trace_is_exactly_the_one_decided_with(tmp_path: Path) -> None:
    """A change in the last bit of p is a change."""
    path = tmp_path / "t.jsonl"
    record(path, SCENES[5])
    lines = parsed(path)
    [judged, *_] = lines[2]["accept"]["input"]["judged"]
    judged["p"] = judged["p"] * (1 + 2**-52)
    path.write_text(sealed(lines), encoding="ascii")
    report = replay(path)
    assert not report.holds
    assert any(", p" in str(failure) for failure in report.failures)


def test_a_removed_round_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    record(path, SCENES[4])
    lines = parsed(path)
    rounds = [i for i, line in enumerate(lines) if line["kind"] == "round"]
    for i in rounds:
        path.write_text(sealed([*lines[:i], *lines[i + 1 :]]), encoding="ascii")
        assert not replay(path).holds


def test_lines_in_another_order_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    record(path, Scene(name="long", sampling=Sampling(max_tokens=8, temperature=1.0), shape=()))
    lines = parsed(path)
    lines[2], lines[3] = lines[3], lines[2]
    path.write_text(sealed(lines), encoding="ascii")
    assert not replay(path).holds


def test_the_report_says_where_and_what(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    record(path, SCENES[0])
    lines = parsed(path)
    lines[2]["repeat"]["output"]["emitted"][0] += 1
    path.write_text(sealed(lines), encoding="ascii")
    report = replay(path)
    [first, *_] = report.failures
    assert (first.line, first.request, first.round) == (3, 0, 0)
    assert "emitted" in str(first)
    assert "does not hold" in report.text()
    assert json.loads(json.dumps(report.as_dict()))["holds"] is False


def test_a_trace_without_its_last_lines_holds_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    record(path, SCENES[4])
    whole = path.read_text(encoding="ascii").splitlines(keepends=True)
    path.write_text("".join(whole[:-1]), encoding="ascii")
    report = replay(path)
    assert report.holds
    assert report.unfinished == (0,)
    assert "killed" in report.text()
