"""Synthetic drafters: acceptance as wished, and only for those who may peek."""

import pytest

from outpace.core.repeat import Turn, one_round
from outpace.core.sampling import Sampling
from outpace.core.sequence import Sequence
from outpace.drafters.registry import Context, make
from outpace.errors import ConfigError
from outpace.runtimes.toy import TableRuntime, random_table

V = 13
TABLE = random_table(V, seed=2, memory=3)
CONTEXT = Context(peek=lambda ask, path: TABLE((*ask.tokens, *path)))


def kept_share(kind: str, sampling: Sampling) -> float:
    """Share of positions reached by a guess where the guess was kept."""
    runtime = TableRuntime(TABLE, vocab_size=V)
    drafter = make(f"synthetic:{kind}", CONTEXT)
    sequence = Sequence(
        key=0, prompt=[1, 2, 3], sampling=sampling, seed=5, traits=runtime.traits
    )  # fmt: skip
    runtime.open(0, sequence.tokens)
    kept = reached = 0
    while sequence.finish is None:
        turn = Turn(sequence=sequence, catch_up=sequence.behind, max_nodes=4, max_depth=4)
        (done,) = one_round(runtime, drafter, [turn], clock=lambda: 0.0)
        kept += done.n_kept
        reached += min(done.n_kept + 1, len(done.draft))
    return kept / reached


@pytest.mark.parametrize(
    "how", [{"temperature": 0.0}, {"temperature": 1.0, "seed": 3}, {"temperature": 1.0}]
)
@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        ("right", 1.0, 1.0),
        ("wrong", 0.0, 0.03),
        ("alpha=0.7", 0.62, 0.78),
        ("flip=8", 0.4, 0.6),
        ("adversarial=40", 0.05, 0.5),
    ],
)
def test_guesses_are_kept_as_often_as_wished(
    kind: str, least: float, most: float, how: dict[str, float]
) -> None:
    seed = int(how["seed"]) if "seed" in how else None
    sampling = Sampling(temperature=how["temperature"], seed=seed, max_tokens=400)
    assert least <= kept_share(kind, sampling) <= most


def test_they_are_refused_where_nobody_may_peek() -> None:
    with pytest.raises(ConfigError, match="tests and evaluations"):
        make("synthetic:right")


@pytest.mark.parametrize("kind", ["", "alpha", "alpha=2", "flip=0", "flip=x", "honest", "right=3"])
def test_kinds_that_mean_nothing_are_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match="there are right"):
        make(f"synthetic:{kind}", CONTEXT)


def test_it_says_what_it_is() -> None:
    drafter = make("synthetic:alpha=0.5", CONTEXT)
    assert drafter.name == "synthetic:alpha=0.5"
