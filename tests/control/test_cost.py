"""The cost table: measured in a moment, corrected by every pass, moved by no outlier."""

import random

import pytest

from outpace.control.cost import CostTable, LinearCost, RoundCosts
from outpace.control.profile import ASSUMED, GRID, Load, profile, shape_of
from outpace.errors import CapacityError
from outpace.runtimes.toy import TableRuntime, random_table


class _Clock:
    """Seconds that pass only when a runtime works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _Timed(TableRuntime):
    """A runtime whose passes take as long as a formula says."""

    def __init__(self, clock: _Clock, *, max_tokens: int | None = None, row_s: float = 0.1) -> None:
        super().__init__(random_table(8, seed=1), vocab_size=8, max_tokens=max_tokens)
        self.clock, self.row_s, self.n_opened = clock, row_s, 0

    def open(self, key: int, tokens):  # type: ignore[no-untyped-def]
        self.n_opened += 1
        return super().open(key, tokens)

    def extend(self, batch):  # type: ignore[no-untyped-def]
        rows = sum(len(r.tokens) for r in batch)
        keys = sum(len(r.tokens) * len(self._kept[r.key].tokens) for r in batch)
        spent = 5 + self.row_s * (rows - 1) + 0.5 * (len(batch) - 1) + 0.001 * keys
        self.clock.now += spent / 1000
        return super().extend(batch)


def test_a_profile_finds_what_rows_sequences_and_contexts_cost() -> None:
    clock = _Clock()
    runtime = _Timed(clock)
    shape = profile(runtime, 5.0, clock)
    assert shape.rows_seconds(1) == pytest.approx(0.0050)
    assert shape.rows_seconds(20) == pytest.approx(0.0069)
    assert shape.rows_seconds(64) == pytest.approx(0.0113), "beyond the last, the last slope"
    assert shape.per_sequence == pytest.approx(0.0005)
    assert shape.per_row_key == pytest.approx(1e-6)
    assert shape.per_key == pytest.approx(0.0, abs=1e-9)
    runtime.check_integrity()


@pytest.mark.parametrize("budget_s", [0.0, 0.001, 0.02, 0.1])
def test_a_profile_ends_in_time_and_leaves_nothing_open(budget_s: float) -> None:
    clock = _Clock()
    runtime = _Timed(clock)
    shape = profile(runtime, budget_s, clock)
    assert clock.now <= budget_s + 0.02
    assert list(shape.by_rows) == sorted(shape.by_rows)
    runtime.check_integrity()


def test_a_profile_makes_do_with_little_memory() -> None:
    clock = _Clock()
    runtime = _Timed(clock, max_tokens=8)
    shape = profile(runtime, 5.0, clock)
    assert shape.rows_seconds(1) == pytest.approx(0.005)
    runtime.check_integrity()
    runtime.open(0, [1])
    with pytest.raises(CapacityError):
        runtime.reserve(0, 9)


def test_a_shape_is_monotone_and_goes_through_what_was_measured() -> None:
    shape = shape_of({1: 1.0, 4: 0.9, 8: 2.0})
    assert list(shape.by_rows) == sorted(shape.by_rows)
    assert shape.rows_seconds(1) == shape.rows_seconds(4) == 0.9
    assert shape.rows_seconds(8) == 2.0
    assert shape.rows_seconds(6) == pytest.approx(1.45)
    assert shape_of({}) is ASSUMED
    assert shape_of({8: 2.0}).rows_seconds(8) == pytest.approx(2.0)


def test_an_empty_table_knows_proportions_and_learns_the_rest_from_one_pass() -> None:
    table = CostTable()
    assert table.n_passes == 0
    table.learn(Load(rows=4), 0.02)
    assert table.seconds(Load(rows=4)) == pytest.approx(0.02)
    assert table.seconds(Load(rows=1)) == pytest.approx(0.02 / 1.09)


def test_passes_correct_the_place_they_were_seen_at() -> None:
    table, rng = CostTable(shape_of(dict.fromkeys(GRID, 0.01))), random.Random(0)
    for _ in range(300):
        for rows, seconds in ((1, 0.01), (16, 0.02)):
            table.learn(Load(rows=rows), seconds * (1 + rng.gauss(0, 0.05)))
    assert table.seconds(Load(rows=1)) == pytest.approx(0.01, rel=0.05)
    assert table.seconds(Load(rows=16)) == pytest.approx(0.02, rel=0.05)
    assert table.seconds(Load(rows=1)) < table.seconds(Load(rows=8)) < 0.02


def test_a_slower_machine_is_slower_everywhere() -> None:
    table = CostTable(shape_of({1: 0.01, 8: 0.011, 16: 0.013}))
    for _ in range(20):
        table.learn(Load(rows=1), 0.01)
        table.learn(Load(rows=8), 0.011)
    for _ in range(100):
        table.learn(Load(rows=8), 0.022)
    assert table.seconds(Load(rows=8)) == pytest.approx(0.022, rel=0.05)
    assert table.seconds(Load(rows=1)) == pytest.approx(0.02, rel=0.15)


def test_an_outlier_moves_nothing() -> None:
    table = CostTable(shape_of({1: 0.01, 8: 0.011}))
    for n in range(200):
        table.learn(Load(rows=1 + n % 8), 1.0 if n % 20 == 10 else 0.01 + 0.001 * (n % 8) / 7)
    assert table.seconds(Load(rows=1)) == pytest.approx(0.01, rel=0.1)
    assert table.seconds(Load(rows=8)) == pytest.approx(0.011, rel=0.1)


def test_more_rows_never_look_cheaper() -> None:
    table, rng = CostTable(), random.Random(5)
    for _ in range(500):
        table.learn(Load(rows=rng.randint(1, 40), sequences=rng.choice((1, 8))), rng.random())
    curve = table.curve(Load(rows=1), 64, 0.0)
    assert curve.tolist() == sorted(curve)
    assert all(0 < s < 100 for s in curve)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_a_broken_clock_teaches_nothing(seconds: float) -> None:
    table = CostTable()
    table.learn(Load(rows=1), seconds)
    assert table.n_passes == 0


def test_a_linear_cost_finds_both_its_parts_and_is_never_negative() -> None:
    cost, rng = LinearCost(), random.Random(2)
    assert cost.seconds(1, 8) == 0.0
    for n in range(400):
        x, y = rng.randint(1, 8), rng.randint(0, 8)
        cost.learn(x, y, 5.0 if n == 200 else (0.02 * x + 0.1 * y) * (1 + rng.gauss(0, 0.05)))
    assert cost.a == pytest.approx(0.02, rel=0.3)
    assert cost.b == pytest.approx(0.1, rel=0.1)
    falling = LinearCost()
    for y in range(1, 50):
        falling.learn(1, y % 5, 0.01 * (5 - y % 5))
    assert falling.a >= 0
    assert falling.b >= 0


def test_no_rounds_cost_nothing() -> None:
    costs = RoundCosts(CostTable())
    assert costs.per_guess("drawn") == 0.0
