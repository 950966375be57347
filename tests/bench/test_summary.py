"""Records made by hand, with answers known beforehand."""

import math
from dataclasses import replace

import pytest

from outpace.bench.client import Speculation
from outpace.bench.record import Block, BlockId, Records, Request
from outpace.bench.summary import Objectives, acceptance, positions, summarise


def request(arm: str = "none", item: str = "a", repeat: int = 0, **changes: object) -> Request:
    made = Request(
        block=BlockId(load="closed:1", repeat=repeat, arm=arm), attempt=0, item=item,
        category="all", turn=0, sched_s=1.0, sent_s=1.1, ended_s=3.1, finish="length", error=None,
        prompt_tokens=7, completion_tokens=5, chunks_s=(1.5, 2.0, 3.0), chunk_tokens=(1, 3, 1),
        speculation=None, digest="same",
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def block(arm: str = "none", repeat: int = 0, wall_s: float = 4.0) -> Block:
    return Block(
        block=BlockId(load="closed:1", repeat=repeat, arm=arm), attempt=0, wall_s=wall_s,
        full_s=2.0, full_tokens=6, requests=1,
    )  # fmt: skip


def records(blocks: list[Block], requests: list[Request], n_cut_off: int = 0) -> Records:
    return Records(
        facts={}, identity="", blocks=tuple(blocks), requests=tuple(requests),
        n_cut_off=n_cut_off, last_attempt=0,
    )  # fmt: skip


def said(*lengths: tuple[int, int, int], drafted: int | None = None) -> Speculation:
    return Speculation(
        rounds=sum(n for _, _, n in lengths),
        drafted=sum(d * n for d, _, n in lengths) if drafted is None else drafted,
        kept=sum(k * n for _, k, n in lengths),
        lengths=lengths,
    )


def test_times_count_from_the_scheduled_arrival() -> None:
    r = request()
    assert (r.ttft_s, r.tpot_s, r.e2el_s) == (0.5, 1.5 / 4, 2.0)
    assert r.itl_s == (0.5, 1.0)
    one = request(completion_tokens=1, chunks_s=(1.5,), chunk_tokens=(1,))
    assert (one.tpot_s, one.itl_s) == (None, ())


def test_a_cell_adds_up() -> None:
    requests = [request(), request(item="b"), request(item="c", error="no", finish="error")]
    (cell,) = summarise(records([block()], requests), Objectives(ttft_s=0.4)).cells
    assert (cell.requests, cell.failed, cell.completion_tokens) == (3, 1, 15)
    assert cell.tokens_per_s is not None
    assert (cell.tokens_per_s.value, cell.tokens_per_s.low) == (15 / 4, None)
    assert cell.full_tokens_per_s is not None
    assert cell.full_tokens_per_s.value == 3
    assert (cell.requests_per_s, cell.goodput_per_s) == (0.5, 0)
    assert cell.ttft_s is not None
    assert cell.ttft_s.quantiles == {"p50": 0.5, "p90": 0.5, "p99": 0.5}
    assert cell.acceptance is None, "nobody said anything of guesses"


def test_goodput_asks_for_every_objective() -> None:
    for limits, good in [
        (Objectives(ttft_s=0.5, tpot_s=0.4, e2el_s=2), True),
        (Objectives(ttft_s=0.5, tpot_s=0.3), False),
        (Objectives(e2el_s=1.9), False),
    ]:
        assert limits.met_by(request()) is good
        assert not limits.met_by(request(error="x"))
    (cell,) = summarise(records([block()], [request()]), Objectives()).cells
    assert cell.goodput_per_s is None, "no objective, no goodput"


def test_acceptance_is_pooled_and_per_request() -> None:
    made = acceptance([
        request(speculation=said((4, 4, 1))),                       # 5 tokens of 1 round
        request(speculation=said((2, 0, 2), (4, 2, 1))),            # 5 tokens of 3 rounds
    ])  # fmt: skip
    assert made is not None
    assert made.pooled.value == 10 / 4
    assert made.per_request is not None
    assert made.per_request.value == (5 + 5 / 3) / 2
    assert (made.drafted, made.kept) == (12, 6)
    assert made.waste is not None
    assert made.waste.value == 0.5


def test_positions_divide_by_the_rounds_that_reached_them() -> None:
    made = positions({(0, 0): 50, (1, 1): 10, (2, 0): 5, (2, 2): 5, (4, 3): 2})
    assert [(p.position, p.offered) for p in made] == [(1, 22), (2, 12), (3, 2), (4, 2)]
    assert [p.marginal for p in made] == [17 / 22, 7 / 12, 1, 0]
    assert [p.conditional for p in made] == [17 / 22, 1, 1, 0]
    assert positions({(0, 0): 9}) == ()
    (first, second) = positions({(2, 0): 3})
    assert (first.conditional, second.conditional) == (0, None), "no data is not 0"


def test_without_guesses_waste_has_no_data() -> None:
    made = acceptance([request(speculation=said((0, 0, 9)))])
    assert made is not None
    assert (made.pooled.value, made.waste, made.positions) == (1, None, ())
    assert acceptance([request(speculation=said())]) is None


def test_arms_are_compared_in_pairs() -> None:
    blocks = [block(arm, repeat, wall) for arm, wall in (("none", 4.0), ("auto", 2.0))
              for repeat in (0, 1)]  # fmt: skip
    slow = [request("none", item, repeat) for item in "abc" for repeat in (0, 1)]
    fast = [
        request("auto", item, repeat, chunks_s=(1.25, 2.0), chunk_tokens=(1, 4),
                digest="other" if item == "c" else "same")
        for item in "abc" for repeat in (0, 1)
    ]  # fmt: skip
    made = summarise(records(blocks, [*slow, *fast, request("auto", "z")], n_cut_off=3))
    (compared,) = made.comparisons
    assert (compared.arm, compared.against) == ("auto", "none")
    assert compared.e2el is not None
    assert compared.e2el.value == pytest.approx(2)
    assert compared.e2el.n == 3
    assert compared.tpot is not None
    assert compared.tpot.value == pytest.approx(2)
    assert compared.throughput is not None
    assert compared.throughput.n == 2
    assert compared.throughput.value == pytest.approx(2 * math.sqrt(20 / 15))
    assert (compared.same_text, compared.texts) == (4, 6)
    assert "3 requests" in made.notes[0]
