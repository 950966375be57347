"""Cases: a request, a target and a drafter, run through the real `one_round` by the oracle."""

import re
from collections.abc import Callable, Hashable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from laws.guessers import CHAIN2, Guesser, GuessLaw, Pick
from laws.oracle import LawError, Oracle, Walk, deep_fork, law_of, worst
from laws.reference import Allowed, Target, Text
from outpace.core.draft import Drafter
from outpace.core.law import TokenMask
from outpace.core.repeat import Round, Turn, one_round
from outpace.core.sampling import Sampling
from outpace.core.sequence import CoinsAt, Sequence
from outpace.errors import ContractError
from outpace.runtimes.toy import Table, TableRuntime, random_table

TOLERANCE = 1e-12
Skill = Literal["self", "half", "random"]
SKILLS: tuple[Skill, ...] = ("self", "half", "random")


class Scan:
    """Looks for stop strings by writing out the whole text."""

    def __init__(self, spelled: Seq[str], stop: Seq[str]) -> None:
        self._spelled, self._stop, self._written = spelled, stop, ""

    def completes(self, token: int) -> bool:
        self._written += self._spelled[token]
        return any(stop in self._written for stop in self._stop)


class Grammar(TokenMask):
    """A mask that asks a function of the text so far."""

    def __init__(self, allowed: Allowed, vocab_size: int) -> None:
        self.output: list[int] = []
        self._allowed, self._vocab_size = allowed, vocab_size

    def advance(self, token: int) -> None:
        self.output.append(token)

    def allowed(self, guesses: Seq[int]) -> Tensor:
        allowed_V = torch.zeros(self._vocab_size, dtype=torch.bool)
        allowed = self._allowed((*self.output, *guesses))
        allowed_V[[v for v in allowed if v < self._vocab_size]] = True
        return allowed_V


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One promise to walk: `sampling` on a random table, guessed by `pick` in `shape`.

    skill: the drafter knows the target's law, half of it, or another one. depth: most guesses
    in a row, by the number of tokens written. later: the shape once there are some. seed: of the
    tables. mask: makes the mask, in place of one that asks `allowed`.
    """

    name: str
    sampling: Sampling
    shape: tuple[int, ...] = CHAIN2
    later: tuple[int, ...] | None = None
    pick: Pick = "without"
    skill: Skill = "half"
    vocab_size: int = 3
    n_watched: int = 3
    seed: int = 1
    depth: Callable[[int], int] = lambda _: 8
    table: Table | None = None
    guess_law: GuessLaw | None = None
    eos_ids: frozenset[int] = frozenset()
    context_tokens: int = 64
    spelled: tuple[str, ...] = ("a", "b", "c", "d")
    allowed: Allowed | None = None
    mask: Callable[[], TokenMask] | None = None
    prompt: Text = (0, 1)

    def target(self) -> Target:
        """The model and the request, for the reference."""
        return Target(
            table=self.table or random_table(self.vocab_size, seed=self.seed),
            vocab_size=self.vocab_size, prompt=self.prompt, sampling=self.sampling,
            eos_ids=self.eos_ids, context_tokens=self.context_tokens, spelled=self.spelled,
            allowed=self.allowed,
        )  # fmt: skip

    def drafter(self) -> Guesser:
        """The drafter the case names."""
        return Guesser(self.guess_law or skilled(self), self.shape, self.pick, later=self.later)


def skilled(case: Case) -> GuessLaw:
    """A law of guesses as good as the case's skill says; remembered per text."""
    target = case.target()
    other = random_table(case.vocab_size, seed=case.seed + 77, sharpness=1.0)
    known: dict[Text, Tensor] = {}

    def law(text: Text) -> Tensor:
        if text not in known:
            p_V = torch.tensor(target.law(text), dtype=torch.float64)
            q_V = other((*case.prompt, *text)).softmax(0)
            half = (p_V + q_V) / 2 if p_V.any() else q_V
            known[text] = {"self": p_V, "half": half, "random": q_V}[case.skill]
        return known[text]

    return law


class World:
    """One runtime, one drafter and the sequences they serve, advanced a round at a time."""

    def __init__(
        self, cases: Seq[Case], drafter: Drafter, coins_at: CoinsAt, *, traced: bool = False
    ) -> None:
        first = cases[0]
        self.n_watched = first.n_watched
        self.depth = first.depth
        self.drafter = drafter
        self.traced = traced
        self.rounds: list[Round] = []
        self.runtime = TableRuntime(
            first.target().table, vocab_size=first.vocab_size,
            context_tokens=first.context_tokens, eos_ids=first.eos_ids,
        )  # fmt: skip
        self.sequences = [self._open(key, case, coins_at) for key, case in enumerate(cases)]
        self._shared: list[object] = [
            drafter, self.runtime.traits, self.depth, coins_at, first.spelled,
            *(c.sampling for c in cases), *(c.sampling.stop for c in cases),
            *(s.history.prompt for s in self.sequences),
        ]  # fmt: skip

    def _open(self, key: int, case: Case, coins_at: CoinsAt) -> Sequence:
        mask: TokenMask | None = case.mask() if case.mask else None
        if mask is None and case.allowed:
            mask = Grammar(case.allowed, case.vocab_size)
        sequence = Sequence(
            key=key, prompt=case.prompt, sampling=case.sampling, seed=key,
            traits=self.runtime.traits, mask=mask, coins_at=coins_at,
            stops=Scan(case.spelled, case.sampling.stop) if case.sampling.stop else None,
        )  # fmt: skip
        sequence.n_computed = self.runtime.open(key, sequence.tokens)
        return sequence

    def step(self) -> None:
        open_ones = [s for s in self.sequences if not self._over(s)]
        turns = [
            Turn(
                sequence=s, catch_up=s.behind, max_nodes=16, max_depth=self.depth(len(s.output)),
                traced=self.traced,
            )
            for s in open_ones
        ]  # fmt: skip
        self.rounds = one_round(self.runtime, self.drafter, turns, lambda: 0.0)
        for s in open_ones:
            if s.finish is None and s.behind != 1:
                raise ContractError(f"{s.behind} tokens behind after a round")

    def _over(self, s: Sequence) -> bool:
        return s.finish is not None or len(s.output) >= self.n_watched

    @property
    def done(self) -> bool:
        return all(self._over(s) for s in self.sequences)

    @property
    def size(self) -> int:
        return sum(len(s.output) for s in self.sequences)

    @property
    def state(self) -> Hashable:
        return tuple((tuple(s.output), s.finish) for s in self.sequences)

    @property
    def outcome(self) -> Hashable:
        each = tuple(self._watched(s) for s in self.sequences)
        return each[0] if len(each) == 1 else each

    def _watched(self, s: Sequence) -> tuple[Text, str | None]:
        n = self.n_watched
        wanted = len(s.output) + (s.finish == "error")  # the token there is none of
        return tuple(s.output[:n]), s.finish if wanted <= n else None

    def fork(self) -> "World":
        self.rounds = []
        return deep_fork(self, (self._shared, *self._shared))


def walk(case: Case, drafter: Drafter | None = None) -> Walk:
    """The law of the real code on this case."""
    oracle = Oracle()
    return law_of(World([case], drafter or case.drafter(), oracle.coins), oracle)


def check(case: Case, drafter: Drafter | None = None) -> Walk:
    """Walk the case.

    Raises:
        LawError: some text is more or less likely than the target alone makes it.
    """
    found = walk(case, drafter)
    gap, where = worst(found.law, case.target().texts(case.n_watched))
    if not gap <= TOLERANCE:
        raise LawError(f"{case.name}: off by {gap:.3g} at {where}")
    return found


def error(case: Case, drafter: Drafter | None = None) -> float:
    """Total variation between the real code's law and the target's."""
    found, wanted = walk(case, drafter).law, case.target().texts(case.n_watched)
    return sum(abs(found.get(k, 0.0) - wanted.get(k, 0.0)) for k in {*found, *wanted}) / 2


def ident(case: Case) -> str:
    """A readable test id."""
    return re.sub(r"[^\w.+=-]+", "-", case.name)
