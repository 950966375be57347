"""The native runtime keeps its books: no text is ever another's, whatever is shared or moved."""

import random

import pytest
import torch

from outpace.core.score import Rows, Scores
from outpace.errors import CapacityError, ContractError
from outpace.runtimes.native.runtime import NativeRuntime
from runtimes.native.walk import VOCAB, chain_rows, make, over, read, table_walk, whole_text_table


@pytest.mark.parametrize(
    ("seed", "n_pages", "page_size"),
    [(1, 400, 1), (2, 120, 2), (3, 40, 4), (4, 25, 16), (5, 60, 4), (6, 40, 16)],
)
def test_random_walks_agree_with_a_naive_cache(seed: int, n_pages: int, page_size: int) -> None:
    walk = table_walk(seed=seed, n_pages=n_pages, page_size=page_size)
    walk.run(1500)
    assert walk.native.stats().n_hits > 50


def test_a_pool_too_small_refuses_changes_nothing_and_recovers() -> None:
    walk = table_walk(seed=7, n_pages=9, page_size=8)
    walk.run(1500)
    assert walk.n_refused > 50
    runtime, _ = make(3, 4)
    runtime.open(1, [0] * 10)
    runtime.reserve(1, 9)
    runtime.open(2, [1] * 9)
    with pytest.raises(CapacityError, match="needs 1 more pages for 4 rows; 0 are free"):
        runtime.reserve(2, 4)
    runtime.close(1)
    runtime.reserve(2, 9)


def test_2000_short_requests_leave_a_small_pool_as_it_began() -> None:
    runtime, _ = make(12, 4)
    dice = random.Random(0)
    for key in range(2000):
        text = [dice.randrange(VOCAB) for _ in range(dice.randint(1, 24))]
        last = read(runtime, key, text)
        assert last is not None
        assert torch.equal(last, whole_text_table(tuple(text)))
        runtime.close(key)
    runtime.check_integrity()
    assert runtime.free_tokens() == 12 * 4
    assert runtime.stats().n_owned == 0


def test_a_known_beginning_needs_no_pass_and_changes_no_result() -> None:
    runtime, decoder = make(32, 4)
    text = [0, 1, 2, 3, 4, 3, 2, 1, 0, 1, 2, 3]
    first = read(runtime, 1, text)
    assert decoder.n_rows_computed == 12
    again = read(runtime, 2, text)  # shared while the first is open; the last page is read again
    assert decoder.n_rows_computed == 16
    assert first is not None
    assert again is not None
    assert torch.equal(first, again)
    assert runtime.stats().n_owned == 3  # equal pages are held once
    runtime.close(1)
    runtime.close(2)
    assert runtime.open(3, [*text, 4]) == 12  # and after all have ended


def test_a_kept_path_is_what_a_fresh_prefill_computes() -> None:
    runtime, _ = make(32, 4)
    read(runtime, 1, [0, 1, 2])
    #     3   (rows 0..6 below 2: two branches of a tree, the second is kept)
    tree = Rows(
        key=1, tokens=[3, 4, 1, 2, 0, 3, 4], parents=[-1, 0, 0, 1, 2, 4, 5], asked=[6], logits=True
    )
    runtime.reserve(1, 7)
    runtime.extend([tree])
    runtime.keep(1, [0, 2, 4, 5])
    runtime.reserve(1, 1)
    (score,) = runtime.extend([chain_rows(1, [4])])
    fresh = read(make(32, 4)[0], 1, [0, 1, 2, 3, 1, 0, 3, 4])
    assert score.logits_AV is not None
    assert fresh is not None
    assert torch.equal(score.logits_AV[-1], fresh)


def test_guesses_never_become_beginnings() -> None:
    runtime, _ = make(32, 4)
    read(runtime, 1, [0, 1])
    runtime.reserve(1, 6)
    runtime.extend([chain_rows(1, [2, 3, 4, 4, 4, 4])])
    assert runtime.open(2, [0, 1, 2, 3, 4]) == 0  # computed, not kept
    runtime.keep(1, [0])
    assert runtime.open(3, [0, 1, 2, 3, 4]) == 0  # kept, the page is not full
    runtime.reserve(1, 1)
    runtime.extend([chain_rows(1, [3])])
    runtime.keep(1, [0])
    assert runtime.open(4, [0, 1, 2, 3, 4]) == 4


def test_a_pass_without_asked_rows_and_a_mixed_one() -> None:
    runtime, _ = make(32, 4)
    for key in (1, 2, 3):
        runtime.open(key, [key, 1])
        runtime.reserve(key, 2)
    silent = Rows(key=1, tokens=[1, 1], parents=[-1, 0], asked=())
    best = Rows(key=2, tokens=[2, 1], parents=[-1, 0], asked=[1], logits=False)
    scores = runtime.extend([silent, best, chain_rows(3, [3, 1])])
    assert scores[0] == Scores()
    assert scores[1].best_A == [int(whole_text_table((2, 1)).argmax())]
    assert scores[2].logits_AV is not None
    assert torch.equal(scores[2].logits_AV[1], whole_text_table((3, 1)))


def test_a_decoder_that_fails_leaves_its_sequences_as_they_were() -> None:
    runtime, decoder = make(32, 4)
    runtime.open(1, [0, 1])
    runtime.reserve(1, 2)
    copy, decoder._tokens = decoder._tokens, decoder._tokens[:0]
    with pytest.raises(IndexError):
        runtime.extend([chain_rows(1, [0, 1])])
    decoder._tokens = copy
    runtime.extend([chain_rows(1, [0, 1])])


def opened(n_reserved: int = 4) -> NativeRuntime:
    runtime, _ = make(32, 4)
    runtime.open(1, [0, 1, 2])
    runtime.reserve(1, n_reserved)
    return runtime


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (Rows(key=9, tokens=[1], parents=[-1], asked=[0]), "not open"),
        (Rows(key=1, tokens=[], parents=[], asked=[]), "0 rows, reserved are 4"),
        (Rows(key=1, tokens=[0] * 5, parents=[0] * 5, asked=[]), "5 rows, reserved are 4"),
        (Rows(key=1, tokens=[0, VOCAB], parents=[-1, 0], asked=[]), "the model's are 0 to 4"),
        (Rows(key=1, tokens=[0, -1], parents=[-1, 0], asked=[]), "the model's are 0 to 4"),
        (Rows(key=1, tokens=[0, 1], parents=[-1], asked=[]), "2 rows with 1 parents"),
        (Rows(key=1, tokens=[0, 1], parents=[-1, 1], asked=[]), "parents come first"),
        (Rows(key=1, tokens=[0, 1], parents=[-1, 0], asked=[1, 0]), "must ascend"),
        (Rows(key=1, tokens=[0, 1], parents=[-1, 0], asked=[2]), "must ascend"),
    ],
)
def test_rows_that_cannot_be_are_refused(rows: Rows, message: str) -> None:
    runtime = opened()
    with pytest.raises(ContractError, match=message):
        runtime.extend([rows])
    runtime.extend([chain_rows(1, [0, 1])])


def test_verbs_out_of_turn_are_refused() -> None:
    runtime = opened()
    with pytest.raises(ContractError, match="already open"):
        runtime.open(1, [0])
    with pytest.raises(ContractError, match="without a pass"):
        runtime.keep(1, [0])
    with pytest.raises(ContractError, match="twice in a pass"):
        runtime.extend([chain_rows(1, [0]), chain_rows(1, [0])])
    runtime.extend([Rows(key=1, tokens=[0, 1, 2], parents=[-1, 0, 0], asked=())])
    with pytest.raises(ContractError, match="second pass before keep"):
        runtime.extend([chain_rows(1, [0])])
    with pytest.raises(ContractError, match="keep comes first"):
        runtime.reserve(1, 1)
    for path in ([1], [0, 1, 2], [0, 3], [-1], [0, 0]):
        with pytest.raises(ContractError, match="not a path"):
            runtime.keep(1, path)
    runtime.keep(1, [0, 2])
    with pytest.raises(ContractError, match="still open"):
        runtime.check_integrity()
    runtime.close(1)
    runtime.close(1)
    runtime.check_integrity()


def test_rows_beyond_the_context_are_refused() -> None:
    runtime, _ = make(64, 4)
    read(runtime, 1, [0] * 95)
    runtime.reserve(1, 8)
    wide = Rows(key=1, tokens=[0] * 3, parents=[-1] * 3, asked=[2])
    runtime.extend([wide])  # three guesses for the last position fit
    runtime.keep(1, [2])
    runtime.reserve(1, 1)
    with pytest.raises(ContractError, match="position 96; the context ends at 95"):
        runtime.extend([chain_rows(1, [0])])
    with pytest.raises(ContractError, match="97 tokens"):
        runtime.open(2, [0] * 97)


def test_without_reuse_every_token_is_computed() -> None:
    _, decoder = make(32, 4)
    runtime = over(decoder, reuse=False)
    for key in (1, 2):
        read(runtime, key, [0, 1, 2, 3, 4, 0])
    assert decoder.n_rows_computed == 12
    runtime.shutdown()
    assert runtime.stats().n_cached == 0
