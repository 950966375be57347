"""The breaker: opens on proof of loss, looks again ever more rarely, and never flaps."""

import pytest

from outpace.control.breaker import Breaker, BreakerConfig, Reading, verdict
from outpace.errors import ConfigError

CONFIG = BreakerConfig()
LOSS = Reading(lower=1.0, upper=1.04, breakeven=1.1)
GAIN = Reading(lower=1.5, upper=2.5, breakeven=1.1)
UNSURE = Reading(lower=1.0, upper=3.0, breakeven=1.1)


def test_between_the_two_bounds_nothing_changes() -> None:
    assert verdict("closed", UNSURE, CONFIG)[0] == "closed"
    assert verdict("open", UNSURE, CONFIG)[0] == "open"
    assert verdict("closed", LOSS, CONFIG)[0] == "open"
    assert verdict("open", GAIN, CONFIG)[0] == "closed"
    # 1.2 tokens a round: more than break-even, less than it takes to switch either way.
    near = Reading(lower=1.2, upper=1.2, breakeven=1.1)
    assert verdict("closed", near, CONFIG)[0] == "closed"
    assert verdict("open", near, CONFIG)[0] == "open"


def _rounds_to_probe(breaker: Breaker) -> int:
    n = 1
    while breaker.turn(together=True) != "probe":
        n += 1
    return n


def test_probes_back_off_and_follow_up_at_once_after_one_that_paid() -> None:
    breaker = Breaker(CONFIG)
    assert breaker.turn(together=True) == "guess"
    assert breaker.judge(LOSS, 0.0)
    waits = []
    for _ in range(4):
        waits.append(_rounds_to_probe(breaker))
        breaker.probed(paid=False)
    assert waits == [8, 8, 16, 32]
    _rounds_to_probe(breaker)
    breaker.probed(paid=True)
    assert breaker.turn(together=False) == "probe", "a follow-up does not wait for the others"
    breaker.probed(paid=False)
    assert _rounds_to_probe(breaker) == 32


def test_a_costly_probe_waits_longer() -> None:
    breaker = Breaker(CONFIG)
    breaker.judge(LOSS, 0.0)
    _rounds_to_probe(breaker)
    breaker.probed(paid=False, least_wait=100)
    assert _rounds_to_probe(breaker) == 100


def test_at_most_four_switches_a_minute_and_then_it_stays_open() -> None:
    breaker, times = Breaker(CONFIG), []
    for second in range(300):
        for reading in (LOSS, GAIN):
            if breaker.judge(reading, float(second)):
                times.append(float(second))
    assert len(times) > 4
    for at in times:
        assert sum(at <= t < at + CONFIG.window_s for t in times) <= CONFIG.switches
    breaker.judge(LOSS, 299.0)
    assert breaker.state == "open"
    assert breaker.n_switches == len(times)


def test_why_it_stays_open_is_said() -> None:
    breaker = Breaker(CONFIG)
    for _ in range(3):
        breaker.judge(LOSS, 0.0)
        breaker.judge(GAIN, 0.0)
    assert breaker.state == "open"
    assert "switched often" in breaker.reason


@pytest.mark.parametrize(
    "wrong",
    [{"open_below": 1.2}, {"open_below": 0.0}, {"first_probe": 0}, {"first_probe": 64},
     {"switches": 1}, {"window_s": 0.0}],
)  # fmt: skip
def test_a_breaker_that_could_not_work_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="allowed"):
        BreakerConfig(**wrong)  # type: ignore[arg-type]
