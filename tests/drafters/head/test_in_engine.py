"""A head in the engine, on a real decoder: the same text, and the same guesses come what may."""

from collections.abc import Sequence as Seq

import numpy as np
import pytest

from drafters.head.tiny import random_values
from outpace.control.limits import Limits
from outpace.core.repeat import Round
from outpace.core.sampling import Sampling
from outpace.drafters.head.drafter import HeadDrafter
from outpace.drafters.head.files import EPS, Head, HeadConfig, HeadShape, pack
from outpace.drafters.head.steps import NumpySteps, Steps
from outpace.drafters.none import NoDrafter
from outpace.engine.engine import Engine
from outpace.engine.schedule import Budget
from outpace.events import Event, Preempted
from outpace.runtimes.native.load import Wish, load_decoder
from outpace.runtimes.native.runtime import NativeRuntime
from small import EOS, VOCAB
from train.tiny import tiny_files, tiny_weights

PROMPTS = [[5, 6, 7], [9, 9, 12, 40, 8], list(range(30, 60))]
LIMITS = Limits(max_nodes=6, max_depth=3)


def head() -> Head:
    taps = tiny_weights().taps
    shape = HeadShape(
        hidden=64, taps=taps, embed=32, inner=64, root_inner=32, vocab=VOCAB, draft=VOCAB
    )
    blocks = dict.fromkeys(shape.matrices, "Q8_0")
    packed = pack(random_values(shape, 1), blocks)
    return Head(
        config=HeadConfig(target="tiny", digest="x", shape=shape, blocks=blocks),
        matrices={name: ("Q8_0", *shape.matrices[name], packed[name]) for name in packed},
        ids_D=np.arange(VOCAB, dtype=np.int32),
    )


def runtime(n_pages: int = 64) -> NativeRuntime:
    wish = Wish(threads=1, hidden_layers=tiny_weights().taps, n_pages=n_pages, page_size=16)
    loaded = load_decoder(tiny_files(), wish)
    return NativeRuntime(
        loaded.decoder, vocab_size=VOCAB, context_tokens=512, eos_ids=frozenset({EOS}),
        digest="x", n_hidden=loaded.n_hidden,
    )  # fmt: skip


def drafter(made: NativeRuntime) -> HeadDrafter:
    found = head()
    steps: Steps | None = None
    if made.compile_head is not None:
        n_taps = len(found.config.shape.taps)
        steps = made.compile_head(found.matrices, found.ids_D, n_taps=n_taps, eps=EPS)
    return HeadDrafter(found, steps or NumpySteps(found))


def decode(
    engine: Engine, sampling: Sampling, prompts: Seq[Seq[int]] = PROMPTS
) -> tuple[list[list[int]], dict[tuple[int, int], tuple[int, ...]]]:
    """The texts, and what was guessed at each place of each."""
    guessed: dict[tuple[int, int], tuple[int, ...]] = {}

    def note(done: Round) -> None:
        if done.verdict is not None:
            guessed[done.turn.sequence.key, done.start] = done.draft.tokens

    texts = [engine.add(p, sampling, seed=i, sink=note) for i, p in enumerate(prompts)]
    while not engine.idle:
        engine.step()
    engine.check_integrity()
    return [text.output for text in texts], guessed


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(max_tokens=60, ignore_eos=True),
        Sampling(max_tokens=60, ignore_eos=True, temperature=1.0, seed=8),
    ],
    ids=["greedy", "seeded"],
)
def test_the_text_is_the_targets(sampling: Sampling) -> None:
    plain, _ = decode(Engine(runtime(), NoDrafter(), limits=LIMITS), sampling)
    made = runtime()
    engine = Engine(made, drafter(made), limits=LIMITS)
    texts, guessed = decode(engine, sampling)
    assert texts == plain
    assert sum(len(tokens) for tokens in guessed.values()) > 100


def test_a_preempted_text_and_one_with_a_known_beginning_get_the_same_guesses() -> None:
    sampling = Sampling(max_tokens=60, ignore_eos=True)
    made = runtime()
    texts, wanted = decode(Engine(made, drafter(made), limits=LIMITS), sampling)

    small = runtime(n_pages=13)
    engine = Engine(small, drafter(small), limits=LIMITS, budget=Budget(rows=24))
    events: list[Event] = []
    engine.listeners.append(events.append)
    again, found = decode(engine, sampling)
    assert any(isinstance(event, Preempted) for event in events)
    assert again == texts
    shared = found.keys() & wanted.keys()
    assert len(shared) > 60
    # Where memory is short a round may guess nothing; never something else.
    assert all(found[at] in ((), wanted[at]) for at in shared)
    assert sum(found[at] == wanted[at] for at in shared) > 0.8 * len(shared)

    engine = Engine(made, drafter(made), limits=LIMITS)  # its pages are still known
    later, found = decode(engine, sampling)
    assert (later, list(found.values())) == (texts, list(wanted.values()))


def test_a_chunked_prompt_gets_the_same_guesses_as_a_whole_one() -> None:
    sampling = Sampling(max_tokens=12, ignore_eos=True)
    made, chunked = runtime(), runtime()
    prompts = [list(range(40, 140))]
    wanted = decode(Engine(made, drafter(made), limits=LIMITS), sampling, prompts)
    engine = Engine(chunked, drafter(chunked), limits=LIMITS, budget=Budget(rows=7))
    assert decode(engine, sampling, prompts) == wanted
