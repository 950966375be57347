"""Reported log-probabilities are those of teacher forcing, whatever was guessed on the way.

The text that came out is read again in one pass, without a drafter, and every row's report must be
equal: bit for bit, on runtimes whose rows do not depend on what shares their pass.
"""

from collections.abc import Callable

import pytest

from outpace.control.limits import OFF, Limits
from outpace.core.draft import Drafter
from outpace.core.sampling import Sampling
from outpace.core.score import Rows, Runtime, TokenLogprobs, token_logprobs
from outpace.core.sequence import Sequence
from outpace.drafters.registry import Context, make
from outpace.engine.engine import Engine
from outpace.engine.schedule import Budget
from outpace.runtimes.native.runtime import NativeRuntime
from outpace.runtimes.native.table import TableDecoder
from outpace.runtimes.toy import TableRuntime, random_table
from runtimes.native.files import load_llama

V = 23
TABLE = random_table(V, seed=4, memory=1, sharpness=3.0)
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3]
MAX_TOKENS = 40


def toy() -> Runtime:
    return TableRuntime(TABLE, vocab_size=V, context_tokens=80)


def paged() -> Runtime:
    decoder = TableDecoder(TABLE, n_pages=60, page_size=4)
    return NativeRuntime(decoder, vocab_size=V, context_tokens=80, eos_ids=frozenset(), digest="t")


def llama() -> Runtime:
    loaded = load_llama("auto", "fp32", n_pages=60, page_size=16)
    return NativeRuntime(
        loaded.decoder,
        vocab_size=loaded.spec.vocab_size,
        context_tokens=loaded.spec.context_tokens,
        eos_ids=frozenset(),
        digest=loaded.identity,
    )


def forced(runtime: Runtime, tokens: list[int], n_top: int) -> list[TokenLogprobs]:
    """Reports of all tokens but the first, from one pass over the finished text."""
    n = len(tokens) - 1
    runtime.open(10_000, tokens[:1])
    runtime.reserve(10_000, n)
    rows = Rows(key=10_000, tokens=tokens[:-1], parents=range(-1, n - 1), asked=range(n))
    (scores,) = runtime.extend([rows])
    runtime.keep(10_000, ())
    runtime.close(10_000)
    assert scores.logits_AV is not None
    pairs = zip(scores.logits_AV, tokens[1:], strict=True)
    return [token_logprobs(logits_V, token, n_top) for logits_V, token in pairs]


def answer(engine: Engine, sampling: Sampling, limits: Limits | None = None) -> Sequence:
    sequence = engine.add(PROMPT, sampling, seed=7, limits=limits)
    while sequence.finish is None:
        engine.step()
    return sequence


def drafter_of(name: str, runtime: Runtime) -> Drafter:
    table = TABLE if runtime.traits.vocab_size == V else None
    peek = (lambda ask, path: table((*ask.tokens, *path))) if table else None
    return make(name, Context(target=runtime.traits, peek=peek))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.8, "seed": 5},
        {"temperature": 0.8},
        {"frequency_penalty": 0.7, "logit_bias": {2: 3.0}, "top_k": 4, "temperature": 1.0},
    ],
    ids=["greedy", "seeded", "drawn", "processed"],
)
@pytest.mark.parametrize(
    ("opener", "drafter"),
    [(toy, "lookup"), (toy, "synthetic:alpha=0.6"), (toy, "synthetic:wrong"), (paged, "lookup"),
     (llama, "lookup")],
    ids=["toy-lookup", "toy-half", "toy-wrong", "paged", "llama"],
)  # fmt: skip
def test_reports_equal_teacher_forcing(
    opener: Callable[[], Runtime], drafter: str, options: dict[str, object]
) -> None:
    runtime = opener()
    limits = Limits(max_nodes=4, max_depth=4)
    engine = Engine(
        runtime, drafter_of(drafter, runtime), limits=limits, budget=Budget(rows=7, sequences=2)
    )
    asked = Sampling(max_tokens=MAX_TOKENS, logprobs=3, prompt_logprobs=2, **options)  # type: ignore[arg-type]
    done = answer(engine, asked)
    n = done.n_prompt
    assert len(done.logprobs) == len(done.output) == MAX_TOKENS
    assert len(done.prompt_logprobs) == n - 1
    assert done.logprobs == forced(runtime, done.tokens, 3)[n - 1 :]
    assert done.prompt_logprobs == forced(runtime, done.tokens, 2)[: n - 1]
    engine.check_integrity()


def test_asking_for_a_report_changes_no_text_and_off_gives_the_same_report() -> None:
    runtime = toy()
    engine = Engine(runtime, drafter_of("lookup", runtime), limits=Limits(max_nodes=4, max_depth=4))
    for options in ({}, {"temperature": 0.9, "seed": 3}):
        plain = Sampling(max_tokens=MAX_TOKENS, **options)  # type: ignore[arg-type]
        asked = Sampling(max_tokens=MAX_TOKENS, logprobs=1, **options)  # type: ignore[arg-type]
        told = answer(engine, asked)
        assert told.output == answer(engine, plain).output
        assert told.logprobs == answer(engine, asked, OFF).logprobs


def test_a_known_beginning_is_read_again_where_its_report_is_wanted() -> None:
    runtime = paged()
    engine = Engine(runtime, drafter_of("none", runtime), limits=OFF)
    first = answer(engine, Sampling(max_tokens=4))
    assert first.prompt_logprobs == []
    again = answer(engine, Sampling(max_tokens=4, prompt_logprobs=0))
    assert len(again.prompt_logprobs) == len(PROMPT) - 1
    assert again.output == first.output


def test_reports_survive_preemption() -> None:
    decoder = TableDecoder(TABLE, n_pages=16, page_size=4)
    runtime = NativeRuntime(
        decoder, vocab_size=V, context_tokens=60, eos_ids=frozenset(), digest="small"
    )
    engine = Engine(runtime, drafter_of("none", runtime), limits=OFF, budget=Budget(rows=5))
    sampling = Sampling(max_tokens=30, logprobs=1, prompt_logprobs=1)
    both = [engine.add(PROMPT, sampling, seed=0), engine.add(PROMPT[1:], sampling, seed=1)]
    while any(s.finish is None for s in both):
        engine.step()
    for s in both:
        assert s.prompt_logprobs + s.logprobs == forced(runtime, s.tokens, 1)
    engine.check_integrity()


def test_a_report_ends_with_its_text() -> None:
    """An end inside the kept guesses cuts tokens and reports at the same place."""
    runtime = toy()
    engine = Engine(
        runtime, drafter_of("synthetic:right", runtime), limits=Limits(max_nodes=6, max_depth=6)
    )
    whole = answer(engine, Sampling(max_tokens=MAX_TOKENS))
    for end in sorted(set(whole.output)):
        done = answer(
            engine,
            Sampling(max_tokens=MAX_TOKENS, logprobs=0, stop_token_ids=frozenset({end})),
        )
        assert done.output == whole.output[: whole.output.index(end) + 1]
        assert [report.token for report in done.logprobs] == done.output
