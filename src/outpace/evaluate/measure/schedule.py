"""Who is asked what, in which order: pure, so that a resumed run finds the same order again.

A block asks every prompt once per temperature, of every arm. It is made of groups, as many
requests as there are streams; within a group the arms take turns, so that each answers the same
requests next to the other in time. `ABBA` turns the order round with every group and every block.
"""

import random
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol

from outpace.core.sampling import Sampling as Request
from outpace.evaluate.plan.data import Design, Sampling

_BLOCK_SEED, _GROUP_SEED = 1_000_003, 7919


class Question(Protocol):
    """What an `evaluate.data.Item` is to a schedule: a prompt, with all that follows it."""

    @property
    def id(self) -> str:
        """Names it in records."""

    @property
    def category(self) -> str:
        """Of prompts."""

    @property
    def messages(self) -> tuple[Mapping[str, str], ...]:
        """What is sent first."""

    @property
    def later(self) -> tuple[str, ...]:
        """Turns after the first answer."""

    @property
    def n_turns(self) -> int:
        """Requests it takes."""

    @property
    def temperatures(self) -> tuple[float, ...]:
        """At which it is asked."""

    def at(self, temperature: float) -> Mapping[str, str]:
        """Its subgroups at that temperature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A prompt at a temperature; place: of the prompt among all, which the seed follows."""

    question: Question
    temperature: float
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Requests that run together, and the order in which arms answer them."""

    repeat: int
    index: int
    asks: tuple[Ask, ...]
    arms: tuple[str, ...]


def blocks(design: Design, questions: Seq[Question], arms: Seq[str]) -> Iterator[tuple[Group, ...]]:
    """The groups of each block, in order."""
    asks = [
        Ask(question=question, temperature=temperature, place=place)
        for place, question in enumerate(questions)
        for temperature in question.temperatures
    ]
    size = design.streams if design.paired else max(len(asks), 1)
    for repeat in range(design.blocks):
        shuffled = list(asks)
        random.Random(_BLOCK_SEED * design.seed + repeat).shuffle(shuffled)  # noqa: S311
        cut = [tuple(shuffled[at : at + size]) for at in range(0, len(shuffled), size)]
        yield tuple(
            Group(repeat=repeat, index=i, asks=part, arms=_order(design, arms, repeat, i))
            for i, part in enumerate(cut)
        )


def request(ask: Ask, sampling: Sampling, *, seed: int) -> Request:
    """How an ask is sampled; seeds are the same for every arm and block."""
    greedy = ask.temperature == 0
    return Request(
        temperature=ask.temperature,
        top_p=1.0 if greedy else sampling.top_p,
        top_k=0 if greedy else sampling.top_k,
        min_p=0.0 if greedy else sampling.min_p,
        max_tokens=sampling.max_tokens,
        ignore_eos=sampling.ignore_eos,
        seed=None if greedy else seed + ask.place,
    )


def _order(design: Design, arms: Seq[str], repeat: int, index: int) -> tuple[str, ...]:
    if design.order == "random":
        mixed = random.Random(_GROUP_SEED * (design.seed + 1) + 104_729 * repeat + index)  # noqa: S311
        return tuple(mixed.sample(list(arms), len(arms)))
    turned = design.order == "ABBA" and (repeat + index) % 2
    return tuple(reversed(arms)) if turned else tuple(arms)
