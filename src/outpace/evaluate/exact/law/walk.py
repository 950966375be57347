"""Cases walked through the real `one_round`: every path, its probability, against the reference."""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from outpace.core.repeat import Turn, one_round
from outpace.core.sampling import RULES, Rule, Sampling
from outpace.core.sequence import CoinsAt, Sequence
from outpace.evaluate.exact.law.chance import Oracle, deep_fork, law_of, worst
from outpace.evaluate.exact.law.guesser import CHAIN, ELBOW, FORK, LATE, Guesser, GuessLaw, Pick
from outpace.evaluate.exact.law.target import Target, Text
from outpace.runtimes.toy import TableRuntime, random_table

_V, _WATCHED = 3, 3
_PROMPT: Text = (0, 1)
_WARM = Sampling(temperature=0.9)
_PICKS: dict[Rule, tuple[Pick, ...]] = {
    "match": ("chosen", "coupled"),
    "token": ("chosen", "without", "with"),
    "block": ("chosen", "without"),
    "traversal": ("chosen", "without", "with"),
}
_SHAPES = {"chain": CHAIN, "fork": FORK, "elbow": ELBOW, "late": LATE}
_PROCESSORS = {
    "greedy": Sampling(temperature=0),
    "cold": Sampling(temperature=0.05),
    "top_k": replace(_WARM, top_k=2),
    "top_p": replace(_WARM, top_p=0.7),
    "min_p": replace(_WARM, min_p=0.3),
    "penalties": replace(
        _WARM, repetition_penalty=1.3, presence_penalty=0.5, frequency_penalty=0.7
    ),
    "bias": replace(_WARM, logit_bias={0: 1.5, 2: -0.7}),
    "banned": replace(_WARM, banned=((1, 2), (0, 0))),
    "forced": replace(_WARM, forced=(2, 0)),
    "seeded": replace(_WARM, seed=5),
    "stop id": replace(_WARM, stop_token_ids=frozenset({2})),
    "two tokens": replace(_WARM, max_tokens=2),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request on a random table of three tokens, guessed from half its law and half another."""

    name: str
    sampling: Sampling
    shape: tuple[int, ...]
    pick: Pick
    seed: int
    eos_ids: frozenset[int] = frozenset()

    def target(self) -> Target:
        """The model and the request, for the reference."""
        return Target(
            table=random_table(_V, seed=self.seed), vocab_size=_V, prompt=_PROMPT,
            sampling=self.sampling, eos_ids=self.eos_ids,
        )  # fmt: skip

    def guess_law(self) -> GuessLaw:
        """Half the target's law, half that of another table."""
        target, other = self.target(), random_table(_V, seed=self.seed + 77, sharpness=1.0)
        known: dict[Text, Tensor] = {}

        def law(text: Text) -> Tensor:
            if text not in known:
                p_V = torch.tensor(target.law(text), dtype=torch.float64)
                q_V = other((*_PROMPT, *text)).softmax(0)
                known[text] = (p_V + q_V) / 2 if p_V.any() else q_V
            return known[text]

        return law


def cases() -> list[Case]:
    """Every rule with every tree and kind of guess it takes; every processor and end with each
    rule; lengths that end inside a block."""
    found = [
        Case(
            name=f"{rule}, {shape}, {pick}", sampling=replace(_WARM, rule=rule),
            shape=_SHAPES[shape], pick=pick, seed=seed,
        )
        for seed, shape in enumerate(_SHAPES)
        for rule in RULES
        if rule != "block" or shape == "chain"
        for pick in _PICKS[rule]
    ]  # fmt: skip
    for seed, (name, sampling) in enumerate(_PROCESSORS.items()):
        coupled = sampling.seed is not None
        for rule in ("match",) if sampling.greedy or coupled else RULES:
            pick: Pick = "coupled" if coupled else "chosen" if rule == "match" else "without"
            shape = CHAIN if rule == "block" else ELBOW
            ruled = sampling if sampling.greedy or coupled else replace(sampling, rule=rule)
            found.append(
                Case(name=f"{name}, {rule}", sampling=ruled, shape=shape, pick=pick, seed=seed + 10)
            )
    ended = Case(
        name="eos", sampling=replace(_WARM, min_tokens=1), shape=CHAIN, pick="without", seed=30,
        eos_ids=frozenset({1}),
    )  # fmt: skip
    return [*found, ended]


class World:
    """One request on one runtime, a round at a time; `chance.Run`."""

    def __init__(self, case: Case, coins_at: CoinsAt) -> None:
        self.runtime = TableRuntime(
            random_table(_V, seed=case.seed), vocab_size=_V, eos_ids=case.eos_ids
        )
        self.drafter = Guesser(case.guess_law(), case.shape, case.pick)
        self.sequence = Sequence(
            key=0, prompt=_PROMPT, sampling=case.sampling, seed=0, traits=self.runtime.traits,
            coins_at=coins_at,
        )  # fmt: skip
        self.sequence.n_computed = self.runtime.open(0, self.sequence.tokens)
        self._shared: list[object] = [
            self.drafter, self.runtime.traits, coins_at, case.sampling, case.sampling.stop,
            self.sequence.history.prompt,
        ]  # fmt: skip

    def step(self) -> None:
        turn = Turn(sequence=self.sequence, catch_up=self.sequence.behind, max_nodes=8, max_depth=8)
        one_round(self.runtime, self.drafter, [turn], lambda: 0.0)

    @property
    def done(self) -> bool:
        return self.sequence.finish is not None or len(self.sequence.output) >= _WATCHED

    @property
    def size(self) -> int:
        return len(self.sequence.output)

    @property
    def state(self) -> Hashable:
        return tuple(self.sequence.output), self.sequence.finish

    @property
    def outcome(self) -> Hashable:
        sequence = self.sequence
        wanted = len(sequence.output) + (sequence.finish == "error")
        finish = sequence.finish if wanted <= _WATCHED else None
        return tuple(sequence.output[:_WATCHED]), finish

    def fork(self) -> "World":
        return deep_fork(self, (self._shared, *self._shared))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The largest difference of a probability in all cases, and where it is."""

    worst: float
    at: str
    cases: int
    paths: int
    seconds: float


def gap(chosen: list[Case] | None = None, *, tell: Callable[[str], None] = lambda _: None) -> Gap:
    """Walk the cases; all of them unless some are chosen."""
    began = time.perf_counter()
    largest, where, paths = 0.0, "nowhere", 0
    walked = cases() if chosen is None else chosen
    for case in walked:
        tell(case.name)
        oracle = Oracle()
        walk = law_of(World(case, oracle.coins), oracle)
        paths += walk.n_runs
        off, at = worst(walk.law, case.target().texts(_WATCHED))
        if not off <= largest:
            largest, where = off, f"{case.name}: {at}"
    return Gap(
        worst=largest, at=where, cases=len(walked), paths=paths,
        seconds=time.perf_counter() - began,
    )  # fmt: skip
