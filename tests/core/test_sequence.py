"""Where a text ends, and what a request must bring."""

import pytest

from laws.world import Grammar, Scan
from outpace.core.sampling import Sampling
from outpace.core.score import Traits
from outpace.core.sequence import Finish, Sequence
from outpace.errors import PromptTooLong, RequestError

TRAITS = Traits(
    name="t", vocab_size=10, context_tokens=8, eos_ids=frozenset({0, 9}), trees=True,
    row_invariant=True, digest="",
)  # fmt: skip
SPELLED = [f"<{i}>" for i in range(10)]


def sequence(sampling: Sampling, prompt: tuple[int, ...] = (1, 2)) -> Sequence:
    return Sequence(
        key=0, prompt=prompt, sampling=sampling, seed=1, traits=TRAITS,
        stops=Scan(SPELLED, sampling.stop) if sampling.stop else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sampling", "tokens", "kept", "finish"),
    [
        (Sampling(), (3, 0, 4), 2, "eos"),
        (Sampling(), (3, 9, 4), 2, "eos"),
        (Sampling(ignore_eos=True), (3, 0, 4), 3, None),
        (Sampling(stop_token_ids=frozenset({4})), (3, 4, 5), 2, "stop_token"),
        (Sampling(stop_token_ids=frozenset({0})), (3, 0, 5), 2, "eos"),
        (Sampling(stop_token_ids=frozenset({0}), ignore_eos=True), (3, 0, 5), 2, "stop_token"),
        (Sampling(min_tokens=3), (3, 0, 4, 0, 5), 4, "eos"),
        (Sampling(stop=("<4><5>",)), (4, 4, 5, 6), 3, "stop_string"),
        (Sampling(stop=("<4>",), min_tokens=3), (4, 4, 5, 6), 1, "stop_string"),
        (Sampling(stop=("<0>",)), (3, 0, 5), 2, "eos"),
        (Sampling(max_tokens=2), (3, 4, 5), 2, "length"),
        (Sampling(max_tokens=2), (3, 0, 5), 2, "eos"),
        (Sampling(max_tokens=2, stop=("<4>",)), (3, 4, 5), 2, "stop_string"),
        (Sampling(), (3, 4, 5, 6, 7, 8), 6, "context"),
        (Sampling(max_tokens=6), (3, 4, 5, 6, 7, 8), 6, "length"),
    ],
)
def test_the_earliest_end_wins_in_one_block_or_in_many(
    sampling: Sampling, tokens: tuple[int, ...], kept: int, finish: Finish | None
) -> None:
    block = sequence(sampling)
    assert block.commit(tokens) == list(tokens[:kept])
    assert (block.output, block.finish) == (list(tokens[:kept]), finish)
    one_by_one = sequence(sampling)
    for token in tokens:
        if one_by_one.finish is None:
            one_by_one.commit([token])
    assert (one_by_one.output, one_by_one.finish) == (block.output, block.finish)


def test_room_is_what_the_context_and_the_request_leave() -> None:
    assert sequence(Sampling()).room == 6
    assert sequence(Sampling(max_tokens=4)).room == 4
    s = sequence(Sampling(max_tokens=40))
    s.commit([3, 4])
    assert s.room == 4
    assert s.behind == 4


@pytest.mark.parametrize(
    ("prompt", "error", "words"),
    [
        ((), RequestError, "empty"),
        ((1, 10), RequestError, r"\[10\].*0 to 9"),
        ((1, -1), RequestError, r"\[-1\]"),
        (tuple([1] * 8), PromptTooLong, "shorten the prompt by 1 tokens"),
    ],
)
def test_a_prompt_that_cannot_be_continued_is_refused(
    prompt: tuple[int, ...], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        sequence(Sampling(), prompt)


def test_the_longest_prompt_leaves_room_for_one_token() -> None:
    s = sequence(Sampling(), (1,) * 7)
    s.commit([3])
    assert s.finish == "context"


@pytest.mark.parametrize(
    ("sampling", "style"),
    [
        (Sampling(), "chosen"),
        (Sampling(rule="token"), "chosen"),
        (Sampling(temperature=1), "drawn"),
        (Sampling(temperature=1, seed=1), "coupled"),
        (Sampling(temperature=1, rule="match"), "coupled"),
        (Sampling(temperature=1, seed=1, rule="block"), "drawn"),
    ],
)
def test_guesses_are_asked_for_in_the_style_the_rule_can_use(
    sampling: Sampling, style: str
) -> None:
    assert sequence(sampling).style == style


def test_the_requests_own_seed_comes_first() -> None:
    assert sequence(Sampling(seed=5)).seed == 5
    assert sequence(Sampling()).seed == 1


def test_a_mask_is_told_of_every_token_that_is_committed_and_of_no_other() -> None:
    mask = Grammar(lambda _: range(10), 10)
    text = Sequence(
        key=0, prompt=(1, 2), sampling=Sampling(), seed=1, traits=TRAITS, mask=mask
    )  # fmt: skip
    text.commit([3, 4])
    text.commit([5, 0, 6])
    assert mask.output == text.output == [3, 4, 5, 0]
