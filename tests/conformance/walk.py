"""Walk a runtime through its verbs and compare every row with the truth."""

import random
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from torch import Tensor

from outpace.core.score import Rows, Runtime, Scores

Truth = Callable[[tuple[int, ...]], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A runtime on trial; test_runtimes.py says how. tolerance: largest difference of a logit."""

    make: Callable[[int | None], Runtime]
    tolerance: float
    truth: Truth | None = None


class Reader:
    """Walks a runtime and remembers what every sequence has kept."""

    def __init__(self, trial: Trial, room: int | None = None) -> None:
        self.trial = trial
        self.runtime = trial.make(room)
        self.texts: dict[int, list[int]] = {}

    def open(self, key: int, text: Seq[int]) -> Tensor:
        """Begin, read all of `text` and keep it; logits of the rows that needed a pass."""
        known = self.runtime.open(key, text)
        assert 0 <= known < len(text), "at least the last token is left to compute"
        n = len(text) - known
        logits = self.step(key, text[known:], chain(n))
        self.runtime.keep(key, range(n))
        self.texts[key] = list(text)
        return logits

    def rows(self, key: int, tokens: Seq[int], parents: Seq[int]) -> Rows:
        self.runtime.reserve(key, len(tokens))
        return Rows(key=key, tokens=tokens, parents=parents, asked=range(len(tokens)))

    def step(self, key: int, tokens: Seq[int], parents: Seq[int]) -> Tensor:
        """One pass over one sequence; logits of every row."""
        return logits_of(self.runtime.extend([self.rows(key, tokens, parents)])[0])

    def keep(self, key: int, tokens: Seq[int], path: Seq[int]) -> None:
        """Keep a path of the rows that `tokens` were."""
        self.runtime.keep(key, path)
        self.texts[key] += [tokens[i] for i in path]

    def truth(self, text: Seq[int]) -> Tensor:
        """Logits after `text`, by other means."""
        if self.trial.truth is not None:
            return self.trial.truth(tuple(text))
        runtime = self.trial.make(None)
        runtime.open(0, text)
        runtime.reserve(0, len(text))
        last = len(text) - 1
        rows = Rows(key=0, tokens=list(text), parents=chain(len(text)), asked=[last])
        found = logits_of(runtime.extend([rows])[0])[0]
        runtime.close(0)
        return found

    def check(self, logits_AV: Tensor, texts: Seq[Seq[int]]) -> None:
        for logits_V, text in zip(logits_AV, texts, strict=True):
            apart = float((logits_V - self.truth(text)).abs().max())
            assert apart <= self.trial.tolerance, f"{apart} apart after {text}"


def chain(n: int) -> list[int]:
    return list(range(-1, n - 1))


def path_to(parents: Seq[int], row: int) -> list[int]:
    path: list[int] = []
    while row != -1:
        path.append(row)
        row = parents[row]
    return path[::-1]


def logits_of(scores: Scores) -> Tensor:
    assert scores.logits_AV is not None
    return scores.logits_AV


def words(n: int, seed: int, vocab_size: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(vocab_size) for _ in range(n)]
