"""Loads are repeatable, traces are read strictly, and lengths find prompts of that length."""

from collections import Counter
from pathlib import Path

import pytest

from outpace.bench.arrivals import Arrival, Closed, by_length, poisson, replay
from outpace.errors import ConfigError

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def test_poisson_has_its_rate_and_its_seed() -> None:
    made = poisson(4000, rate_per_s=5, seed=1)
    assert made == poisson(4000, rate_per_s=5, seed=1) != poisson(4000, rate_per_s=5, seed=2)
    times = [a.at_s for a in made.arrivals]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(800, rel=0.06)
    gaps = [b - a for a, b in zip([0.0, *times], times, strict=False)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((g - mean) ** 2 for g in gaps) / len(gaps)) ** 0.5
    assert deviation / mean == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize(
    ("unit", "stamps"),
    [
        ("datetime", ("2023-11-16 18:15:46.6805900", "2023-11-16 18:15:48.6805900")),
        ("datetime", ("2024-05-10 00:00:00.5+00:00", "2024-05-10 00:00:02.5+00:00")),
        ("s", ("10", "12")),
        ("ms", ("100", "2100")),
        ("ns", ("5e9", "7e9")),
    ],
)
def test_a_trace_is_replayed_in_its_unit_and_scale(
    tmp_path: Path, unit: str, stamps: tuple[str, str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEAD + f"{stamps[0]},374,44\n{stamps[1]},396,109\n")
    made = replay(path, time_unit=unit, time_scale=4)  # type: ignore[arg-type]
    assert [a.at_s for a in made.arrivals] == pytest.approx([0, 0.5])
    assert made.arrivals[1] == Arrival(
        at_s=made.arrivals[1].at_s, context_tokens=396, generated_tokens=109
    )
    assert len(replay(path, time_unit=unit, most=1).arrivals) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "lacks TIMESTAMP"),
        (HEAD, "no requests"),
        (HEAD + "x,1,1\n", r"t\.csv:2"),
        (HEAD + "1,0,1\n", "both 1 or more"),
        (HEAD + "1,5\n", r"t\.csv:2"),
        (HEAD + "2,1,1\n1,1,1\n", "back in time"),
    ],
)
def test_what_is_no_trace_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        replay(path, time_unit="s")


def test_impossible_loads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="concurrency"):
        Closed(streams=0)
    with pytest.raises(ConfigError, match="rate"):
        poisson(1, rate_per_s=float("nan"), seed=0)
    with pytest.raises(ConfigError, match="time scale"):
        replay(tmp_path / "t", time_unit="s", time_scale=0)
    with pytest.raises(ConfigError, match="time unit"):
        replay(tmp_path / "t", time_unit="hours")  # type: ignore[arg-type]


def test_lengths_pick_prompts_near_them_and_spread_over_those() -> None:
    lengths = [10 * i for i in range(1, 41)]
    arrivals = [Arrival(at_s=0, context_tokens=205, generated_tokens=1) for _ in range(16)]
    chosen = by_length(arrivals, lengths)
    assert Counter(chosen) == dict.fromkeys(range(16, 24), 2)
    assert by_length([Arrival(at_s=0)] * 3, [5, 5]) == [0, 1, 0]
