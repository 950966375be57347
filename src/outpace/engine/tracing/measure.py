"""Laws -> numbers: the few entries of each row that a decision can be re-derived from.

A second book-keeping beside `core.accept`: it repeats the same operations in the same order on
the same tensors, so its numbers are bit-equal to those decided with, and replay would notice if
they were not.
"""

import math
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from outpace.core.accept import Verdict
from outpace.core.coins import Purpose, gumbel, noise_bits, toss
from outpace.core.draft import Draft
from outpace.core.law import Laws
from outpace.core.repeat import Round
from outpace.engine.tracing import stage
from outpace.errors import ContractError

# Tokens recorded per row besides the guesses and the chosen one.
N_BEST = 4
# Noise that more than one token in 400 exceeds cannot be left to the best-scored tokens alone.
_REACH = 6.0
# A log-weight whose exponential is 0, and whose product with 0 is not undefined.
_IMPOSSIBLE = -1e300


class _Read(NamedTuple):
    """A row in float64: scores, law, the log-weights it came from, the log of their sum."""

    scores_V: Tensor
    p_V: Tensor
    warm_V: Tensor
    log_total: float


class Measure:
    """The numbers of one traced round; laws are read, never changed."""

    def __init__(self, done: Round) -> None:
        if done.laws is None or done.verdict is None:
            raise ContractError("only a traced round that judged its guesses can be measured")
        self.done = done
        self.laws: Laws = done.laws
        self.draft: Draft = done.draft
        self.verdict: Verdict = done.verdict
        self.next_token = done.next_token
        self.seed = done.turn.sequence.seed
        self.sampling = done.turn.sequence.sampling
        s = self.sampling
        self._filters = s.top_k > 0 or s.top_p < 1 or s.min_p > 0
        self._reads: dict[int, _Read] = {}
        self.dtype = self.laws.scores(self.verdict.row).dtype

    def rows(self) -> list[int]:
        """Rows whose law a decision read."""
        above = {self.draft.parents[j.node] + 1 for j in self.verdict.judgements}
        below = {node + 1 for node in self.reached() if self.draft.children[node + 1]}
        dead = {row for row in below if self.laws.dead(row)}
        return sorted({0, *above, *dead, *(node + 1 for node in self.verdict.path)})

    def reached(self) -> set[int]:
        """Guesses that a decision read."""
        return {*self.verdict.path, *(j.node for j in self.verdict.judgements)}

    def row(self, row: int) -> stage.Row:
        """One row at the tokens that matter, likeliest first; none where no token may follow."""
        if self.laws.dead(row):
            return stage.Row(
                row=row, position=self._position(row), tokens=(), scores=(), p=(),
                log_total=0.0, choice=None, coupled=None, noise=None,
            )  # fmt: skip
        read, position = self._read(row), self._position(row)
        coupled_V = self._coupled(row)
        tokens = self._tokens(row, read.scores_V, coupled_V)
        choice: int | None = None
        if self.sampling.greedy or self.verdict.rule == "match":
            choice = self.laws.choice(row, position, self.done.turn.sequence.coins)
        scores = at(read.scores_V, tokens)
        possible = at(read.warm_V, tokens)
        noise: tuple[float, ...] | None = None
        if coupled_V is not None:
            bits = noise_bits(self.seed, position, np.array(tokens, dtype=np.uint64))
            noise = tuple(float(g) for g in gumbel(bits))
        return stage.Row(
            row=row,
            position=position,
            tokens=tokens,
            scores=tuple(
                s if w > -math.inf else None for s, w in zip(scores, possible, strict=True)
            ),
            p=tuple(at(read.p_V, tokens)),
            log_total=read.log_total,
            choice=choice,
            coupled=None
            if coupled_V is None
            else tuple(x if x > -math.inf else None for x in at(coupled_V, tokens)),
            noise=noise,
        )

    def uncertainty(self, row: int) -> stage.Uncertainty:
        """Entropies of p and q, and their overlap, at one row."""
        if self.laws.dead(row):
            return stage.Uncertainty(entropy_p=0.0, entropy_q=None, overlap=None)
        read = self._read(row)
        p_V = read.p_V.to(torch.float64)
        # -sum of p log p, with log p as it came: log-weight minus the log of their sum.
        spread = torch.dot(p_V, read.warm_V.clamp_min(_IMPOSSIBLE))
        entropy_p = max(0.0, read.log_total - float(spread))
        children = self.draft.children[row]
        entropy_q: float | None = None
        overlap: float | None = None
        if children and self.draft.drawn:
            q_V = self.draft.law(children[0]).detach().cpu()
            entropy_q = float(torch.special.entr(q_V).sum(dtype=torch.float64))
            overlap = float(torch.minimum(p_V, q_V).sum())
        elif children:
            entropy_q = 0.0
            overlap = math.fsum(at(p_V, sorted({self.draft.tokens[c] for c in children})))
        return stage.Uncertainty(entropy_p=entropy_p, entropy_q=entropy_q, overlap=overlap)

    def other_guess(self, node: int) -> tuple[int, int, float] | None:
        """The drafter's likeliest other token where it guessed `node`, with its q."""
        if not self.draft.drawn:
            return None
        top = self.draft.law(node).detach().topk(min(2, self.draft.law(node).shape[0]))
        for token, q in zip(top.indices.tolist(), top.values.tolist(), strict=True):
            if token != self.draft.tokens[node] and q > 0:
                return node, token, q
        return None

    def draw(self) -> stage.Draw | None:
        """The next token's place in the CDF it was drawn from."""
        weights_V, x = self.verdict.weights_V, self.next_token
        if weights_V is None or x is None:
            return None
        cdf_V = weights_V.detach().to(torch.float64).cumsum(0)
        position = self.done.start + len(self.verdict.path)
        return stage.Draw(
            u=toss(self.seed, Purpose.RESAMPLE, self.done.start, position),
            low=float(cdf_V[x - 1]) if x else 0.0,
            high=float(cdf_V[x]),
            total=float(cdf_V[-1]),
            weight=float(weights_V[x]),
        )

    def first_law(self, node: int) -> Tensor:
        """The law `node` was drawn from, in the target's precision; one-hot when chosen."""
        like_V = self.laws.scores(self.draft.parents[node] + 1)
        if self.draft.drawn:
            return self.draft.law(node).to(like_V.dtype)
        law_V = torch.zeros_like(like_V)
        law_V[self.draft.tokens[node]] = 1
        return law_V

    def siblings(self, row: int) -> Iterator[tuple[int, Tensor]]:
        """Children below `row` in draw order, each with its law given its elder siblings."""
        elder: list[int] = []
        for child in () if self.laws.dead(row) else self.draft.children[row]:
            q_V = self.first_law(child)
            if self.draft.drawn and not self.draft.replacement and elder:
                q_V = q_V.clone()
                q_V[elder] = 0
                q_V = q_V / q_V.sum()
            yield child, q_V
            elder.append(self.draft.tokens[child])

    def _position(self, row: int) -> int:
        return self.done.start + (self.draft.depths[row - 1] if row else 0)

    def _read(self, row: int) -> "_Read":
        if row not in self._reads:
            scores_V = self.laws.scores(row).detach().to("cpu", torch.float64)
            warm_V = scores_V - scores_V.max()
            if self.sampling.greedy:
                p_V = warm_V.softmax(0)
            else:
                p_V = self.laws.law(row).detach().cpu()
                warm_V = warm_V / self.sampling.temperature
                if self._filters:  # else p = 0 is a possible token's p, rounded
                    warm_V = warm_V.masked_fill(p_V == 0, -math.inf)
            self._reads[row] = _Read(scores_V, p_V, warm_V, float(warm_V.logsumexp(0)))
        return self._reads[row]

    def _coupled(self, row: int) -> Tensor | None:
        if self.sampling.greedy or self.verdict.rule != "match":
            return None
        return self.laws.coupled_scores(row).detach().to("cpu", torch.float64)

    def _tokens(self, row: int, scores_V: Tensor, coupled_V: Tensor | None) -> tuple[int, ...]:
        found = {self.draft.tokens[child] for child in self.draft.children[row]}
        found.update(scores_V.topk(min(N_BEST, len(scores_V))).indices.tolist())
        found.add(int(scores_V.argmax()))
        if coupled_V is not None:
            found.update(self._contenders(coupled_V, self._position(row)))
        if row == self.verdict.row and self.next_token is not None:
            found.add(self.next_token)
            found.update(token for token, _ in self.next_best())
        return tuple(sorted(found, key=lambda token: (-float(scores_V[token]), token)))

    def next_best(self) -> list[tuple[int, float]]:
        """The likeliest tokens that the next token was chosen over, with their weights."""
        weights_V = self.verdict.weights_V
        if weights_V is None:
            return []
        top = weights_V.topk(min(N_BEST, len(weights_V)))
        pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        return [(t, w) for t, w in pairs if t != self.next_token and w > 0]

    def _contenders(self, coupled_V: Tensor, position: int) -> list[int]:
        """The tokens with the largest sums of log-weight and noise (as in `coupled_choice`)."""
        x_V = coupled_V.numpy()
        bits_V = noise_bits(self.seed, position, np.arange(len(x_V), dtype=np.uint64))
        best = int(x_V.argmax())
        bar = float(x_V[best] + gumbel(bits_V[best : best + 1])[0])
        rare = np.uint64(int(math.exp(-math.exp(-_REACH)) * 2.0**53) << 11)
        near = np.flatnonzero((x_V >= bar - _REACH) | ((bits_V >= rare) & (x_V > -np.inf)))
        sums = x_V[near] + gumbel(bits_V[near])
        return [int(t) for t in near[np.argsort(-sums, kind="stable")[:N_BEST]]]


def at(x_V: Tensor, tokens: Seq[int]) -> list[float]:
    picked: list[float] = x_V[list(tokens)].tolist()
    return picked
