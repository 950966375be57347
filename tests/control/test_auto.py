"""The control in a loop with made-up texts and costs: what it promises, number by number."""

import math
import random
from collections import Counter

import pytest

from control.simulation import (
    TABLES,
    Acceptance,
    PassSeconds,
    Report,
    World,
    auto,
    best_fixed,
    chain_of,
    fixed,
    sequence,
)
from outpace.control.auto import AutoControl
from outpace.control.cost import CostTable
from outpace.control.limits import AutoConfig, Limits, View
from outpace.control.profile import GRID, shape_of
from outpace.core.accept import Verdict
from outpace.core.draft import NO_GUESS, Draft
from outpace.core.repeat import Round, StageSeconds, Turn
from outpace.core.sampling import Sampling
from outpace.drafters.lookup import LookupDrafter
from outpace.engine.engine import Engine
from outpace.events import ControlSwitched
from outpace.runtimes.toy import TableRuntime, random_table

DEPTHS = (0, 1, 2, 3, 4, 6, 8, 12, 16)
FLAT, TORCH = TABLES["flat"], TABLES["torch"]


def steady(alpha: float) -> Acceptance:
    return lambda _key, _position: alpha


def expected_rate(world: World, alpha: float, depth: int) -> float:
    """Tokens a second if every round guesses so deep."""
    n = world.n_sequences
    asked = n * world.ask_s + depth * world.depth_s if depth else 0.0
    tokens = n * sum(alpha**i for i in range(depth + 1))
    return tokens / (world.pass_s(n * (1 + depth)) + asked)


def later_rate(world: World, first: int, then: int) -> float:
    """Tokens a second after so many tokens, over plain decoding's."""
    simulation, _ = auto(world)
    report = simulation.run(tokens=first)
    tokens, seconds = report.tokens, report.seconds
    report = simulation.run(tokens=first + then)
    plain = world.n_sequences / world.pass_s(world.n_sequences)
    return (report.tokens - tokens) / (report.seconds - seconds) / plain


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("n_sequences", [1, 8, 32])
@pytest.mark.parametrize("depth_s", [0.0, 0.003])
def test_always_wrong_costs_less_than_5_percent_after_200_tokens(
    table: str, n_sequences: int, depth_s: float
) -> None:
    for claim in (None, lambda _: 0.9):  # silent about its chances, and lying about them
        world = World(
            pass_s=TABLES[table], acceptance=steady(0.0), n_sequences=n_sequences,
            depth_s=depth_s, claim=claim,
        )  # fmt: skip
        assert later_rate(world, 200, 200) >= 0.95


@pytest.mark.parametrize("table", ["flat", "torch"])
@pytest.mark.parametrize("n_sequences", [1, 8, 32])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.6, 0.9])
def test_regret_against_the_best_depth_in_hindsight_is_at_most_5_percent(
    table: str, n_sequences: int, alpha: float
) -> None:
    tokens = {1: 2000, 8: 500, 32: 250}[n_sequences]
    for depth_s in (0.0, 0.001):
        world = World(
            pass_s=TABLES[table], acceptance=steady(alpha), n_sequences=n_sequences,
            depth_s=depth_s,
        )  # fmt: skip
        rate = max(expected_rate(world, alpha, depth) for depth in DEPTHS)
        simulation, _ = auto(world)
        assert simulation.run(tokens=tokens).rate >= 0.95 * rate, depth_s


@pytest.mark.parametrize("table", ["flat", "torch"])
@pytest.mark.parametrize("n_sequences", [1, 8])
def test_regret_is_as_small_where_acceptance_drifts(table: str, n_sequences: int) -> None:
    def acceptance(key: int, position: int) -> float:
        return 0.5 + 0.45 * math.sin(2 * math.pi * (position / 1500 + key / 8))

    world = World(pass_s=TABLES[table], acceptance=acceptance, n_sequences=n_sequences)
    tokens = 3000 if n_sequences == 1 else 1000
    _, rate = best_fixed(world, tokens, DEPTHS[:6])
    simulation, _ = auto(world)
    assert simulation.run(tokens=tokens).rate >= 0.95 * rate


def test_a_cliff_does_not_trap_it() -> None:
    world = World(pass_s=TABLES["cliff"], acceptance=steady(0.95))
    simulation, _ = auto(world)
    report = simulation.run(rounds=200)
    assert sum(d[0] for d in report.depths[100:]) / 100 > 8


def stepping(table: PassSeconds, *, claims: bool) -> tuple[int | None, int | None]:
    """Acceptance .9, then .1, then .9: rounds until off, and until on again."""
    now = [0.9]
    world = World(
        pass_s=table, acceptance=lambda _k, _p: now[0], depth_s=0.0015,
        claim=(lambda _: 0.85) if claims else None,
    )  # fmt: skip
    simulation, switched = auto(world)
    simulation.run(rounds=100)
    assert not switched
    now[0] = 0.1
    off = next((n for n in range(1, 301) if simulation.step() and switched), None)
    simulation.run(rounds=400)
    now[0] = 0.9
    on = next((n for n in range(1, 301) if simulation.step() and len(switched) == 2), None)
    assert [s.state for s in switched] == ["open", "closed"]
    return off, on


@pytest.mark.parametrize("table", ["flat", "torch"])
@pytest.mark.parametrize("claims", [False, True])
def test_it_is_off_within_40_rounds_and_on_again_within_200(table: str, claims: bool) -> None:
    off, on = stepping(TABLES[table], claims=claims)
    assert off is not None
    assert off <= 40
    assert on is not None
    assert on <= 200


@pytest.mark.parametrize("away", [-0.02, 0.0, 0.05, 0.1])
@pytest.mark.parametrize("claims", [False, True])
def test_hovering_at_break_even_switches_at_most_4_times_a_minute(
    away: float, claims: bool
) -> None:
    alpha = (TORCH(2) + 0.002) / TORCH(1) - 1 + away
    world = World(
        pass_s=TORCH, acceptance=lambda _k, p: alpha + 0.1 * math.sin(p / 37), depth_s=0.002,
        claim=(lambda _: 0.6) if claims else None, noise=0.1,
    )  # fmt: skip
    simulation, switched = auto(world)
    times: list[float] = []
    while len(simulation.report.depths) < 2000:
        simulation.step()
        times += [simulation.now_s] * (len(switched) - len(times))
    for at in times:
        assert sum(at <= t < at + 60 for t in times) <= 4
    assert simulation.report.rate * TORCH(1) >= 0.97


@pytest.mark.parametrize("n", [8, 24, 80])
@pytest.mark.parametrize("claims", [False, True])
def test_a_drafter_that_is_right_until_trusted_and_then_wrong_costs_next_to_nothing(
    n: int, claims: bool
) -> None:
    world = World(
        pass_s=TORCH, acceptance=lambda _k, p: float(p % (5 * n) < n), depth_s=0.002,
        claim=(lambda _: 0.9) if claims else None,
    )  # fmt: skip
    simulation, _ = auto(world)
    assert simulation.run(tokens=1500).rate * TORCH(1) >= 0.95


@pytest.mark.parametrize("n_sequences", [2, 8])
def test_copying_and_hopeless_neighbours_each_get_their_own_depth(n_sequences: int) -> None:
    world = World(
        pass_s=FLAT, acceptance=lambda k, _p: 0.95 if k % 2 else 0.02, n_sequences=n_sequences
    )
    simulation, _ = auto(world)
    report = simulation.run(tokens=300)
    half = report.depths[len(report.depths) // 2 :]
    for key in range(n_sequences):
        mean = sum(depths[key] for depths in half) / len(half)
        assert mean > 2 if key % 2 else mean < 0.5
    assert report.rate > 1.3 * n_sequences / FLAT(n_sequences)


def test_a_drafter_that_knows_its_chances_is_never_turned_off_by_its_silence() -> None:
    """It finds something in one round of ten, and is right then: every one of them is used."""
    world = World(pass_s=TORCH, acceptance=steady(0.9), claim=lambda a: a, offers=0.1)
    simulation, switched = auto(world)
    report = simulation.run(rounds=1000)
    assert not switched
    assert report.rate * TORCH(1) > 1.1


def test_noise_in_the_clock_costs_little() -> None:
    world = World(pass_s=FLAT, acceptance=steady(0.7), noise=0.2)
    _, rate = best_fixed(world, 1500, DEPTHS)
    simulation, _ = auto(world)
    assert simulation.run(tokens=1500).rate >= 0.93 * rate


def test_without_a_profile_it_learns_what_it_needs() -> None:
    world = World(pass_s=TORCH, acceptance=steady(0.0))
    simulation, _ = auto(world, profiled=False)
    assert simulation.run(tokens=400).rate * TORCH(1) >= 0.95
    good = World(pass_s=TORCH, acceptance=steady(0.8))
    simulation, _ = auto(good, profiled=False)
    assert simulation.run(tokens=1000).rate >= 0.9 * best_fixed(good, 1000, DEPTHS)[1]


# What it may know, and what it says.


def one_round(
    control: AutoControl, key: int, *, draft: Draft, kept: int, ids: random.Random, limits: Limits
) -> None:
    """A finished round with token ids from `ids`, which no decision may depend on."""
    n = len(draft)
    drawn = Draft(
        tokens=tuple(ids.randrange(64) for _ in range(n)), parents=draft.parents,
        sources=draft.sources, chances=draft.chances,
    )  # fmt: skip
    token = ids.randrange(64)
    turn = Turn(
        sequence=sequence(key, "drawn"), catch_up=1, max_nodes=limits.max_nodes,
        max_depth=limits.max_depth, worth=limits.worth,
    )  # fmt: skip
    seconds = StageSeconds(
        draft=1e-4 * n, score=0.01 + 1e-4 * n, accept=1e-5, resample=1e-5, repeat=1e-5
    )
    control.learn(
        [
            Round(
                turn=turn, start=20, n_rows=1 + n, draft=drawn,
                verdict=Verdict(rule="token", path=tuple(range(kept)), row=kept, weights_V=None),
                next_token=token, emitted=(*drawn.tokens[:kept], token), finish=None,
                seconds=seconds,
            )
        ]
    )  # fmt: skip


@pytest.mark.parametrize("claimed", [0.0, 0.8])
def test_no_answer_changes_when_drawn_ids_change(claimed: float) -> None:
    """Two controls see rounds that differ in nothing but the ids that were drawn."""
    pair = [(AutoControl(clock=lambda: 0.0), random.Random(seed)) for seed in (1, 2)]
    fate = random.Random(3)
    for n in range(300):
        answers = []
        kept = 0 if fate.random() < 0.5 else fate.randint(0, 16)
        for control, ids in pair:
            (limits,) = control.decide(
                [View(key=n // 100, style="drawn", catch_up=1, context_tokens=20 + n)]
            )
            answers.append(limits)
            depth = min(limits.max_nodes, limits.max_depth)
            draft = chain_of(depth, claimed)
            one_round(control, n // 100, draft=draft, kept=min(kept, depth), ids=ids, limits=limits)
        assert answers[0] == answers[1]


def decided(control: AutoControl, key: int) -> Limits:
    (limits,) = control.decide([View(key=key, style="chosen", catch_up=1, context_tokens=16)])
    return limits


def test_zero_data_is_said_and_never_divided_by() -> None:
    control = AutoControl(drafter="lookup")
    assert control.decide([]) == []
    empty = control.snapshot()
    assert empty.breakeven is None
    assert empty.tokens_per_round is None
    assert empty.speedup is None
    assert empty.sources == ()
    assert sum("no data" in line for line in empty.sentences()) == 2
    assert "no data yet" in decided(control, 0).reason
    for line in control.snapshot().sentences():
        assert "nan" not in line
    control.forget(0)
    control.forget(0)


def test_reasons_are_plain_words_with_the_numbers() -> None:
    simulation, _ = auto(World(pass_s=TORCH, acceptance=steady(0.7)))
    simulation.run(rounds=60)
    (decision,) = simulation.control.snapshot().decisions  # type: ignore[attr-defined]
    assert decision.reason.startswith("depth ")
    assert "of 16: guesses kept 0." in decision.reason
    assert decision.reason.endswith("% of a pass")
    claiming, _ = auto(World(pass_s=TORCH, acceptance=steady(0.7), claim=lambda a: a))
    claiming.run(rounds=60)
    (decision,) = claiming.control.snapshot().decisions  # type: ignore[attr-defined]
    assert "guesses likelier than 0." in decision.reason


def test_a_switch_is_an_event_with_owner_severity_and_numbers() -> None:
    simulation, switched = auto(World(pass_s=TORCH, acceptance=steady(0.0), depth_s=0.001))
    simulation.run(rounds=100)
    (event,) = switched
    assert isinstance(event, ControlSwitched)
    assert (event.key, event.drafter, event.state) == (0, "simulated", "open")
    assert (event.owner, event.severity) == ("control", "performance")
    assert event.upper < 1.05 * event.breakeven
    snapshot = simulation.control.snapshot()  # type: ignore[attr-defined]
    assert (snapshot.n_open, snapshot.n_closed, snapshot.n_switches) == (1, 0, 1)
    (source,) = snapshot.sources
    assert source.kept == 0.0
    assert source.verified <= source.guesses


def test_one_token_requests_leave_nothing_behind_and_break_nothing() -> None:
    control = AutoControl()
    for key in range(200):
        limits = decided(control, key)
        assert limits.max_nodes >= 0
        one_round(control, key, draft=NO_GUESS, kept=0, ids=random.Random(key), limits=limits)
        control.forget(key)
    assert control.snapshot().decisions == ()


def _history(control: AutoControl, key: int, kept: int, n: int) -> None:
    for _ in range(n):
        limits = decided(control, key)
        depth = min(limits.max_nodes, limits.max_depth)
        one_round(
            control, key, draft=chain_of(depth, 0.0), kept=min(kept, depth),
            ids=random.Random(0), limits=limits,
        )  # fmt: skip


def test_only_the_prior_passes_from_one_sequence_to_the_next() -> None:
    """Whoever came before, in whatever order, a new one is told the same by the same past."""
    answers = []
    for order in ((1, 2), (2, 1)):
        control = AutoControl(clock=lambda: 0.0)
        for key in order:
            _history(control, key, 2, 40)
        answers.append(decided(control, 3).max_nodes)
        control.forget(3)
        for key in order:
            control.forget(key)
        answers.append(decided(control, 3).max_nodes)
    assert len(set(answers)) == 1


def test_short_requests_start_from_what_others_taught() -> None:
    good, bad = AutoControl(), AutoControl()
    for key in range(6):
        _history(good, key, 16, 12)
        _history(bad, key, 0, 12)
        good.forget(key)
        bad.forget(key)
    assert decided(good, 99).max_depth > 4
    assert decided(bad, 99).max_depth <= 1


def test_reading_a_prompt_does_not_make_guesses_cheap() -> None:
    """A second of the pass that reads is worth what it brings afterwards, so the first token does
    not wait for guesses that decoding would not make."""
    shape = shape_of({rows: 0.002 + 0.0005 * rows for rows in GRID})
    granted = []
    for catch_up in (1, 100):
        control = AutoControl(CostTable(shape), clock=lambda: 0.0)
        view = View(key=0, style="chosen", catch_up=catch_up, context_tokens=100)
        (limits,) = control.decide([view])
        granted.append(limits.max_nodes)
    assert granted[0] == granted[1] < 8


def test_caps_are_kept() -> None:
    config = AutoConfig(max_nodes=5, max_depth=3, max_guesses=8)
    world = World(pass_s=FLAT, acceptance=steady(1.0), n_sequences=4)
    simulation, _ = auto(world, config)
    report = simulation.run(rounds=100)
    assert max(max(depths) for depths in report.depths) <= 3
    assert Counter(sum(depths) <= 8 + 4 for depths in report.depths) == {True: 100}


def test_the_plain_pass_is_looked_at_again_now_and_then() -> None:
    simulation, _ = auto(World(pass_s=FLAT, acceptance=steady(0.95)))
    report: Report = simulation.run(rounds=600)
    plain = sum(depths[0] == 0 for depths in report.depths)
    assert 4 <= plain <= 12
    assert any("plain pass" in reason for reason in report.reasons)


def test_in_a_real_engine_texts_stay_the_same_and_every_round_has_its_reason() -> None:
    def texts(control: AutoControl | None) -> list[list[int]]:
        runtime = TableRuntime(random_table(6, seed=4, memory=1, sharpness=4.0), vocab_size=6)
        limits = Limits(max_nodes=0, max_depth=0) if control is None else None
        engine = Engine(runtime, LookupDrafter(), limits=limits, control=control)
        reasons: list[str] = []
        sequences = [
            engine.add(
                [1, 2, 3, key % 6], Sampling(temperature=0.0, max_tokens=60), seed=key,
                sink=lambda done: reasons.append(done.turn.reason),
            )
            for key in range(6)
        ]  # fmt: skip
        while not engine.idle:
            engine.step()
        engine.check_integrity()
        assert all(reasons)
        return [s.output for s in sequences]

    control = AutoControl(drafter="lookup")
    assert texts(control) == texts(None)
    assert control.snapshot().n_passes > 0
    assert control.snapshot().decisions == ()


def test_fixed_depths_are_what_they_say() -> None:
    """The yardstick itself: a fixed depth's rate is the formula's."""
    world = World(pass_s=FLAT, acceptance=steady(0.5), depth_s=0.001)
    for depth in (0, 2):
        rate = fixed(world, depth, 10_000).rate
        assert rate == pytest.approx(expected_rate(world, 0.5, depth), rel=0.02)
