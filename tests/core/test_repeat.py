"""One round over a batch: what each sequence gets, and who is told."""

from collections.abc import Sequence as Seq

import pytest
import torch

from outpace.core.draft import NO_GUESS, Ask, Draft, Seen, chain
from outpace.core.repeat import Round, Turn, one_round
from outpace.core.sampling import Sampling
from outpace.core.sequence import Sequence
from outpace.drafters.none import NoDrafter
from outpace.errors import CapacityError, ContractError
from outpace.runtimes.toy import TableRuntime, random_table

V = 6


class Fixed(NoDrafter):
    """Answers every ask with the same draft, and remembers what it was told."""

    name = "fixed"

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.asks: list[Ask] = []
        self.seen: list[Seen] = []

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        self.asks += asks
        return [self.draft] * len(asks)

    def observe(self, seen: Seq[Seen]) -> None:
        self.seen += seen


def runtime(**limits: int) -> TableRuntime:
    return TableRuntime(random_table(V, seed=1), vocab_size=V, **limits)  # type: ignore[arg-type]


def begin(on: TableRuntime, sampling: Sampling, key: int = 0, n_prompt: int = 3) -> Sequence:
    s = Sequence(key=key, prompt=[1] * n_prompt, sampling=sampling, seed=key, traits=on.traits)
    s.n_computed = on.open(key, s.tokens)
    return s


def turn(s: Sequence, *, catch_up: int | None = None, depth: int = 4) -> Turn:
    n = s.behind if catch_up is None else catch_up
    return Turn(sequence=s, catch_up=n, max_nodes=8, max_depth=depth)


def run(on: TableRuntime, drafter: NoDrafter, *turns: Turn) -> list[Round]:
    return one_round(on, drafter, turns, lambda: 0.0)


def test_a_request_that_turns_out_impossible_leaves_the_others_alone() -> None:
    def others(with_bad: bool) -> list[list[int]]:
        on = runtime()
        good = [begin(on, Sampling(max_tokens=6), key) for key in (0, 1)]
        bad = begin(on, Sampling(banned=tuple((v,) for v in range(V))), 2)
        batch = [good[0], *([bad] if with_bad else []), good[1]]
        while open_ones := [s for s in batch if s.finish is None]:
            run(on, NoDrafter(), *(turn(s) for s in open_ones))
        if with_bad:
            assert bad.finish == "error"
            assert bad.output == []
            assert "loosen" in str(bad.error)
        return [s.output for s in good]

    assert others(with_bad=True) == others(with_bad=False)


def test_an_error_comes_after_the_tokens_that_led_to_it() -> None:
    on = runtime()
    s = begin(on, Sampling(forced=(2, 4), banned=tuple((4, v) for v in range(V))))
    (done,) = run(on, Fixed(chain((2, 4, 1))), turn(s))
    assert done.emitted == (2, 4)
    assert done.next_token is None
    assert (s.output, s.finish) == ([2, 4], "error")


def test_a_rejected_guess_that_leads_nowhere_is_no_error() -> None:
    on = runtime()
    s = begin(on, Sampling(forced=(2,), banned=tuple((4, v) for v in range(V))))
    (done,) = run(on, Fixed(chain((4, 1))), turn(s))
    assert (done.emitted, s.finish) == ((2,), None)


def test_a_sequence_that_is_behind_reads_and_says_nothing() -> None:
    on, drafter = runtime(), Fixed(chain((1,)))
    s = begin(on, Sampling(), n_prompt=5)
    (done,) = run(on, drafter, turn(s, catch_up=3))
    assert (done.emitted, done.verdict, done.n_rows, s.behind) == ((), None, 3, 2)
    assert drafter.asks == []
    assert len(run(on, drafter, turn(s))[0].emitted) >= 1


def test_the_drafter_is_told_what_was_committed_at_depth_0_too() -> None:
    on, drafter = runtime(), Fixed(NO_GUESS)
    s = begin(on, Sampling())
    for depth in (0, 3):
        start = len(s.tokens)
        (done,) = run(on, drafter, turn(s, depth=depth))
        assert (drafter.seen[-1].start, drafter.seen[-1].tokens) == (start, done.emitted)
    assert [ask.max_depth for ask in drafter.asks] == [3]


@pytest.mark.parametrize(("max_tokens", "depth"), [(1, None), (2, 1), (3, 2), (9, 4)])
def test_no_more_is_asked_for_than_there_is_room(max_tokens: int, depth: int | None) -> None:
    on, drafter = runtime(), Fixed(NO_GUESS)
    run(on, drafter, turn(begin(on, Sampling(max_tokens=max_tokens))))
    assert [ask.max_depth for ask in drafter.asks] == ([] if depth is None else [depth])


@pytest.mark.parametrize(
    ("draft", "words"),
    [
        (chain((1,) * 5), "5 guesses, 5 deep; asked for at most 8, 4 deep"),
        (chain((V,)), rf"guessed ids \[{V}\]"),
        (chain((-1,)), r"guessed ids \[-1\]"),
        (chain((1,), laws_LV=torch.ones(1, 1)), "laws over 1 tokens"),
    ],
)
def test_a_draft_that_breaks_the_contract_is_refused(draft: Draft, words: str) -> None:
    on = runtime()
    with pytest.raises(ContractError, match=words):
        run(on, Fixed(draft), turn(begin(on, Sampling(temperature=1))))


def test_a_drawn_draft_is_refused_where_the_text_must_be_the_same() -> None:
    on = runtime()
    draft = chain((1,), laws_LV=torch.full((1, V), 1 / V))
    with pytest.raises(ContractError, match="drew freely"):
        run(on, Fixed(draft), turn(begin(on, Sampling(temperature=1, seed=1))))


def test_a_full_runtime_changes_nothing() -> None:
    on = runtime(max_tokens=5)
    s = begin(on, Sampling(), n_prompt=3)
    with pytest.raises(CapacityError):
        run(on, Fixed(chain((1, 2, 3))), turn(s))
    assert (s.output, s.behind, s.finish) == ([], 3, None)
    assert len(run(on, NoDrafter(), turn(s))[0].emitted) == 1


def test_acceptance_is_flat_along_the_text() -> None:
    """A missing row after full acceptance shows as guesses that fade; the target never errs."""
    on = runtime(context_tokens=2000)
    table = random_table(V, seed=1)

    class Self(NoDrafter):
        def propose(self, asks: Seq[Ask]) -> list[Draft]:
            drafts = []
            for ask in asks:
                text = tuple(ask.tokens)
                for _ in range(ask.max_depth):
                    text += (int(table(text).argmax()),)
                drafts.append(chain(text[len(ask.tokens) :]))
            return drafts

    s = begin(on, Sampling(max_tokens=500))
    rounds: list[Round] = []
    while s.finish is None:
        rounds += run(on, Self(), turn(s))
    assert all(r.n_kept == len(r.draft) for r in rounds)
    assert len(rounds) == 100
