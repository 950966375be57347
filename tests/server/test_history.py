"""The last minutes as the feed tells them, on a clock of our own."""

from itertools import pairwise

import pytest

from outpace.control.auto import AutoControl
from outpace.core.sampling import Sampling
from outpace.core.sequence import Sequence
from outpace.engine.engine import Engine
from outpace.events import ControlSwitched
from outpace.server.metrics.history import KEPT_S, RECENT_S, History
from outpace.server.metrics.meters import Meters
from server.live import running
from small import small_model

# Longer than any run here, however well it is guessed: how often is up to the machine.
LONG = Sampling(max_tokens=50_000, ignore_eos=True, temperature=0)


class World:
    """An engine whose passes take no time, and a clock that is set by hand."""

    def __init__(self, *, measuring: bool = True) -> None:
        model = small_model(context_tokens=60_000)
        if measuring:
            control = AutoControl(drafter="lookup")
            model.engine = Engine(model.runtime, model.drafter, control=control)
        self.engine, self.now_s = model.engine, 100.0
        self.meters = Meters(lambda: self.now_s)
        self.history = History(self.meters, self.engine.control, lambda: self.now_s)
        self.engine.listeners += [self.history.listen, self.meters.listen]

    def begin(self, prompt: bytes = b"ab ab ab ab ab") -> Sequence:
        return self.engine.add(list(prompt), LONG, seed=1)

    def run(self, seconds: float, per_second: int = 10) -> int:
        """Tokens of so many seconds of passes."""
        tokens = 0
        for _ in range(int(seconds * per_second)):
            self.now_s += 1 / per_second
            tokens += sum(len(done.emitted) for done in self.engine.step())
        return tokens


def test_points_are_a_second_each_and_add_up() -> None:
    world = World()
    world.begin()
    tokens = world.run(20)
    points = world.history.points(float("-inf"))
    # The first pass ended before the first mark could know of it.
    assert sum(point.tokens for point in points) == tokens
    assert sum(point.drafts for point in points) == world.meters.counted().totals["drafts"]
    assert all(point.seconds == pytest.approx(1, abs=0.15) for point in points[1:-1])
    assert 18 <= len(points) <= 22
    assert all(point.length >= 1 for point in points if point.length is not None)
    assert any(point.breakeven is not None for point in points)


def test_a_reader_gets_what_it_does_not_have_and_the_last_point_again() -> None:
    world = World()
    world.begin()
    world.run(5)
    first = world.history.points(float("-inf"))
    world.run(3)
    more = world.history.points(first[-1].at_s - first[-1].seconds)
    whole = world.history.points(float("-inf"))
    assert whole[len(whole) - len(more) :] == more
    assert len(whole) - len(more) in (len(first) - 1, len(first) - 2)
    assert world.history.points(world.now_s) == []


def test_recent_is_the_last_minute_and_nothing_of_what_was_before() -> None:
    world = World()
    world.begin()
    world.run(90)
    world.now_s += 600
    assert world.history.recent() is None
    tokens = world.run(5)
    recent = world.history.recent()
    assert recent is not None
    assert recent.totals["generation_tokens"] == tokens
    assert sum(recent.stages.values()) <= sum(world.meters.counted().stages.values())


def test_a_long_run_keeps_a_minute_of_counts_and_minutes_of_points() -> None:
    world = World()
    world.begin()
    world.run(KEPT_S + 60, per_second=2)
    recent = world.history.recent()
    assert recent is not None
    assert recent.totals["passes"] == pytest.approx(2 * RECENT_S, abs=4)
    points = world.history.points(float("-inf"))
    assert points[-1].at_s - points[0].at_s <= KEPT_S


def test_decisions_say_for_whom_how_far_and_why() -> None:
    world = World()
    sequence = world.begin()
    world.run(10)
    decisions = world.history.decisions()
    assert decisions
    assert {d.key for d in decisions} == {sequence.key}
    assert all(d.reason for d in decisions)
    assert all((d.guesses > 0) == (d.kind == "guess") for d in decisions)
    told = [(d.kind, d.guesses, d.reason) for d in decisions]
    assert all(a != b for a, b in pairwise(told))
    world.history.listen(
        ControlSwitched(key=7, drafter="lookup", state="open", reason="too few", lower=1.0,
                        upper=1.1, breakeven=1.5, owner="control", severity="performance")
    )  # fmt: skip
    newest = world.history.decisions()[0]
    assert (newest.key, newest.kind, newest.reason) == (7, "switch", "stopped guessing: too few")


def test_fixed_limits_have_no_breakeven_but_decisions_too() -> None:
    world = World(measuring=False)
    world.begin()
    world.run(4)
    assert {point.breakeven for point in world.history.points(float("-inf"))} == {None}
    assert world.history.decisions()[0].reason == "fixed limits"


def test_the_state_tells_the_flow_of_tokens_through_the_stages() -> None:
    with running() as live:
        live.complete("ab ab ab ab ab", max_tokens=80, temperature=0, ignore_eos=True)
        state = live.http.get("/outpace/state").json()
    for told in (state, state["recent"]):
        totals = told["totals"]
        flow = {s["stage"]: (s["tokens_in"], s["tokens_out"]) for s in told["stages"]}
        guesses, kept = totals["draft_tokens"], totals["accepted_tokens"]
        assert flow["draft"] == (totals["rounds"], guesses)
        assert flow["accept"] == (guesses, kept)
        assert flow["repeat"][1] == totals["generation_tokens"] == 80
        assert flow["repeat"][0] >= flow["repeat"][1]
        assert flow["score"][0] == totals["rows"]
        assert sum(stage["share"] for stage in told["stages"]) == pytest.approx(1)
    assert [point["tokens"] for point in state["history"]]
    assert state["chat"] is True
