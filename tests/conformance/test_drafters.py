"""One suite for every drafter there is: what a round relies on, whoever guesses.

To put a drafter on trial, add a line to `TRIALS`: its spec, and how to build it where the registry
alone cannot. Whatever the registry knows and the table does not is a failing test, so nothing
ships untried.

The target is a table model, exact and tiny, whose text repeats itself enough to be guessed.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor

from drafters.head.tiny import Shown, shows_hidden, tiny_folder
from outpace.core.coins import Purpose, SeededCoins
from outpace.core.draft import Ask, Draft, Drafter, Seen, Style
from outpace.core.repeat import Turn, one_round
from outpace.core.sampling import Sampling
from outpace.core.sequence import Sequence
from outpace.drafters import registry
from outpace.runtimes.toy import Table, TableRuntime, random_table

V = 16
WORDS = [bytes([97 + i]) for i in range(V)]
TARGET = random_table(V, seed=1, memory=2, sharpness=3.0)
COUSIN = random_table(V, seed=1, memory=1, sharpness=3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A drafter on trial.

    spec: its name for the registry. draws: whether it may answer drawn styles with drawn guesses.
    For model drafters, table and words: the model and its vocabulary; context_tokens, max_tokens:
    its longest text, and all that its memory holds. hidden: whether it reads hidden states, which
    a table has none of, so that they are made up.
    """

    spec: str
    draws: bool = False
    table: Table = TARGET
    words: Seq[bytes] = field(default_factory=lambda: WORDS)
    context_tokens: int = 4096
    max_tokens: int | None = None
    hidden: bool = False

    def make(self) -> Drafter:
        traits = TableRuntime(TARGET, vocab_size=V).traits
        context = registry.Context(
            target=shows_hidden(traits) if self.hidden else traits,
            vocabulary=WORDS,
            load=lambda _: registry.Loaded(runtime=self.runtime(), vocabulary=self.words),
            peek=lambda ask, path: TARGET((*ask.tokens, *path)),
        )
        drafter = registry.make(self.spec, context)
        return Shown(drafter) if self.hidden else drafter

    def runtime(self) -> TableRuntime:
        return TableRuntime(
            self.table, vocab_size=len(self.words), context_tokens=self.context_tokens,
            max_tokens=self.max_tokens,
        )  # fmt: skip


def turned(table: Table) -> Table:
    """The same model with its ids in reverse order."""

    def reversed_ids(text: tuple[int, ...]) -> Tensor:
        return table(tuple(V - 1 - t for t in text)).flip(0)

    return reversed_ids


TRIALS = {
    "none": Trial(spec="none"),
    "lookup": Trial(spec="lookup"),
    "suffix": Trial(spec="suffix"),
    "mix": Trial(spec="mix:suffix+lookup"),
    "auto": Trial(spec="auto"),
    "model": Trial(spec="model:cousin", table=COUSIN, draws=True),
    "model, itself": Trial(spec="model:self", draws=True),
    "model, fewer words": Trial(
        spec="model:small", table=random_table(9, seed=4), words=WORDS[:9], draws=True
    ),
    "model, other ids": Trial(
        spec="model:turned", table=turned(TARGET), words=WORDS[::-1], draws=True
    ),
    "model, short context": Trial(spec="model:short", draws=True, context_tokens=40),
    "model, little memory": Trial(spec="model:poor", draws=True, max_tokens=48),
    "mix with a model": Trial(spec="mix:lookup+model:cousin", table=COUSIN, draws=True),
    "head": Trial(spec=f"head:{tiny_folder()}", hidden=True),
    "head, drawing": Trial(spec=f"head:{tiny_folder()}:draw", draws=True, hidden=True),
    "mix with a head": Trial(spec=f"mix:lookup+head:{tiny_folder()}", hidden=True),
    "synthetic": Trial(spec="synthetic:alpha=0.6", draws=True),
}
EVERY = pytest.mark.parametrize("trial", TRIALS.values(), ids=TRIALS.keys())
STYLES: tuple[Style, ...] = ("chosen", "coupled", "drawn")
SAMPLINGS = {
    "chosen": Sampling(),
    "coupled": Sampling(temperature=0.9, seed=7),
    "drawn": Sampling(temperature=0.9, top_k=12),
}


def ask(key: int, tokens: Seq[int], style: Style = "chosen", **how: int) -> Ask:
    return Ask(
        key=key, tokens=list(tokens), n_prompt=3, max_nodes=how.get("nodes", 8),
        max_depth=how.get("depth", 8), trees=bool(how.get("trees", 1)), style=style,
        sampling=SAMPLINGS[style], coins=SeededCoins(how.get("seed", 7), len(tokens)),
    )  # fmt: skip


def text_of(sampling: Sampling, prompt: Seq[int], n: int) -> list[int]:
    """What the target says without any guess."""
    return run(registry.make("none"), [prompt], replace(sampling, max_tokens=n))[0]


def run(
    drafter: Drafter,
    prompts: Seq[Seq[int]],
    sampling: Sampling,
    *,
    nodes: int = 8,
    depth: int = 8,
    trees: bool = True,
) -> list[list[int]]:
    """The answers to all prompts, decoded together."""
    runtime = TableRuntime(TARGET, vocab_size=V, trees=trees)
    flights: list[Sequence] = []
    for key, prompt in enumerate(prompts):
        flights.append(
            Sequence(key=key, prompt=prompt, sampling=sampling, seed=key, traits=runtime.traits)
        )
        runtime.open(key, prompt)
        drafter.observe([Seen(key=key, start=0, tokens=tuple(prompt))])
    while live := [s for s in flights if s.finish is None]:
        one_round(
            runtime,
            drafter,
            [Turn(sequence=s, catch_up=s.behind, max_nodes=nodes, max_depth=depth) for s in live],
            clock=lambda: 0.0,
        )
        for s in live:
            if s.finish is not None:
                runtime.close(s.key)
                drafter.forget(s.key)
    runtime.check_integrity()
    return [s.output for s in flights]


def told(drafter: Drafter, key: int, tokens: Seq[int], n_prompt: int = 3) -> None:
    """Tell a drafter a whole text as an engine would, a few tokens at a time."""
    drafter.observe([Seen(key=key, start=0, tokens=tuple(tokens[:n_prompt]))])
    at = n_prompt
    while at < len(tokens):
        step = min(1 + at % 3, len(tokens) - at)
        drafter.observe([Seen(key=key, start=at, tokens=tuple(tokens[at : at + step]))])
        at += step


NOVEL = [5, 9, 14]  # nothing to look up, so that whoever else can guess is asked
TEXT = [1, 2, 3, *text_of(SAMPLINGS["coupled"], [1, 2, 3], 60)]


def test_every_registered_drafter_is_on_trial() -> None:
    tried = {trial.spec.partition(":")[0] for trial in TRIALS.values()}
    assert tried >= set(registry.names())


@EVERY
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("nodes", "depth"), [(1, 1), (1, 8), (8, 1), (3, 8), (16, 5), (0, 4), (4, 0)]
)
def test_budget_depth_shape_and_style_are_obeyed(
    trial: Trial, style: Style, nodes: int, depth: int
) -> None:
    for trees in (0, 1):
        drafter = trial.make()
        told(drafter, 0, TEXT)
        (draft,) = drafter.propose([ask(0, TEXT, style, nodes=nodes, depth=depth, trees=trees)])
        assert len(draft) <= nodes
        assert draft.depth <= depth
        assert trees or draft.is_chain
        assert not draft.drawn or (style == "drawn" and trial.draws)
        assert all(0 <= t < V for t in draft.tokens)
        assert len(draft.sources) == len(draft)
        for children in draft.children:
            siblings = [draft.tokens[c] for c in children]
            assert draft.replacement or len(set(siblings)) == len(siblings)


@EVERY
@pytest.mark.parametrize("worth", [0.0, 0.1, 0.6])
def test_chances_never_rise_and_are_worth_their_row(trial: Trial, worth: float) -> None:
    drafter = trial.make()
    told(drafter, 0, TEXT)
    (draft,) = drafter.propose([replace(ask(0, TEXT, nodes=16), worth=worth)])
    assert len(draft.chances) in (0, len(draft))
    for node, chance in enumerate(draft.chances):
        above = 1.0 if draft.parents[node] == -1 else draft.chances[draft.parents[node]]
        assert worth <= chance <= above


@EVERY
def test_drawn_guesses_come_with_proper_laws(trial: Trial) -> None:
    drafter = trial.make()
    told(drafter, 0, TEXT[:30])
    (draft,) = drafter.propose([ask(0, TEXT[:30], "drawn")])
    if not draft.drawn:
        return
    assert draft.laws_LV is not None
    assert draft.laws_LV.shape[1] == V
    assert bool((draft.laws_LV >= 0).all())
    assert torch.allclose(draft.laws_LV.sum(1).double(), torch.ones(len(draft.laws_LV)).double())
    assert all(float(draft.law(n)[draft.tokens[n]]) > 0 for n in range(len(draft)))


@EVERY
@pytest.mark.parametrize("style", ["chosen", "coupled"])
@pytest.mark.parametrize(("nodes", "depth"), [(1, 1), (4, 4), (12, 6)])
@pytest.mark.parametrize("trees", [False, True], ids=["chain", "tree"])
def test_the_text_is_the_targets(
    trial: Trial, style: Style, nodes: int, depth: int, trees: bool
) -> None:
    sampling = replace(SAMPLINGS[style], max_tokens=70)
    prompts = [[1, 2, 3], [4, 5], [1, 2, 3, 4, 5, 6]]
    plain = run(registry.make("none"), prompts, sampling)
    assert run(trial.make(), prompts, sampling, nodes=nodes, depth=depth, trees=trees) == plain


@EVERY
@pytest.mark.parametrize("style", STYLES)
def test_asked_together_or_alone_the_answers_are_the_same(trial: Trial, style: Style) -> None:
    texts = {1: TEXT[:20], 2: TEXT[5:35], 3: [3, 3, 3]}
    asks = [ask(key, tokens, style, depth=4) for key, tokens in texts.items()]
    together, alone = trial.make(), trial.make()
    for drafter in (together, alone):
        for key, tokens in texts.items():
            told(drafter, key, tokens)
    one_by_one = [alone.propose([a])[0] for a in asks]
    if trial.max_tokens is None:  # shared memory is where neighbours may matter
        same(together.propose(asks), one_by_one)


def same(some: Seq[Draft], others: Seq[Draft]) -> None:
    """Equal drafts, laws included."""
    for a, b in zip(some, others, strict=True):
        assert (a.tokens, a.parents, a.law_rows) == (b.tokens, b.parents, b.law_rows)
        if a.laws_LV is not None and b.laws_LV is not None:
            assert torch.equal(a.laws_LV, b.laws_LV)


@EVERY
def test_no_guess_of_any_sequence_is_no_error(trial: Trial) -> None:
    assert trial.make().propose([]) == []
    trial.make().observe([])


@EVERY
@pytest.mark.parametrize("text", [TEXT[:25], NOVEL], ids=["known", "novel"])
def test_what_is_drawn_depends_only_on_what_was_known_before(trial: Trial, text: list[int]) -> None:
    """Non-anticipation: with the same guesses up to a node, whether it has children is settled,
    and so is the law they are drawn from, whatever the coins say below."""
    known: dict[tuple[int, ...], tuple[int, Tensor]] = {}
    for seed in range(60):
        drafter = trial.make()
        told(drafter, 0, text)
        (draft,) = drafter.propose([ask(0, text, "drawn", depth=3, seed=seed)])
        if not draft.drawn:
            continue
        for node in range(-1, len(draft)):
            children = draft.children[node + 1]
            law_V = draft.law(children[0]) if children else torch.zeros(V)
            n, other_V = known.setdefault(draft.guesses(node), (len(children), law_V))
            assert n == len(children)
            assert torch.equal(other_V, law_V)
    assert not known or len(known) > 4


@EVERY
@pytest.mark.parametrize("text", [TEXT[:25], NOVEL], ids=["known", "novel"])
def test_other_coins_change_no_shape(trial: Trial, text: list[int]) -> None:
    shapes = set()
    for seed in range(20):
        drafter = trial.make()
        told(drafter, 0, text)
        (draft,) = drafter.propose([ask(0, text, "drawn", seed=seed, depth=4)])
        shapes.add((draft.parents, draft.drawn))
    assert len(shapes) == 1


class Watched:
    """Coins that note what was drawn from what; all that a drafter may not ask is an error."""

    def __init__(self, since: int) -> None:
        self.drawn: list[tuple[Purpose, int, Tensor]] = []
        self._coins = SeededCoins(1, since)

    def bernoulli(self, a: float, purpose: Purpose, position: int, branch: int = 0) -> bool:
        raise AssertionError("a drafter accepts nothing")

    def categorical(
        self, weights_V: Tensor, purpose: Purpose, position: int, branch: int = 0
    ) -> int:
        self.drawn.append((purpose, position, weights_V))
        return self._coins.categorical(weights_V, purpose, position, branch)

    def coupled(self, scores_V: Tensor, position: int) -> int:
        raise AssertionError("drawn guesses do not use the target's own noise")


@EVERY
@pytest.mark.parametrize("text", [TEXT[:25], NOVEL], ids=["known", "novel"])
def test_every_draw_is_in_the_draft_with_the_law_it_came_from(
    trial: Trial, text: list[int]
) -> None:
    drafter = trial.make()
    told(drafter, 0, text)
    coins = Watched(len(text))
    (draft,) = drafter.propose([replace(ask(0, text, "drawn", depth=3), coins=coins)])
    assert len(coins.drawn) == (len(draft) if draft.drawn else 0)
    for node, (purpose, position, weights_V) in enumerate(coins.drawn):
        assert purpose == Purpose.DRAFT
        assert position == len(text) - 1 + draft.depths[node]
        assert torch.allclose(draft.law(node), weights_V / weights_V.sum(), atol=1e-12)


@EVERY
def test_it_keeps_up_where_it_was_not_asked(trial: Trial) -> None:
    kept_up, late = trial.make(), trial.make()
    told(kept_up, 0, TEXT)
    told(late, 0, TEXT[:10])
    first = kept_up.propose([ask(0, TEXT)])
    same(first, late.propose([ask(0, TEXT)]))


@EVERY
def test_preemption_is_forgetting_and_being_told_again(trial: Trial) -> None:
    once, twice = trial.make(), trial.make()
    told(once, 0, TEXT)
    told(twice, 0, TEXT[:40])
    twice.propose([ask(0, TEXT[:40])])
    twice.forget(0)
    twice.observe([Seen(key=0, start=0, tokens=tuple(TEXT[:40]))])
    twice.observe([Seen(key=0, start=40, tokens=tuple(TEXT[40:]))])
    a, b = once.propose([ask(0, TEXT)])[0], twice.propose([ask(0, TEXT)])[0]
    # What was shared with all requests stays; guesses may differ by it, but not die of it.
    assert bool(len(a)) == bool(len(b))


@EVERY
def test_unknown_keys_and_texts_out_of_step_are_fine(trial: Trial) -> None:
    drafter = trial.make()
    drafter.forget(99)
    drafter.observe([Seen(key=5, start=30, tokens=(1, 2))])
    drafter.observe([Seen(key=5, start=0, tokens=())])
    (draft,) = drafter.propose([ask(6, TEXT)])
    drafter.observe([Seen(key=6, start=3, tokens=(1,)), Seen(key=6, start=500, tokens=(2,))])
    (again,) = drafter.propose([ask(6, TEXT[:20])])
    assert len(draft) <= 8
    assert len(again) <= 8


@EVERY
def test_what_was_forgotten_takes_no_memory(trial: Trial) -> None:
    drafter = trial.make()

    def many(first: int) -> None:
        for key in range(first, first + 30):
            told(drafter, key, TEXT)
            drafter.propose([ask(key, TEXT)])
            drafter.forget(key)

    many(0)
    before = reachable(drafter)
    many(100)
    assert reachable(drafter) <= before * 1.1 + 50


def reachable(thing: object) -> int:
    """Objects that a drafter holds, counted through its containers and attributes."""
    seen: set[int] = set()
    stack: list[object] = [thing]
    while stack:
        x = stack.pop()
        if id(x) in seen or callable(x) or isinstance(x, int | float | str | bytes | Tensor):
            continue
        seen.add(id(x))
        if isinstance(x, dict):
            stack.extend(x.values())
        elif isinstance(x, list | tuple | set | frozenset):
            stack.extend(x)
        else:
            names = [n for c in type(x).__mro__ for n in getattr(c, "__slots__", ())]
            stack.extend(getattr(x, n) for n in names if hasattr(x, n))
            stack.extend(getattr(x, "__dict__", {}).values())
    return len(seen)


def test_acceptance_is_flat_along_a_text() -> None:
    """The bonus token's place in the draft model's memory: missing, it shows only late."""
    runtime = TableRuntime(TARGET, vocab_size=V)
    drafter = TRIALS["model, itself"].make()
    sequence = Sequence(
        key=0, prompt=[1, 2, 3], sampling=Sampling(max_tokens=1000), seed=0, traits=runtime.traits
    )
    runtime.open(0, sequence.tokens)
    kept: list[int] = []
    while sequence.finish is None:
        turn = Turn(sequence=sequence, catch_up=sequence.behind, max_nodes=4, max_depth=4)
        (done,) = one_round(runtime, drafter, [turn], clock=lambda: 0.0)
        kept.append(done.n_kept)
    assert set(kept[:-1]) == {4}


def test_a_repetitive_text_is_guessed() -> None:
    loop = [1, 2, 3, 4, 5, 6, 7] * 6
    for name in ("lookup", "suffix", "auto"):
        drafter = TRIALS[name].make()
        told(drafter, 0, loop)
        (draft,) = drafter.propose([ask(0, loop, depth=7, nodes=7, trees=0)])
        assert draft.tokens == (1, 2, 3, 4, 5, 6, 7), name
