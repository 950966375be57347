"""Equal texts count as equal, noise counts as a tie, and nothing else does."""

import math
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace

import pytest
import torch

from outpace.core.draft import Ask, Draft, Seen
from outpace.core.sampling import Sampling
from outpace.core.score import Rows, Runtime, Scores
from outpace.drafters.lookup import LookupDrafter
from outpace.drafters.none import NoDrafter
from outpace.evaluate.exactness import (
    Arm,
    Case,
    ChainsOnly,
    Outcome,
    Step,
    Text,
    first_difference,
    judge,
    run_arm,
)
from outpace.runtimes.native.runtime import NativeRuntime
from outpace.runtimes.native.table import TableDecoder
from outpace.runtimes.toy import TableRuntime, random_table

VOCAB = 6
COLD = Sampling(max_tokens=40)
WARM = Sampling(max_tokens=40, temperature=0.8, seed=3)
TABLE = random_table(VOCAB, seed=5, memory=3)


class Shaped:
    """A runtime whose logits move by up to `noise` with the rows in the pass, as real ones do."""

    def __init__(self, inner: Runtime, noise: float) -> None:
        self.traits = replace(inner.traits, row_invariant=False)
        self.open, self.reserve = inner.open, inner.reserve
        self.keep, self.close = inner.keep, inner.close
        self._inner, self._noise = inner, noise

    def extend(self, batch: Seq[Rows]) -> list[Scores]:
        phase = sum(len(rows.tokens) for rows in batch)
        bend_V = self._noise * torch.cos(torch.arange(VOCAB, dtype=torch.float64) * phase)
        plain = self._inner.extend([replace(rows, logits=True) for rows in batch])
        return [
            Scores() if s.logits_AV is None else Scores(logits_AV=s.logits_AV + bend_V)
            for s in plain
        ]


def toy() -> TableRuntime:
    return TableRuntime(TABLE, vocab_size=VOCAB)


def paged() -> NativeRuntime:
    """Small pages: the prompts of later arms are known beginnings."""
    return NativeRuntime(
        TableDecoder(TABLE, n_pages=400, page_size=2), vocab_size=VOCAB, context_tokens=512,
        eos_ids=frozenset(), digest="table",
    )  # fmt: skip


def cases(sampling: Sampling) -> list[Case]:
    return [
        Case(name=str(first), prompt=(first, 1, 2, first), sampling=sampling)
        for first in range(VOCAB)
    ]


def text(*tokens: int) -> Text:
    """A text as plain decoding of a prompt of four tokens would have made it."""
    ends = range(4, 4 + len(tokens))
    begins = [0, *ends[:-1]]
    steps = [
        Step(begin=begin, end=end, n_rows=end - begin, n_drafted=0, n_kept=0)
        for begin, end in zip(begins, ends, strict=True)
    ]
    return Text(tokens=tokens, steps=tuple(steps))


def compare(runtime: Runtime, sampling: Sampling, *, trees: bool, n_streams: int) -> Outcome:
    arm = Arm(drafter="none", temperature=sampling.temperature, depth=0, trees=False)
    _, plain = run_arm(runtime, NoDrafter(), arm, cases(sampling), None)
    arm = replace(arm, drafter="lookup", depth=4, trees=trees)
    outcome, texts = run_arm(
        runtime, LookupDrafter(), arm, cases(sampling), plain, n_streams=n_streams
    )
    assert outcome.n_texts == len(texts) == VOCAB
    return outcome


@pytest.mark.parametrize("sampling", [COLD, WARM])
@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("n_streams", [1, 4])
def test_an_exact_runtime_gives_the_same_texts(
    sampling: Sampling, trees: bool, n_streams: int
) -> None:
    runtime = toy()
    outcome = compare(runtime, sampling, trees=trees, n_streams=n_streams)
    assert outcome.n_same == VOCAB
    assert outcome.n_tokens == 40 * VOCAB
    assert outcome.n_kept > 0
    assert outcome.n_rounds == outcome.n_tokens - outcome.n_kept  # prompts took no extra pass
    runtime.check_integrity()


@pytest.mark.parametrize("sampling", [COLD, WARM])
@pytest.mark.parametrize("make", [toy, paged])
def test_what_the_shape_of_a_pass_explains_is_a_tie(
    sampling: Sampling, make: Callable[[], Runtime]
) -> None:
    outcome = compare(Shaped(make(), 0.3), sampling, trees=True, n_streams=1)
    assert outcome.differences
    assert outcome.count("tie") == len(outcome.differences)
    assert all(abs(d.margin) <= d.noise for d in outcome.differences)


def test_what_noise_does_not_explain_is_a_mismatch() -> None:
    for runtime in (toy(), Shaped(toy(), 1e-9)):
        (case, *_) = cases(COLD)
        best = int(TABLE(case.prompt).argmax())
        found = judge(runtime, case, text(best, 0), text((best + 1) % VOCAB, 0))
        assert found is not None
        assert found.verdict == "mismatch"
        assert found.margin > 0
        assert (found.at, found.plain_token) == (0, best)


def test_a_row_invariant_runtime_is_granted_no_ties() -> None:
    runtime = Shaped(toy(), 10.0)
    runtime.traits = replace(runtime.traits, row_invariant=True)
    found = judge(runtime, cases(COLD)[0], text(0, 0), text(1, 0))
    assert found is not None
    assert found.verdict == "mismatch"


def test_a_text_that_ends_early_is_a_mismatch() -> None:
    runtime = toy()
    found = judge(runtime, cases(COLD)[0], text(1, 2, 3), text(1, 2))
    assert found is not None
    assert (found.verdict, found.at, found.other_token) == ("mismatch", 2, None)
    assert math.isinf(found.margin)


@pytest.mark.parametrize(
    ("a", "b", "at"), [([], [], None), ([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1], [], 0)]
)
def test_first_difference(a: list[int], b: list[int], at: int | None) -> None:
    assert first_difference(a, b) == at


def test_chains_only_asks_for_chains() -> None:
    asked: list[bool] = []

    class Recorder(NoDrafter):
        def propose(self, asks: Seq[Ask]) -> list[Draft]:
            asked.extend(ask.trees for ask in asks)
            return super().propose(asks)

        def observe(self, seen: Seq[Seen]) -> None: ...

    for trees in (False, True):
        arm = Arm(drafter="x", temperature=0, depth=3, trees=trees)
        drafter = Recorder()
        run_arm(toy(), drafter, arm, cases(COLD)[:1], None)
        assert set(asked) == {trees}
        asked.clear()
    assert ChainsOnly(NoDrafter()).name == "none"
