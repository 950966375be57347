"""The third promise of the engine, on the native runtime: company changes no text.

The same requests alone, and 32 at once in random order on a pool too small for them, with shared
beginnings, guesses right and wrong, and neighbours that leave: identical ids, at temperature 0
and with seeds.
"""

import random
from collections.abc import Sequence as Seq
from pathlib import Path

import pytest

from outpace.control.limits import OFF, Limits
from outpace.core.draft import Ask, Draft, Seen, chain
from outpace.core.sampling import Sampling
from outpace.drafters.none import NoDrafter
from outpace.engine.engine import Engine
from outpace.engine.schedule import Budget
from outpace.engine.service import Service
from outpace.events import Admitted, Event
from outpace.models.resolve import resolve
from outpace.runtimes.native.load import Wish, load_decoder
from outpace.runtimes.native.runtime import NativeRuntime
from runtimes import tiny

WAIT_S = 120.0
Job = tuple[list[int], Sampling]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tiny-llama")
    settings = tiny.config("llama", hidden_size=64, intermediate_size=96, head_dim=16,
                           max_position_embeddings=512)  # fmt: skip
    tiny.build(settings).save_pretrained(root)
    return root


class Remembering:
    """Guesses what the text will be, and every third time something else."""

    name = "remembering"

    def __init__(self, texts: dict[tuple[int, ...], list[int]]) -> None:
        self._texts = texts

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return [self._guess(ask) for ask in asks]

    def _guess(self, ask: Ask) -> Draft:
        at = len(ask.tokens) - ask.n_prompt
        coming = self._texts[tuple(ask.tokens[: ask.n_prompt])][at : at + ask.max_depth]
        return chain([(t + 1) % tiny.VOCAB if (at + i) % 3 == 0 else t
                      for i, t in enumerate(coming)])  # fmt: skip

    def observe(self, seen: Seq[Seen]) -> None:
        pass

    def forget(self, key: int) -> None:
        pass


def runtime_of(folder: Path, n_pages: int) -> NativeRuntime:
    files = resolve(str(folder), cache_dir=folder)
    loaded = load_decoder(files, Wish(weights="fp32", threads=1, n_pages=n_pages))
    return NativeRuntime(
        loaded.decoder, vocab_size=tiny.VOCAB, context_tokens=512, eos_ids=frozenset({1}),
        digest="tiny",
    )  # fmt: skip


def jobs_of(n: int) -> list[Job]:
    rng = random.Random(7)
    beginnings = [[rng.randrange(3, tiny.VOCAB) for _ in range(70)] for _ in range(3)]
    jobs = []
    for i in range(n):
        own = [rng.randrange(3, tiny.VOCAB) for _ in range(rng.randrange(1, 30))]
        sampling = Sampling(max_tokens=rng.randrange(60, 150), ignore_eos=True)
        if i % 2:
            sampling = Sampling(max_tokens=90, temperature=0.5, seed=i, ignore_eos=True)
        jobs.append(([*beginnings[i % 3], *own, *own], sampling))
    return jobs


def test_company_changes_no_text(folder: Path) -> None:
    jobs = jobs_of(32)
    large = runtime_of(folder, n_pages=256)
    plain = Engine(large, NoDrafter(), limits=OFF)
    alone: list[list[int]] = []
    for prompt, sampling in jobs:
        sequence = plain.add(prompt, sampling, seed=0)
        while not plain.idle:
            plain.step()
        alone.append(sequence.output)
        large.forget_beginnings()
    large.shutdown()

    events: list[Event] = []
    runtime = runtime_of(folder, n_pages=48)
    guesses = Remembering({tuple(job[0]): text for job, text in zip(jobs, alone, strict=True)})
    limits = Limits(max_nodes=4, max_depth=4)
    engine = Engine(runtime, guesses, limits=limits, budget=Budget(rows=96))
    engine.listeners.append(events.append)
    order = list(range(len(jobs)))
    random.Random(1).shuffle(order)
    with Service(engine, check_when_idle=True) as service:
        streams = {i: service.submit(*jobs[i], seed=0) for i in order}
        leaving = order[::6]
        for i in leaving:
            streams[i].read(WAIT_S)
            streams[i].close()
        for i in order:
            streams[i].wait(WAIT_S)
        stats = service.stats()
    texts = {i: list(stream.sequence.output) for i, stream in streams.items()}
    for i in order:
        assert texts[i] == alone[i][: len(texts[i])]
        assert i in leaving or len(texts[i]) == len(alone[i])
    assert stats.preempted > 0, "the pool was meant to be too small"
    assert stats.drafted > stats.kept > 0, "some guesses were meant to fail, and some not"
    assert any(e.n_known > 0 for e in events if isinstance(e, Admitted)), "beginnings are shared"
    runtime.check_integrity()
    runtime.shutdown()
