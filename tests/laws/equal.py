"""Long texts on the table model, written with and without guesses: they must be the same ids."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import cache

from torch import Tensor

from laws.guessers import CHAIN2, Guesser, Pick
from laws.oracle import LawError
from laws.reference import Text
from laws.world import Skill
from outpace.core.draft import Drafter
from outpace.core.repeat import Turn, one_round
from outpace.core.sampling import Sampling
from outpace.core.sequence import Sequence
from outpace.drafters.none import NoDrafter
from outpace.runtimes.toy import TableRuntime, random_table

V = 24
TABLE = random_table(V, seed=4, sharpness=1.2)
_OTHER = random_table(V, seed=5, sharpness=1.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How a text is written; none of it may show in the text.

    depth, nodes: limits per round; both shrink and grow along the text if `wavering`. chunk:
    tokens read per pass while behind. n_batch: requests that share every pass. evict_every:
    rounds after which the runtime loses all it keeps, 0 = never.
    """

    shape: tuple[int, ...] = CHAIN2
    pick: Pick = "chosen"
    skill: Skill = "half"
    depth: int = 8
    wavering: bool = False
    chunk: int = 512
    n_batch: int = 1
    evict_every: int = 0

    def drafter(self, prompts: Seq[Text]) -> Drafter:
        """The drafter; it reads the text alone, so one serves the whole batch."""
        known: dict[Text, Tensor] = {}
        skill = self.skill

        def law(text: Text) -> Tensor:
            tail = text[-2:]
            if tail not in known:
                mine = skill == "self" or (skill == "half" and sum(tail) % 2 == 0)
                known[tail] = (TABLE if mine else _OTHER)(tail).softmax(0)
            return known[tail]

        return Guesser(law, self.shape, self.pick)


def prompt(i: int) -> Text:
    """A prompt of 40 tokens."""
    return tuple((7 * i + j * j) % V for j in range(40))


def write(sampling: Sampling, how: How, drafter: Drafter | None = None) -> list[list[int]]:
    """The texts of a batch of requests."""
    runtime = TableRuntime(TABLE, vocab_size=V, eos_ids=frozenset({3}))
    drafter = drafter or how.drafter([prompt(i) for i in range(how.n_batch)])
    sequences = [
        Sequence(key=i, prompt=prompt(i), sampling=sampling, seed=i, traits=runtime.traits)
        for i in range(how.n_batch)
    ]
    for s in sequences:
        s.n_computed = runtime.open(s.key, s.tokens)
    n_rounds = 0
    while open_ones := [s for s in sequences if s.finish is None]:
        n_rounds += 1
        depth = n_rounds % (how.depth + 1) if how.wavering else how.depth
        turns = [
            Turn(sequence=s, catch_up=min(s.behind, how.chunk), max_nodes=16, max_depth=depth)
            for s in open_ones
        ]
        one_round(runtime, drafter, turns, lambda: 0.0)
        for s in sequences:
            if s.finish is not None:
                runtime.close(s.key)
            elif how.evict_every and n_rounds % how.evict_every == 0:
                runtime.close(s.key)
                s.n_computed = runtime.open(s.key, s.tokens)
    runtime.check_integrity()
    return [s.output for s in sequences]


@cache
def plain(seed: int | None, n_tokens: int) -> list[int]:
    """The first request's text without guesses, without processors."""
    (text,) = write(bare(seed, n_tokens), How(), NoDrafter())
    return text


def bare(seed: int | None, n_tokens: int) -> Sampling:
    """Temperature 0 without a seed, 0.8 with one."""
    return Sampling(
        temperature=0.0 if seed is None else 0.8, seed=seed, max_tokens=n_tokens, ignore_eos=True
    )


def check_same_text(
    how: How = How(pick="coupled"), seed: int | None = 11, n: int = 64
) -> None:  # frozen
    """Compare the first request's text with the one written without guesses."""
    found = write(bare(seed, n), how)[0]
    wanted = plain(seed, n)
    if found != wanted:
        at = next(i for i, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b)
        raise LawError(f"{how}: token {at} is {found[at]}, without guesses {wanted[at]}")
