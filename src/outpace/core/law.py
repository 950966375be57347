"""Logits -> law: what each row of a pass makes of the next token, after every processor.

Order (that of vLLM and transformers): penalties, bias, bans, forced, grammar; then temperature;
then top-k, top-p, min-p. Every row reads the committed text *plus the guesses before it*.

Everything works on one row at a time, in a fixed order of operations. A row's law therefore
depends on that row alone, bit by bit, whatever shares its pass: the coupled text of a seeded
request needs exactly that.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outpace.core.coins import Coins
from outpace.core.sampling import Sampling
from outpace.core.score import likeliest
from outpace.errors import ContractError

# Tried first when looking for the likeliest tokens; doubled thrice until it suffices.
_FIRST_LOOK = 64


class TokenMask(Protocol):
    """A grammar, or anything else that says which tokens may follow; it serves one sequence.

    Write one by subclassing: only `allowed` and `advance` have to be there.
    """

    def allowed(self, guesses: Seq[int]) -> Tensor | None:
        """Which tokens may follow the committed text plus `guesses`: bool [V], None = all.

        A function of the tokens alone: whatever was asked in between, the answer is the same.
        """

    def advance(self, token: int) -> None:
        """The committed text grew by `token`; told of each once, preempted or not."""

    def accepts(self, guesses: Seq[int], token: int) -> bool:
        """Whether `token` may follow the committed text plus `guesses`."""
        allowed_V = self.allowed(guesses)
        return allowed_V is None or bool(allowed_V[token])

    def forced(self, guesses: Seq[int]) -> Seq[int]:  # noqa: ARG002 - for masks that know
        """Tokens that must follow `guesses`, as far as is known: guesses that cannot fail."""
        return ()


@dataclass(slots=True)
class History:
    """Which tokens the committed text has: what penalties, bans and forced tokens read."""

    prompt: Seq[int]
    output: list[int] = field(default_factory=list)

    def seen(self, guesses: Seq[int] = ()) -> tuple[Tensor, Tensor]:
        """Token ids [U] of prompt, text and guesses, and their counts [U] outside the prompt."""
        later = [*self.output, *guesses]
        ids, where = np.unique([*self.prompt, *later], return_inverse=True)
        counts = np.bincount(where[len(self.prompt) :], minlength=len(ids))
        return torch.from_numpy(ids), torch.from_numpy(counts)


def one_hot(token: int, like_V: Tensor) -> Tensor:
    """The law that always says `token`, shaped like `like_V`."""
    law_V = torch.zeros_like(like_V)
    law_V[token] = 1
    return law_V


def _array(x_V: Tensor) -> NDArray[Any]:
    """A row as NumPy's, whose selection takes a tenth of torch's time for a whole vocabulary."""
    return x_V.detach().cpu().numpy()  # no memory moves on a CPU


def keep_likeliest(p_V: Tensor, n: int) -> Tensor:
    """Zero all but the n largest entries of p; among equals the lowest ids stay."""
    x_V = _array(p_V)
    likely_N = x_V[x_V > 0]  # many equal values, zeros above all, would slow the selection down
    if n >= len(likely_N):
        return p_V
    bar = np.partition(likely_N, len(likely_N) - n)[len(likely_N) - n]
    above_V = x_V > bar
    kept_V = x_V * above_V
    kept_V[np.flatnonzero(x_V == bar)[: n - np.count_nonzero(above_V)]] = bar
    return torch.from_numpy(kept_V).to(p_V.device)


def nucleus_size(p_V: Tensor, top_p: float) -> int:
    """The fewest likeliest entries of the law p whose sum reaches top_p (Holtzman et al. 2020).

    Looks at a growing head of the law, so that a peaked one never pays for a sort of everything.
    """
    look, x_V = _FIRST_LOOK, _array(p_V)
    likely_N = x_V[x_V > 0]
    while True:
        rest = max(len(likely_N) - look, 0)
        head = np.sort(np.partition(likely_N, rest)[rest:])[::-1].cumsum(dtype=np.float64)
        reached = int(np.searchsorted(head, top_p))
        if reached < len(head):
            return reached + 1
        if not rest:
            return len(x_V)
        look *= 8


def filter_support(p_V: Tensor, sampling: Sampling) -> Tensor:
    """Apply top-k, top-p (on what top-k left, rescaled) and min-p to a law; not rescaled."""
    if sampling.top_k:
        p_V = keep_likeliest(p_V, sampling.top_k)
    if sampling.top_p < 1:
        p_V = keep_likeliest(p_V, nucleus_size(_rescale(p_V), sampling.top_p))
    if sampling.min_p > 0:
        p_V = torch.where(p_V >= sampling.min_p * p_V.max(), p_V, torch.zeros_like(p_V))
    return p_V


def _rescale(weights_V: Tensor) -> Tensor:
    # NumPy adds on one thread, in an order of its own; torch splits long rows among threads.
    return weights_V / float(_array(weights_V).sum())


def fenced(scores_V: Tensor, allowed_V: Tensor) -> Tensor:
    """The same scores where allowed (bool), minus infinity elsewhere.

    x - 0 is x, bit by bit, and x - inf is -inf; filling by a mask takes five times as long.
    """
    fence_V = allowed_V.view(torch.uint8).to(scores_V.dtype).reciprocal_().sub_(1)
    return torch.sub(scores_V, fence_V, out=fence_V)  # a second row would miss the cache


class Laws:
    """The law at each row of one sequence's round, computed when first asked.

    Row 0 follows the committed text, row i + 1 follows guess i. `logits_AV` holds one row each
    (or only `best_A`, the argmax ids, when `sampling.plain_argmax`).

    Where bans, grammar and the like leave no token the row is *dead*: its law is zero everywhere.
    That is an error of the request only if the text really gets there, not if a guess does.
    """

    def __init__(
        self,
        *,
        sampling: Sampling,
        history: History,
        paths: Seq[Seq[int]],
        logits_AV: Tensor | None = None,
        best_A: Seq[int] | None = None,
        mask: TokenMask | None = None,
        eos_ids: frozenset[int] = frozenset(),
    ) -> None:
        if logits_AV is None and (best_A is None or not sampling.plain_argmax or mask):
            raise ContractError("a law that is not a plain argmax needs the rows' logits")
        self._sampling = sampling
        self._history = history
        self._paths = paths
        self._logits_AV = logits_AV
        self._best_A = best_A
        self._mask = mask
        self._ends = sampling.stop_token_ids | (frozenset() if sampling.ignore_eos else eos_ids)
        self._scores: dict[int, Tensor] = {}
        self._likeliest: dict[int, int] = {}  # of the same rows
        self._agrees: dict[int, int | None] = {}
        self._laws: dict[int, Tensor] = {}
        self._choices: dict[int, int] = {}

    def law(self, row: int) -> Tensor:
        """The law at `row`: probabilities [V], one-hot at temperature 0, zero on a dead row."""
        if row not in self._laws:
            scores_V = self.scores(row)
            if self.dead(row):
                self._laws[row] = torch.zeros_like(scores_V)
            elif self._sampling.greedy:
                self._laws[row] = one_hot(self._likeliest[row], scores_V)
            else:
                self._laws[row] = self._warm_law(scores_V)
        return self._laws[row]

    def dead(self, row: int) -> bool:
        """Whether no token may follow `row`."""
        can_die = self._sampling.restricts or self._mask is not None
        if not can_die or self._agreed(row) is not None:
            return False
        scores_V = self.scores(row)
        return float(scores_V[self._likeliest[row]]) == -torch.inf

    def choice(self, row: int, position: int, coins: Coins) -> int:
        """The target's own token at `row`: the argmax, or the draw coupled by position."""
        if row not in self._choices:
            self._choices[row] = self._choose(row, position, coins)
        return self._choices[row]

    def _choose(self, row: int, position: int, coins: Coins) -> int:
        if self._best_A is not None and self._logits_AV is None:
            return int(self._best_A[row])
        agreed = self._agreed(row)
        if agreed is not None:
            return agreed
        if self._sampling.greedy:
            self.scores(row)
            return self._likeliest[row]
        return coins.coupled(self.coupled_scores(row), position)

    def _agreed(self, row: int) -> int | None:
        """The greedy choice where the grammar allows the likeliest token of all.

        Then the mask of the whole row, which costs many times as much, is needed by nobody.
        """
        s = self._sampling
        if self._mask is None or not s.greedy or s.restricts or s.penalises:
            return None
        if row not in self._agrees:
            best = likeliest(self._logits(row))
            allowed = self._mask.accepts(self._paths[row], best)
            self._agrees[row] = best if allowed else None
        return self._agrees[row]

    def coupled_scores(self, row: int) -> Tensor:
        """Log-weights of the law at `row` up to a constant; -inf outside its support."""
        s = self._sampling
        scores_V = self.scores(row)
        warm_V = (scores_V - scores_V.max()) / s.temperature
        if s.top_k or s.top_p < 1 or s.min_p > 0:
            warm_V = warm_V.masked_fill(self.law(row) == 0, -torch.inf)
        return warm_V

    def scores(self, row: int) -> Tensor:
        """Logits after penalties, bias, bans, forced tokens and grammar, before temperature."""
        if row not in self._scores:
            scores_V, path = self._logits(row), self._paths[row]
            if self._sampling.penalises:
                scores_V = self._penalised(scores_V, path)
            if self._sampling.restricts or self._mask is not None:
                scores_V = self._restricted(scores_V, path)
            self._likeliest[row] = likeliest(scores_V)
            self._scores[row] = scores_V
        return self._scores[row]

    def _logits(self, row: int) -> Tensor:
        if self._logits_AV is None:
            raise ContractError("this round asked the runtime for argmax ids only")
        logits_V = self._logits_AV[row]
        if not logits_V.dtype.is_floating_point or logits_V.itemsize < 4:
            logits_V = logits_V.to(torch.float32)
        return logits_V

    def _warm_law(self, scores_V: Tensor) -> Tensor:
        s = self._sampling
        # Subtracting first keeps tiny temperatures finite: the best token stays at exactly 0.
        law_V = ((scores_V - scores_V.max()) / s.temperature).softmax(0)
        kept_V = filter_support(law_V, s)
        return law_V if kept_V is law_V else _rescale(kept_V)

    def _penalised(self, logits_V: Tensor, path: Seq[int]) -> Tensor:
        ids, counts = self._history.seen(path)
        s = self._sampling
        ids, counts = ids.to(logits_V.device), counts.to(logits_V.device)
        x = logits_V[ids]
        x = torch.where(x > 0, x / s.repetition_penalty, x * s.repetition_penalty)
        n = counts.to(x.dtype)  # an integer times a float would be computed in fp32
        x = x - s.presence_penalty * n.clamp_max(1) - s.frequency_penalty * n
        return logits_V.index_copy(0, ids, x)

    def _restricted(self, logits_V: Tensor, path: Seq[int]) -> Tensor:
        s = self._sampling
        if s.restricts:
            logits_V = logits_V.clone()
        n_out = len(self._history.output) + len(path)
        if s.logit_bias:
            ids = torch.tensor(list(s.logit_bias), device=logits_V.device)
            logits_V[ids] += torch.tensor(
                list(s.logit_bias.values()), dtype=logits_V.dtype, device=logits_V.device
            )
        for words in s.banned:
            if len(words) == 1 or self._tail(path, len(words) - 1) == list(words[:-1]):
                logits_V[words[-1]] = -torch.inf
        if n_out < s.min_tokens and self._ends:
            logits_V[sorted(self._ends)] = -torch.inf
        if n_out < len(s.forced):
            logits_V = torch.full_like(logits_V, -torch.inf)
            logits_V[s.forced[n_out]] = 0
        if self._mask is not None:  # last: not even a forced token leaves the grammar
            allowed_V = self._mask.allowed(path)
            if allowed_V is not None:
                logits_V = fenced(logits_V, allowed_V.to(logits_V.device))
        return logits_V

    def _tail(self, path: Seq[int], n: int) -> list[int]:
        return [*self._history.output[-n:], *path][-n:]
