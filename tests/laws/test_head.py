"""A trained head's own draws and chosen trees keep the law, walked like any other guesser's."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from drafters.head.tiny import Shown, random_values
from laws.guessers import Guesser
from laws.mutants import Mutant
from laws.world import Case, check, ident
from outpace.core.draft import Drafter
from outpace.core.sampling import Sampling
from outpace.drafters.head import drafter as module
from outpace.drafters.head.drafter import HeadDrafter, HeadOptions
from outpace.drafters.head.files import Head, HeadConfig, HeadShape, pack
from outpace.drafters.head.steps import NumpySteps
from outpace.errors import ContractError

# One of the three tokens can never be guessed.
SHAPE = HeadShape(hidden=32, taps=(1, 2), embed=32, inner=32, root_inner=32, vocab=3, draft=2)


def small_head() -> Head:
    blocks = dict.fromkeys(SHAPE.matrices, "Q8_0")
    packed = pack(random_values(SHAPE, 2), blocks)
    return Head(
        config=HeadConfig(target="x", digest="x", shape=SHAPE, blocks=blocks),
        matrices={name: ("Q8_0", *SHAPE.matrices[name], packed[name]) for name in packed},
        ids_D=np.array([0, 2], np.int32),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadCase(Case):
    """A case whose guesses are a head's. draws: whether it draws where it may."""

    draws: bool = False

    def drafter(self) -> Guesser:
        head = small_head()
        made: Drafter = Shown(
            HeadDrafter(head, NumpySteps(head), HeadOptions(draws=self.draws, floor=0.0))
        )
        return made  # type: ignore[return-value]  # the walk needs a Drafter only


case = partial(HeadCase, depth=lambda _: 2)
CASES = [
    case(name="draws, left to us", sampling=Sampling(temperature=0.8), draws=True),
    case(name="draws, block", sampling=Sampling(temperature=1.3, rule="block")),
    case(name="draws, token", sampling=Sampling(temperature=1.0, rule="token"), draws=True),
    case(name="draws, traversal", sampling=Sampling(temperature=1.0, rule="traversal"), draws=True),
    case(name="draws, top-k", sampling=Sampling(temperature=1.0, top_k=2), draws=True),
    case(
        name="draws, penalties",
        sampling=Sampling(temperature=1.0, presence_penalty=0.9, repetition_penalty=1.4),
        draws=True,
    ),
    case(
        name="draws, a grammar", sampling=Sampling(temperature=1.0), draws=True,
        allowed=lambda text: {0, 1} if len(text) % 2 else {0, 1, 2},
    ),
    case(name="tree, left to us", sampling=Sampling(temperature=0.8)),
    case(name="tree, traversal", sampling=Sampling(temperature=1.2, rule="traversal")),
    case(name="tree, match", sampling=Sampling(temperature=1.0, rule="match")),
    case(name="tree, top-p", sampling=Sampling(temperature=1.0, top_p=0.8)),
    case(name="tree, ends", sampling=Sampling(temperature=1.0), eos_ids=frozenset({2})),
    case(
        name="tree, a grammar", sampling=Sampling(temperature=1.0),
        allowed=lambda text: {0, 1} if len(text) % 2 else {0, 1, 2},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=ident)
def test_the_law_is_the_targets(case: HeadCase) -> None:
    check(case)


MUTANTS = [
    Mutant(
        name="a law other than the one drawn from is reported", module=module,
        where="HeadDrafter._drawn", old="laws.append(law_V)",
        new="laws.append(law_V.square() / law_V.square().sum())", killers=(),
    ),
    Mutant(
        name="an unlikely draw is dropped", module=module, where="HeadDrafter._drawn",
        old="        tokens.append(token)\n",
        new="        if law_V[token] < 0.4:\n            n = depth\n            break\n"
        "        tokens.append(token)\n", killers=(),
    ),
    Mutant(
        name="the likeliest is taken and called a draw", module=module, where="HeadDrafter._drawn",
        old="ask.coins.categorical(law_V, Purpose.DRAFT, len(ask.tokens) + depth)",
        new="int(law_V.argmax())", killers=(),
    ),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name.replace(" ", "-"))
def test_the_planted_bug_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    with pytest.raises((AssertionError, ContractError, RuntimeError)):
        check(CASES[0])
