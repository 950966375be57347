"""A transformers model behind the five verbs says what a fresh prefill of the same text says."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from outpace.core.score import Rows
from outpace.errors import (
    CapacityError,
    ContractError,
)
from outpace.runtimes.transformers import TransformersRuntime, lowest_argmax
from runtimes import tiny

TOLERANCE = 2e-4  # float32 through four layers of large random weights


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Matrices this small only lose by a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def fresh(model: Any, text: list[int]) -> Tensor:
    """Logits [V] after `text`, without any cache: the truth."""
    with torch.no_grad():
        logits: Tensor = model(input_ids=torch.tensor([text]), use_cache=False).logits[0, -1]
    return logits.float()


def step(runtime: TransformersRuntime, key: int, tokens: list[int], parents: list[int]) -> Tensor:
    """One pass over rows of one sequence; logits of all of them."""
    runtime.reserve(key, len(tokens))
    rows = Rows(key=key, tokens=tokens, parents=parents, asked=range(len(tokens)))
    logits = runtime.extend([rows])[0].logits_AV
    assert logits is not None
    assert logits.dtype == torch.float32
    return logits


def path_to(parents: list[int], row: int) -> list[int]:
    path = []
    while row != -1:
        path.append(row)
        row = parents[row]
    return path[::-1]


@pytest.mark.parametrize("name", tiny.NAMES)
def test_any_interleaving_equals_a_fresh_prefill(name: str) -> None:
    """Chunks, chains, trees and rollbacks at random, well past the sliding window."""
    model = tiny.model(name)
    runtime = TransformersRuntime.wrap(model)
    rng = random.Random(name)
    texts: dict[int, list[int]] = {}
    worst = 0.0
    for _ in range(40):
        key = rng.randrange(3)
        if key not in texts:
            assert runtime.open(key, [1, 2]) == 0
            texts[key] = []
        if len(texts[key]) > 60 or rng.random() < 0.06:
            runtime.close(key)
            del texts[key]
            continue
        n = rng.randint(1, 7)
        tokens = [rng.randrange(tiny.VOCAB) for _ in range(n)]
        tree = runtime.traits.trees and rng.random() < 0.6
        parents = [rng.randrange(-1, i) if tree else i - 1 for i in range(n)]
        logits = step(runtime, key, tokens, parents)
        for row in range(n):
            text = texts[key] + [tokens[i] for i in path_to(parents, row)]
            worst = max(worst, float((logits[row] - fresh(model, text)).abs().max()))
        path = path_to(parents, rng.randrange(-1, n))
        runtime.keep(key, path)
        texts[key] += [tokens[i] for i in path]
    for key in range(3):
        runtime.close(key)
    runtime.check_integrity()
    assert worst < TOLERANCE, f"{name}: {worst}"


@pytest.mark.parametrize(
    ("name", "trees"), [("llama", True), ("gemma3", True), ("mistral", True), ("falcon", False)]
)
def test_trees_are_claimed_only_where_proved(name: str, trees: bool) -> None:
    assert TransformersRuntime.wrap(tiny.model(name)).traits.trees == trees


@pytest.mark.parametrize("name", ["gemma3", "mistral"])
def test_a_rollback_across_the_window_loses_nothing(name: str) -> None:
    """Guesses push tokens out of the window; after they are rejected those must be back."""
    model = tiny.model(name)
    runtime = TransformersRuntime.wrap(model)
    text = [(5 * i) % tiny.VOCAB for i in range(2 * tiny.WINDOW)]
    runtime.open(0, text)
    step(runtime, 0, text, list(range(-1, len(text) - 1)))
    runtime.keep(0, range(len(text)))
    step(runtime, 0, [3] * tiny.WINDOW, list(range(-1, tiny.WINDOW - 1)))
    runtime.keep(0, ())
    logits = step(runtime, 0, [9], [-1])[0]
    assert float((logits - fresh(model, [*text, 9])).abs().max()) < TOLERANCE


def test_only_asked_rows_are_answered_and_best_is_their_argmax() -> None:
    runtime = TransformersRuntime.wrap(tiny.model("llama"))
    runtime.open(0, [4])
    runtime.reserve(0, 8)
    text = [4, 8, 15, 16]
    chain = range(-1, 3)
    scores = runtime.extend([Rows(key=0, tokens=text, parents=chain, asked=())])[0]
    assert (scores.logits_AV, scores.best_A) == (None, None)
    runtime.keep(0, ())
    runtime.reserve(0, 8)
    full = runtime.extend([Rows(key=0, tokens=text, parents=chain, asked=(3, 1))])[0].logits_AV
    assert full is not None
    runtime.keep(0, ())
    runtime.reserve(0, 8)
    rows = Rows(key=0, tokens=text, parents=chain, asked=(3, 1), logits=False)
    scores = runtime.extend([rows])[0]
    assert scores.logits_AV is None
    assert scores.best_A == full.argmax(-1).tolist()
    assert float((full[1] - fresh(tiny.model("llama"), text[:2])).abs().max()) < TOLERANCE
    full[0, 0] = 0.0  # an ordinary tensor: in-place changes are allowed


def test_the_lowest_id_wins_a_tie_and_nan_does_not_hide() -> None:
    nan = float("nan")
    logits = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [5.0, nan, 9.0]])
    assert lowest_argmax(logits) == [1, 0, 1]


def test_a_failed_pass_changes_nothing() -> None:
    model = tiny.build(tiny.config("llama"))
    runtime = TransformersRuntime.wrap(model)
    runtime.open(0, [1])
    step(runtime, 0, [5, 6, 7], [-1, 0, 1])
    runtime.keep(0, range(3))
    last = model.model.layers[2]
    handle = last.register_forward_hook(lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    runtime.reserve(0, 2)
    with pytest.raises(KeyboardInterrupt):
        runtime.extend([Rows(key=0, tokens=[8, 9], parents=[-1, 0], asked=[1])])
    handle.remove()
    logits = step(runtime, 0, [10], [-1])[0]
    assert float((logits - fresh(model, [5, 6, 7, 10])).abs().max()) < TOLERANCE


def test_a_byte_budget_is_kept_and_freed() -> None:
    probe = TransformersRuntime.wrap(tiny.model("llama"))
    per_token = 4 * 2 * 2 * 8 * 4  # layers, keys and values, heads, head size, float32
    runtime = TransformersRuntime.wrap(tiny.model("llama"), cache_bytes=2 * 256 * per_token)
    for key in (0, 1):
        runtime.open(key, [1])
        runtime.reserve(key, 50)
    runtime.open(2, [1])
    with pytest.raises(CapacityError, match=r"\d+ bytes of cache, \d+ are allowed"):
        runtime.reserve(2, 1)
    runtime.close(0)
    runtime.reserve(2, 1)
    probe.open(0, [1])
    probe.reserve(0, 10**9)  # no budget, no refusal


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"key": 9, "tokens": [1], "parents": [-1]}, "not open"),
        ({"key": 0, "tokens": [1] * 9, "parents": list(range(-1, 8))}, "9 rows, 8 were reserved"),
        ({"key": 0, "tokens": [], "parents": []}, "0 rows"),
        ({"key": 0, "tokens": [1, 2], "parents": [-1, 1]}, "parents"),
    ],
)
def test_broken_rows_are_a_contract_error(rows: dict[str, Any], words: str) -> None:
    runtime = TransformersRuntime.wrap(tiny.model("llama"))
    runtime.open(0, [1])
    runtime.reserve(0, 8)
    with pytest.raises(ContractError, match=words):
        runtime.extend([Rows(**rows, asked=())])


def test_rows_end_where_the_context_does() -> None:
    runtime = TransformersRuntime.wrap(tiny.model("llama"))
    n = runtime.traits.context_tokens
    assert n == tiny.SIZES["max_position_embeddings"]
    runtime.open(0, [3] * n)
    step(runtime, 0, [3] * n, list(range(-1, n - 1)))
    runtime.keep(0, range(n))
    with pytest.raises(ContractError, match="position 96; the context has 96"):
        step(runtime, 0, [3], [-1])
    with pytest.raises(ContractError, match="97 tokens"):
        runtime.open(1, [3] * (n + 1))
