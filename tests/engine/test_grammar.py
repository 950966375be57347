"""Structured outputs through the engine: every answer parses, and guesses do not show in it."""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from functools import cache

import pytest

from engine.grammars import WANTED
from outpace.control.limits import OFF, Limits
from outpace.core.draft import Drafter
from outpace.core.sampling import Sampling
from outpace.core.sequence import Sequence
from outpace.drafters.lookup import LookupDrafter
from outpace.drafters.mix.drafter import MixDrafter
from outpace.drafters.model import ModelDrafter
from outpace.drafters.none import NoDrafter
from outpace.drafters.suffix.drafter import SuffixDrafter
from outpace.drafters.translate import dictionary
from outpace.engine.engine import Engine
from outpace.engine.schedule import Budget
from outpace.events import Event, Preempted, RoundsDone
from outpace.runtimes.toy import TableRuntime, random_table
from outpace.text.grammar import spec
from outpace.text.grammar.compile import Grammars
from outpace.text.tokenizer import Tokenizer
from text.grammar.tokens import wide_backend

TOKENIZER = Tokenizer.wrap(wide_backend())
N_PADDED = 9
VOCAB = TOKENIZER.vocab_size + N_PADDED
(EOS,) = [i for i in TOKENIZER.special_ids if TOKENIZER.token(i) == "<end>"]
TABLE = random_table(VOCAB, seed=3, memory=1, sharpness=3.0)
COUSIN = random_table(VOCAB, seed=3, memory=0, sharpness=3.0)
GRAMMARS = Grammars(TOKENIZER, vocab_size=VOCAB, eos_ids=frozenset({EOS}))
PROMPT = TOKENIZER.encode('Say {"name":"ab","kind":true}', special=False)
NAMES = list(WANTED)


def runtime(max_tokens: int | None = None) -> TableRuntime:
    return TableRuntime(
        TABLE, vocab_size=VOCAB, context_tokens=600, eos_ids=frozenset({EOS}), max_tokens=max_tokens
    )


def guessing_model() -> Drafter:
    words = [TOKENIZER.token_bytes(i) for i in range(VOCAB)]
    model = TableRuntime(COUSIN, vocab_size=VOCAB)
    return ModelDrafter(model, dictionary(target=words, model=words, vocab_size=VOCAB))


DRAFTERS: dict[str, Callable[[], Drafter]] = {
    "lookup": LookupDrafter,
    "mix": lambda: MixDrafter([LookupDrafter(), SuffixDrafter()]),
    "model": guessing_model,
    "all": lambda: MixDrafter([LookupDrafter(), SuffixDrafter(), guessing_model()]),
}


@dataclass
class Watch:
    """What the engine said."""

    n_kept: int = 0
    n_forced: int = 0
    n_rounds: int = 0
    n_preempted: int = 0
    events: list[Event] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Preempted):
            self.n_preempted += 1
        if isinstance(event, RoundsDone):
            for done in event.rounds:
                path = done.verdict.path if done.verdict else ()
                self.n_rounds += 1
                self.n_kept += len(path)
                self.n_forced += sum(done.draft.sources[n] == "forced" for n in path)


def answers(
    asked: Seq[tuple[str | None, Sampling]],
    drafter: Drafter,
    *,
    limits: Limits | None = None,
    max_tokens: int | None = None,
) -> tuple[list[Sequence], Watch]:
    """The answers to requests that share an engine; None asks for free text."""
    engine = Engine(
        runtime(max_tokens), drafter, limits=limits or Limits(max_nodes=6, max_depth=6),
        budget=Budget(rows=256, sequences=64, waiting=1000),
    )  # fmt: skip
    watch = Watch()
    engine.listeners.append(watch)
    sequences = [
        engine.add(
            PROMPT, sampling, seed=i,
            mask=None if name is None else GRAMMARS.mask(
                WANTED[name][0], stop_token_ids=sampling.stop_token_ids
            ),
        )
        for i, (name, sampling) in enumerate(asked)
    ]  # fmt: skip
    while not engine.idle:
        engine.step()
    engine.check_integrity()
    return sequences, watch


def text(sequence: Sequence) -> str:
    return TOKENIZER.decode(sequence.output)


def requests(seeds: int) -> list[tuple[str, Sampling]]:
    cold = Sampling(max_tokens=300)
    return [(name, cold) for name in NAMES] + [
        (name, Sampling(temperature=1.0, seed=seed, max_tokens=300))
        for name in NAMES
        for seed in range(seeds)
    ]


@cache
def plain(seeds: int) -> list[list[int]]:
    done, _ = answers(requests(seeds), NoDrafter(), limits=OFF)
    return [s.output for s in done]


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_every_answer_parses_and_guesses_do_not_show(drafter: str) -> None:
    asked = requests(9)
    assert len(NAMES) == 20
    done, watch = answers(asked, DRAFTERS[drafter]())
    assert watch.n_kept > 100
    for (name, sampling), sequence, wanted in zip(asked, done, plain(9), strict=True):
        assert sequence.finish == "eos", (name, sampling, text(sequence))
        assert sequence.output == wanted, (name, sampling)
        WANTED[name][1](text(sequence))
        assert max(sequence.output) < TOKENIZER.vocab_size


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_answers_drawn_without_a_seed_parse(drafter: str) -> None:
    asked = [(name, Sampling(temperature=1.0, max_tokens=300)) for name in NAMES]
    for _ in range(2):
        done, _ = answers(asked, DRAFTERS[drafter]())
        for (name, _), sequence in zip(asked, done, strict=True):
            assert sequence.finish == "eos"
            WANTED[name][1](text(sequence))


def test_what_a_grammar_forces_costs_no_round_of_its_own() -> None:
    cold = Sampling(max_tokens=300)
    done, watch = answers([("unicode", cold)], MixDrafter([LookupDrafter()]))
    assert watch.n_forced >= 5
    assert watch.n_rounds < len(done[0].output)


def test_free_requests_beside_grammars_are_as_they_were_alone() -> None:
    free = Sampling(temperature=0.9, seed=4, max_tokens=60)
    mix = DRAFTERS["mix"]
    (alone,), _ = answers([(None, free)], mix())
    together, _ = answers([*requests(1), (None, free)], mix())
    assert together[-1].output == alone.output
    for (name, _), sequence in zip(requests(1), together, strict=False):
        WANTED[name][1](text(sequence))


def test_a_preempted_answer_goes_on_where_its_grammar_was() -> None:
    asked = requests(1)
    done, watch = answers(asked, DRAFTERS["mix"](), max_tokens=4 * len(PROMPT))
    assert watch.n_preempted > 5
    for (name, _), sequence, wanted in zip(
        asked, done, answers(asked, NoDrafter())[0], strict=True
    ):
        assert sequence.output == wanted.output
        WANTED[name][1](text(sequence))


def test_an_aborted_answer_disturbs_no_other() -> None:
    engine = Engine(runtime(), DRAFTERS["mix"](), limits=Limits(max_nodes=6, max_depth=6))
    cold = Sampling(max_tokens=300)
    masks = [GRAMMARS.mask(WANTED["flat"][0]) for _ in range(2)]
    gone, stays = (engine.add(PROMPT, cold, seed=i, mask=m) for i, m in enumerate(masks))
    for _ in range(2):
        engine.step()
    engine.abort(gone)
    while not engine.idle:
        engine.step()
    engine.check_integrity()
    assert gone.finish == "abort"
    WANTED["flat"][1](text(stays))


@pytest.mark.parametrize(
    ("sampling", "finish"),
    [
        (Sampling(min_tokens=200, max_tokens=300), "error"),
        (Sampling(banned=((EOS,),), max_tokens=300), "error"),
        (Sampling(logit_bias={EOS: -float("inf")}, max_tokens=300), "error"),
        (Sampling(forced=tuple(TOKENIZER.encode("maybe", special=False))), "error"),
        (Sampling(forced=tuple(TOKENIZER.encode("not", special=False)), max_tokens=300), "eos"),
        (Sampling(max_tokens=1), "length"),
    ],
)
@pytest.mark.parametrize("drafter", ["mix", "model"])
def test_dead_ends_are_the_requests_error_and_the_engine_goes_on(
    drafter: str, sampling: Sampling, finish: str
) -> None:
    beside = ("flat", Sampling(max_tokens=300))
    done, _ = answers([("yes/no/not sure", sampling), beside], DRAFTERS[drafter]())
    assert done[0].finish == finish
    if finish == "error":
        assert "no token is allowed next" in str(done[0].error)
        assert "grammar" in str(done[0].error)
    if finish == "eos":
        assert text(done[0]) == "not sure"
    WANTED["flat"][1](text(done[1]))


def test_a_stop_token_ends_a_complete_answer_and_no_other() -> None:
    call = TOKENIZER.id_of("<call>")
    assert call is not None
    sampling = Sampling(
        stop_token_ids=frozenset({call}), logit_bias={call: 100, EOS: -100}, max_tokens=300
    )
    for name in NAMES:
        (done,), _ = answers([(name, sampling)], DRAFTERS["mix"]())
        assert done.finish == "stop_token"
        WANTED[name][1](text(done))


def test_an_ignored_end_repeats_itself_and_the_text_stays_whole() -> None:
    sampling = Sampling(ignore_eos=True, max_tokens=80)
    (done,), _ = answers([("yes/no/not sure", sampling)], DRAFTERS["mix"]())
    assert done.finish == "length"
    assert len(done.output) == 80
    WANTED["yes/no/not sure"][1](text(done))


def test_the_end_comes_in_the_block_that_completes_the_answer() -> None:
    engine = Engine(
        runtime(), MixDrafter([LookupDrafter()]), limits=Limits(max_nodes=6, max_depth=6)
    )
    mask = GRAMMARS.mask(spec.choice(["true}]"]))
    sequence = engine.add(PROMPT, Sampling(max_tokens=9), seed=0, mask=mask)
    rounds = [done for _ in range(2) if not engine.idle for done in engine.step()]
    assert sequence.finish == "eos"
    assert text(sequence) == "true}]"
    assert len([r for r in rounds if r.emitted]) == 1, "prefill reads all, then one round"
