"""One suite for every runtime there is: what a round relies on, whatever computes it.

To put a runtime on trial, add a line to `TRIALS`: how to make a small instance (random weights
will do), and how far its logits may be from the truth. The rest follows from its own `Traits`:
trees are tried where it claims them, bit-equality where it claims `row_invariant`.

`make(room)` gets how many tokens the instance should hold in all (roughly; whole pages are fine),
None for plenty. `truth(text)` gives logits [V] after a text by other means; without one, a new
instance reads the text in a single pass.
"""

import random
from collections.abc import Iterator
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import Tensor

from conformance.walk import Reader, Trial, chain, logits_of, path_to, words
from outpace.core.score import Rows, Runtime
from outpace.errors import CapacityError, ContractError, OutpaceError
from outpace.runtimes.toy import TableRuntime, random_table

if TYPE_CHECKING:
    from outpace.runtimes.native.kernels import ModelSpec

TABLE = random_table(23, seed=4, memory=3)


def toy(room: int | None) -> Runtime:
    return TableRuntime(TABLE, vocab_size=23, context_tokens=80, max_tokens=room)


def toy_of_chains(room: int | None) -> Runtime:
    return TableRuntime(TABLE, vocab_size=23, context_tokens=80, trees=False, max_tokens=room)


def tiny_llama(room: int | None) -> Runtime:
    from outpace.runtimes.transformers import TransformersRuntime
    from runtimes import tiny

    per_token = 4 * 2 * 2 * 8 * 4  # layers, keys and values, heads, head size, float32
    cache_bytes = None if room is None else room * per_token
    return TransformersRuntime.wrap(tiny.model("llama"), cache_bytes=cache_bytes)


def uncached_llama(text: tuple[int, ...]) -> Tensor:
    from runtimes import tiny

    with torch.no_grad():
        model = tiny.model("llama")
        logits: Tensor = model(input_ids=torch.tensor([text]), use_cache=False).logits[0, -1]
    return logits


def native_table(room: int | None) -> Runtime:
    from outpace.runtimes.native.runtime import NativeRuntime
    from outpace.runtimes.native.table import TableDecoder

    n_pages = -(-(2000 if room is None else room) // 8)
    decoder = TableDecoder(TABLE, n_pages=n_pages, page_size=8)
    return NativeRuntime(
        decoder, vocab_size=23, context_tokens=80, eos_ids=frozenset(), digest="table"
    )


def native_loaded(backend: str, weights: str, room: int | None) -> Runtime:
    from outpace.runtimes.native.runtime import NativeRuntime
    from runtimes.native.files import load_llama

    n_pages = -(-(2000 if room is None else room) // 16)
    loaded = load_llama(backend, weights, n_pages=n_pages, page_size=16)
    return NativeRuntime(
        loaded.decoder,
        vocab_size=loaded.spec.vocab_size,
        context_tokens=loaded.spec.context_tokens,
        eos_ids=loaded.spec.eos_ids,
        digest=loaded.identity,
    )


def native_kernels(name: str, room: int | None) -> Runtime:
    from outpace.runtimes.native.kernels import KernelDecoder, why_missing
    from outpace.runtimes.native.runtime import NativeRuntime

    if why_missing() is not None:
        pytest.skip(str(why_missing()))
    spec = kernel_spec(name)
    n_pages = -(-(2000 if room is None else room) // 16)
    decoder = KernelDecoder(spec, n_pages=n_pages, page_size=16, n_threads=1)
    return NativeRuntime(
        decoder, vocab_size=spec.vocab, context_tokens=80, eos_ids=frozenset(), digest=name
    )


@cache
def kernel_spec(name: str) -> "ModelSpec":
    from runtimes.native.kernels import tiny

    return tiny.build(tiny.ALL[name])


def expected_of(name: str, text: tuple[int, ...]) -> Tensor:
    from runtimes.native.kernels import expected

    parents = np.arange(-1, len(text) - 1)
    return torch.tensor(expected.logits(kernel_spec(name), np.array(text), parents)[-1])


TRIALS = {
    "toy": Trial(make=toy, tolerance=0.0, truth=TABLE),
    "toy, chains only": Trial(make=toy_of_chains, tolerance=0.0, truth=TABLE),
    "native, a table": Trial(make=native_table, tolerance=0.0, truth=TABLE),
    "native, torch fp32": Trial(
        make=partial(native_loaded, "torch", "fp32"), tolerance=1e-4, truth=uncached_llama
    ),
    "native, torch q8": Trial(make=partial(native_loaded, "torch", "q8"), tolerance=0.0),
    # Against float64; the kernels keep keys and values in half precision.
    "native, compiled llama": Trial(
        make=partial(native_kernels, "llama"), tolerance=1e-2, truth=partial(expected_of, "llama")
    ),
    # Beside itself in one pass: nothing the runtime does may cost a bit.
    "native, compiled gemma3": Trial(make=partial(native_kernels, "gemma3"), tolerance=0.0),
    "transformers": Trial(make=tiny_llama, tolerance=1e-4, truth=uncached_llama),
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Matrices this small only lose by a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=TRIALS)
def trial(request: pytest.FixtureRequest) -> Trial:
    return TRIALS[request.param]


def test_traits_can_be_relied_on(trial: Trial) -> None:
    traits = trial.make(None).traits
    assert traits.vocab_size > 1
    assert traits.context_tokens > 1
    assert all(0 <= index < traits.vocab_size for index in traits.eos_ids)
    assert traits.name
    assert traits.digest


def test_logits_are_the_models_own_in_fp32_or_wider(trial: Trial) -> None:
    reader = Reader(trial)
    v = reader.runtime.traits.vocab_size
    text = words(5, 1, v)
    assert reader.runtime.open(0, text) == 0
    logits_AV = reader.step(0, text, chain(5))
    assert logits_AV.shape == (5, v)
    assert logits_AV.dtype in (torch.float32, torch.float64)
    assert bool(logits_AV.isfinite().all())
    reader.check(logits_AV, [text[: n + 1] for n in range(5)])


def test_any_interleaving_of_the_verbs_equals_a_fresh_pass(trial: Trial) -> None:
    reader = Reader(trial)
    traits = reader.runtime.traits
    rng = random.Random(11)
    for turn in range(40):
        key = rng.randrange(3)
        if key not in reader.texts:
            reader.open(key, words(rng.randint(1, 6), turn, traits.vocab_size))
            continue
        text = reader.texts[key]
        if len(text) > 50 or rng.random() < 0.08:
            reader.runtime.close(key)
            del reader.texts[key]
            continue
        n = rng.randint(1, 6)
        tokens = [rng.randrange(traits.vocab_size) for _ in range(n)]
        tree = traits.trees and rng.random() < 0.6
        parents = [rng.randrange(-1, i) if tree else i - 1 for i in range(n)]
        logits = reader.step(key, tokens, parents)
        paths = [path_to(parents, row) for row in range(n)]
        reader.check(logits, [[*text, *(tokens[i] for i in path)] for path in paths])
        reader.keep(key, tokens, rng.choice([[], *paths]))


def test_a_prompt_may_come_in_chunks(trial: Trial) -> None:
    reader = Reader(trial)
    text = words(20, 2, reader.runtime.traits.vocab_size)
    reader.runtime.open(0, text)
    reader.texts[0] = []
    for start, end in ((0, 7), (7, 8), (8, 20)):
        logits = reader.step(0, text[start:end], chain(end - start))
        reader.check(logits[-1:], [text[:end]])
        reader.keep(0, text[start:end], range(end - start))


def test_every_row_of_a_tree_sees_its_ancestors_only(trial: Trial) -> None:
    reader = Reader(trial)
    traits = reader.runtime.traits
    if not traits.trees:
        pytest.skip(f"{traits.name} takes chains only, and says so")
    text = words(5, 3, traits.vocab_size)
    reader.open(0, text)
    parents = [-1, -1, 0, 0, 1, 2, 2, 4, 7]
    tokens = words(len(parents), 4, traits.vocab_size)
    logits = reader.step(0, tokens, parents)
    paths = [path_to(parents, row) for row in range(len(parents))]
    reader.check(logits, [[*text, *(tokens[i] for i in path)] for path in paths])
    reader.keep(0, tokens, paths[8])  # rows 1, 4, 7, 8: not the first ones
    reader.check(reader.step(0, tokens[:1], [-1]), [[*reader.texts[0], tokens[0]]])


def test_unasked_rows_are_not_answered_and_best_is_the_lowest_argmax(trial: Trial) -> None:
    reader = Reader(trial)
    runtime, text = reader.runtime, words(4, 5, reader.runtime.traits.vocab_size)
    reader.open(0, text)
    for asked in ((), (3,), (0, 2)):
        runtime.reserve(0, 4)
        scores = runtime.extend([Rows(key=0, tokens=text, parents=chain(4), asked=asked)])[0]
        runtime.keep(0, ())
        runtime.reserve(0, 4)
        rows = Rows(key=0, tokens=text, parents=chain(4), asked=asked, logits=False)
        best = runtime.extend([rows])[0]
        runtime.keep(0, ())
        if not asked:
            assert scores.logits_AV is None or len(scores.logits_AV) == 0
            assert not best.best_A
            continue
        logits = logits_of(scores)
        reader.check(logits, [[*text, *text[: row + 1]] for row in asked])
        found = best.best_A if best.best_A is not None else logits_of(best).argmax(-1)
        top = [int((row == row.max()).to(torch.uint8).argmax()) for row in logits]
        assert [int(index) for index in found] == top


def test_sequences_of_one_pass_do_not_touch_each_other(trial: Trial) -> None:
    reader = Reader(trial)
    v = reader.runtime.traits.vocab_size
    batch = []
    for key in range(3):
        reader.open(key, words(3 + key, 20 + key, v))
    new = {key: words(4 - key, 30 + key, v) for key in range(3)}
    batch = [reader.rows(key, new[key], chain(len(new[key]))) for key in range(3)]
    for key, scores in enumerate(reader.runtime.extend(batch)):
        texts = [[*reader.texts[key], *new[key][: n + 1]] for n in range(len(new[key]))]
        reader.check(logits_of(scores), texts)


def test_a_row_is_bit_equal_whatever_shares_its_pass(trial: Trial) -> None:
    """Only where `row_invariant` is claimed: the ground of seeded texts that never change."""
    reader = Reader(trial)
    traits = reader.runtime.traits
    if not traits.row_invariant:
        pytest.skip(f"{traits.name} does not claim it")
    text, last = words(40, 6, traits.vocab_size), words(1, 7, traits.vocab_size)
    reader.open(0, text)
    alone = reader.step(0, last, [-1])[0].clone()
    reader.runtime.keep(0, ())
    for n in (2, 3, 8, 17):
        more = [*last, *words(n - 1, n, traits.vocab_size)]
        shapes = [chain(n)] + ([[-1] * n] if traits.trees else [])
        for parents in shapes:
            assert torch.equal(reader.step(0, more, parents)[0], alone), f"{n} rows: {parents}"
            reader.runtime.keep(0, ())
    for key in (1, 2):
        reader.open(key, words(9 * key, 40 + key, traits.vocab_size))
    batch = [reader.rows(1, text[:5], chain(5)), reader.rows(0, last, [-1])]
    assert torch.equal(logits_of(reader.runtime.extend(batch)[1])[0], alone)
    for size in (1, 7, 39):  # the same text, read in other chunks
        other = Reader(trial)
        other.runtime.open(0, text)
        for start in range(0, 40, size):
            part = text[start : start + size]
            other.step(0, part, chain(len(part)))
            other.runtime.keep(0, range(len(part)))
        assert torch.equal(other.step(0, last, [-1])[0], alone), f"chunks of {size}"


def fill(runtime: Runtime, v: int) -> int:
    """Open sequences until one finds no room; its key."""
    for key in range(1, 200):
        runtime.open(key, words(30, 100 + key, v))
        try:
            runtime.reserve(key, 30)
        except CapacityError:
            return key
    pytest.fail("a runtime of 512 tokens took 6,000")


def test_a_full_runtime_says_so_changes_nothing_and_recovers(trial: Trial) -> None:
    reader = Reader(trial, room=512)
    runtime, v = reader.runtime, reader.runtime.traits.vocab_size
    reader.open(0, words(5, 8, v))
    opened = fill(runtime, v)
    assert opened > 0
    text = words(3, 9, v)
    logits = reader.step(0, text, chain(3)) if opened > 1 else None
    if logits is not None:
        reader.check(logits, [[*reader.texts[0], *text[: n + 1]] for n in range(3)])
    for key in range(1, opened):
        runtime.close(key)
    runtime.reserve(opened, 30)


def test_broken_callers_are_told(trial: Trial) -> None:
    reader = Reader(trial)
    runtime, text = reader.runtime, words(3, 10, reader.runtime.traits.vocab_size)
    reader.open(0, text)
    with pytest.raises(ContractError):
        runtime.open(0, text)
    with pytest.raises(ContractError):
        runtime.keep(0, ())  # nothing was passed
    reader.step(0, text, chain(3))
    for path in ([1], [0, 2], [2, 1]):
        with pytest.raises(ContractError):
            runtime.keep(0, path)
    rows = Rows(key=0, tokens=text, parents=chain(3), asked=[2])
    with pytest.raises(ContractError):
        runtime.extend([rows])  # a second pass before keep
    reader.keep(0, text, [0, 1])
    runtime.reserve(0, 2)
    with pytest.raises(ContractError):
        runtime.extend([rows])  # more rows than reserved
    runtime.reserve(0, 3)
    logits = logits_of(runtime.extend([rows])[0])
    reader.check(logits, [[*reader.texts[0], *text]])  # no complaint did any damage


def test_the_context_is_read_to_its_end_and_not_beyond(trial: Trial) -> None:
    reader = Reader(trial)
    runtime, traits = reader.runtime, reader.runtime.traits
    text = words(traits.context_tokens, 12, traits.vocab_size)
    with pytest.raises(OutpaceError):
        runtime.open(1, [*text, 0])
    reader.check(reader.open(0, text)[-1:], [text])
    with pytest.raises(OutpaceError):
        reader.step(0, [0], [-1])


def test_a_closed_sequence_is_gone_and_its_key_is_free(trial: Trial) -> None:
    reader = Reader(trial)
    runtime, v = reader.runtime, reader.runtime.traits.vocab_size
    runtime.close(12345)  # never opened: fine
    reader.open(0, words(6, 13, v))
    reader.step(0, words(2, 14, v), chain(2))  # closed in the middle of a round
    runtime.close(0)
    runtime.close(0)
    text = words(4, 15, v)
    reader.check(reader.open(0, text)[-1:], [text])


def test_a_runtime_that_counts_its_memory_ends_with_none_in_use(trial: Trial) -> None:
    reader = Reader(trial)
    check = getattr(reader.runtime, "check_integrity", None)
    if check is None:
        pytest.skip(f"{reader.runtime.traits.name} has no check_integrity")
    for key in range(3):
        reader.open(key, words(5, key, reader.runtime.traits.vocab_size))
    with pytest.raises(ContractError):
        check()
    for key in range(3):
        reader.runtime.close(key)
    check()
