"""The real coins on the real rounds, against a law known in advance: 4 x 25,000 tokens.

The model remembers two tokens of three, so there are nine contexts of three cells, and given its
context each token is an independent draw. Seeds are fixed: the test is deterministic, and a
correct build fails it for one choice of seeds in a thousand.
"""

import math

import pytest
import torch
from scipy.stats import chi2

from laws.guessers import CHAIN2, ELBOW, Guesser, Pick
from laws.mutants import MUTANTS
from outpace.core.repeat import Turn, one_round
from outpace.core.sampling import Rule, Sampling
from outpace.core.sequence import Sequence
from outpace.runtimes.toy import TableRuntime, random_table

ALPHA = 1e-3
V, N_TEXTS, N_TOKENS = 3, 125, 200
TABLE = random_table(V, seed=8, sharpness=1.0)
LAWS = {(a, b): TABLE((a, b)).softmax(0).tolist() for a in range(V) for b in range(V)}
WAYS: dict[str, tuple[Rule, tuple[int, ...], Pick]] = {
    "match": ("match", CHAIN2, "coupled"),
    "token": ("token", CHAIN2, "without"),
    "block": ("block", CHAIN2, "without"),
    "traversal": ("traversal", ELBOW, "without"),
}

Counts = dict[tuple[int, int], list[int]]


def counted(way: str, n_texts: int = N_TEXTS) -> Counts:
    """How often each token followed each pair of tokens."""
    rule, shape, pick = WAYS[way]
    other = random_table(V, seed=9, sharpness=1.0)
    laws = {ab: ((TABLE(ab).softmax(0) + other(ab).softmax(0)) / 2) for ab in LAWS}
    drafter = Guesser(lambda text: laws[((0, 1, *text)[-2], (0, 1, *text)[-1])], shape, pick)
    sampling = Sampling(temperature=1.0, rule=rule, max_tokens=N_TOKENS)
    runtime = TableRuntime(TABLE, vocab_size=V)
    counts: Counts = {ab: [0] * V for ab in LAWS}
    for key in range(n_texts):
        s = Sequence(
            key=key, prompt=(0, 1), sampling=sampling, seed=1000 + key, traits=runtime.traits
        )
        s.n_computed = runtime.open(key, s.tokens)
        while s.finish is None:
            turn = Turn(sequence=s, catch_up=s.behind, max_nodes=3, max_depth=2)
            one_round(runtime, drafter, [turn], lambda: 0.0)
        runtime.close(key)
        for a, b, c in zip(s.tokens, s.tokens[1:], s.tokens[2:], strict=False):
            counts[a, b][c] += 1
    return counts


def g_test(counts: Counts) -> float:
    """The p-value of the likelihood-ratio test of the counts against the known laws."""
    g = sum(
        2 * n * math.log(n / (sum(found) * LAWS[context][token]))
        for context, found in counts.items()
        for token, n in enumerate(found)
        if n
    )
    return float(chi2.sf(g, len(LAWS) * (V - 1)))


def tv_bound(found: list[int], law: list[float], delta: float = 1e-3) -> float:
    """With confidence 1 - delta, the true law is no further from `law` than this."""
    n = sum(found)
    near = sum(abs(k / n - p) for k, p in zip(found, law, strict=True)) / 2
    return near + math.sqrt((len(law) * math.log(2) + math.log(1 / delta)) / (2 * n))


@pytest.mark.parametrize("way", WAYS)
def test_the_real_coins_draw_from_the_known_law(way: str) -> None:
    counts = counted(way)
    assert sum(map(sum, counts.values())) == N_TEXTS * N_TOKENS
    assert g_test(counts) > ALPHA
    busiest = max(counts, key=lambda context: sum(counts[context]))
    assert tv_bound(counts[busiest], LAWS[busiest]) < 0.05


def test_a_biased_round_fails_the_same_test(monkeypatch: pytest.MonkeyPatch) -> None:
    (mutant,) = (m for m in MUTANTS if m.name == "residual without q")
    mutant.plant(monkeypatch)
    assert g_test(counted("token", 75)) < ALPHA


def test_the_known_laws_are_laws() -> None:
    assert torch.tensor(list(LAWS.values())).sum(1).allclose(torch.ones(V * V))
