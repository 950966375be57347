"""Who gets rows: a pure decision."""

import pytest

from outpace.engine.schedule import Budget, Standing, plan
from outpace.errors import ConfigError


def standing(key: int, behind: int, last_pass: int = 0) -> Standing:
    return Standing(key=key, behind=behind, last_pass=last_pass)


def test_decoding_goes_first_and_prompts_share_the_rest() -> None:
    chosen = plan([standing(0, 100), standing(1, 1), standing(2, 1)], Budget(rows=32))
    assert chosen == [(1, 1), (2, 1), (0, 30)]


def test_with_more_sequences_than_rows_those_who_waited_longest_go_first() -> None:
    running = [standing(k, 1, last_pass=10 - k) for k in range(6)]
    assert plan(running, Budget(rows=3)) == [(5, 1), (4, 1), (3, 1)]


def test_nobody_starves_over_many_passes() -> None:
    last = dict.fromkeys(range(10), 0)
    for n in range(1, 41):
        running = [standing(k, 1 if k < 8 else 50, last[k]) for k in last]
        for key, _ in plan(running, Budget(rows=4)):
            last[key] = n
    assert min(last.values()) > 40 - 10


def test_a_prompt_gets_rows_beside_a_crowd_of_decoders() -> None:
    running = [standing(k, 1) for k in range(100)] + [standing(100, 500)]
    chosen = dict(plan(running, Budget(rows=64)))
    assert chosen[100] == 16
    assert sum(chosen.values()) == 64


def test_the_budget_is_never_exceeded() -> None:
    for rows in range(1, 20):
        running = [standing(k, 1 + 7 * (k % 3)) for k in range(9)]
        chosen = plan(running, Budget(rows=rows))
        assert sum(n for _, n in chosen) <= rows
        assert chosen


@pytest.mark.parametrize("name", ["rows", "sequences", "waiting"])
def test_a_budget_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Budget(**{name: 0})
