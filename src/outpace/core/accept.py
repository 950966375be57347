"""Stage 3, accept: which guesses survive. Four rules, each for trees; a chain is a tree.

match      keep guesses while they equal the target's own token (any guesses; the rule of
           temperature 0 and of seeds).
token      child by child: accept x with probability min(1, p(x)/q(x)), else subtract q
           (Leviathan et al. 2211.17192; for sets of chosen guesses, SpecInfer 2305.09781).
block      a whole drawn chain at once (Sun et al. 2403.10444); never keeps less than token.
traversal  a whole drawn tree, leaf to root (2505.12398); block is its chain case.

Each returns the path kept and the weights the next token must be drawn from, so that stage 4
needs to know nothing about rules.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import torch
from torch import Tensor

from outpace.core.coins import Coins, Purpose
from outpace.core.draft import ROOT, Draft
from outpace.core.law import Laws
from outpace.core.resample import residual
from outpace.core.sampling import Rule, Sampling
from outpace.errors import CapabilityError, ContractError


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One decision about one guess, with the numbers that led to it.

    p, q: the target's and the draft's (remaining) probability of the token. weight: how much of
    the path above survives (P or a in the papers; 1 for match and token). mass: the residual's
    total when the guess's subtree was weighed (block, traversal), else 0. a: the probability
    with which it is kept.
    """

    node: int
    token: int
    p: float
    q: float
    weight: float
    mass: float
    a: float
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The end of stage 3.

    path: nodes kept, top down. row: the row whose law rules the next token (0 = the root's).
    weights_V: what to draw it from, any scale; None = the target's own choice at `row`.
    """

    rule: Rule
    path: tuple[int, ...]
    row: int
    weights_V: Tensor | None
    judgements: tuple[Judgement, ...] = ()


def choose_rule(sampling: Sampling, draft: Draft) -> Rule:
    """The rule for this draft: what the caller named, or the best exact one.

    Raises:
        CapabilityError: the named rule cannot verify such a draft.
    """
    if sampling.rule is not None:
        if sampling.rule == "block" and not draft.is_chain:
            raise CapabilityError(
                "rule 'block' verifies chains, and the drafter offered a tree; "
                "use 'traversal', or a drafter that guesses chains"
            )
        return sampling.rule
    if sampling.greedy or sampling.seed is not None:
        return "match"
    if not draft.drawn:
        return "token"
    return "block" if draft.is_chain else "traversal"


def accept(rule: Rule, draft: Draft, laws: Laws, coins: Coins, start: int) -> Verdict:
    """Apply `rule`; `start` is the absolute position of the first guess."""
    return _RULES[rule](draft, laws, coins, start)


def match(draft: Draft, laws: Laws, coins: Coins, start: int) -> Verdict:
    """Keep guesses while they are the target's own tokens."""
    node, path, judged = ROOT, list[int](), list[Judgement]()
    while True:
        children = _children(draft, node, laws)
        if not children:
            break
        y = laws.choice(node + 1, start + len(path), coins)
        kept = next((c for c in children if draft.tokens[c] == y), None)
        judged.extend(
            _judged(draft, c, p=float(draft.tokens[c] == y), a=float(c == kept), kept=c == kept)
            for c in children
        )
        if kept is None:
            break
        path.append(kept)
        node = kept
    return Verdict(
        rule="match", path=tuple(path), row=node + 1, weights_V=None, judgements=tuple(judged)
    )


def token(draft: Draft, laws: Laws, coins: Coins, start: int) -> Verdict:
    """Keep guesses one by one, each by its own coin."""
    node, path, judged = ROOT, list[int](), list[Judgement]()
    while True:
        p_V = laws.law(node + 1)
        kept = None
        for child, q_V in _siblings(draft, _children(draft, node, laws), p_V):
            x = draft.tokens[child]
            p, q = float(p_V[x]), float(q_V[x])
            a = ratio(p, q)
            won = coins.bernoulli(a, Purpose.ACCEPT, start + len(path), child)
            judged.append(_judged(draft, child, p=p, q=q, a=a, kept=won))
            if won:
                kept = child
                break
            p_V = residual(p_V, q_V)
        if kept is None:
            break
        path.append(kept)
        node = kept
    return Verdict(
        rule="token", path=tuple(path), row=node + 1, weights_V=p_V, judgements=tuple(judged)
    )


def block(draft: Draft, laws: Laws, coins: Coins, start: int) -> Verdict:
    """Keep the longest prefix that its own weight supports; no early exit (2403.10444, alg. 2)."""
    nodes, p_NV, q_NV, weights = list[int](), [laws.law(0)], list[Tensor](), [1.0]
    # A guess of weight 0 is lost with all that follows it; nothing below it is looked at.
    while weights[-1] > 0 and (children := _children(draft, nodes[-1] if nodes else ROOT, laws)):
        (node,) = children
        x, q_V = draft.tokens[node], _law_of(draft, node, p_NV[0])
        weights.append(scaled_ratio(weights[-1], float(p_NV[-1][x]), float(q_V[x])))
        nodes.append(node)
        q_NV.append(q_V)
        if weights[-1] > 0:
            p_NV.append(laws.law(node + 1))
    n, tau, judged = len(nodes), 0, list[Judgement]()
    for i, node in enumerate(nodes, start=1):
        x, weight = draft.tokens[node], weights[i]
        p, q = float(p_NV[i - 1][x]), float(q_NV[i - 1][x])
        mass = 0.0 if i == n else _excess(weight, p_NV[i], q_NV[i])
        h = weight if i == n else share(mass, weight)
        won = coins.bernoulli(h, Purpose.ACCEPT, start + i - 1, node)
        judged.append(_judged(draft, node, p=p, q=q, weight=weight, mass=mass, a=h, kept=won))
        if won:
            tau = i
    rest_V = p_NV[n] if tau == n else residual(weights[tau] * p_NV[tau], q_NV[tau], or_V=p_NV[tau])
    return Verdict(
        rule="block", path=tuple(nodes[:tau]), row=nodes[tau - 1] + 1 if tau else 0,
        weights_V=rest_V, judgements=tuple(judged),
    )  # fmt: skip


def traversal(draft: Draft, laws: Laws, coins: Coins, start: int) -> Verdict:
    """Verify leaf to root: a node is judged after all its subtrees were rejected (2505.12398)."""
    judged: list[Judgement] = []

    def verify(node: int, weight: float, p: float, q: float) -> tuple[list[int], Tensor] | None:
        if weight == 0:  # lost with all that follows it; nothing below it is looked at
            judged.append(_judged(draft, node, p=p, q=q, weight=0.0, a=0.0, kept=False))
            return None
        p_V = laws.law(node + 1)
        a = weight
        for child, q_V in _siblings(draft, _children(draft, node, laws), p_V):
            x = draft.tokens[child]
            px, qx = float(p_V[x]), float(q_V[x])
            below = verify(child, scaled_ratio(a, px, qx), px, qx)
            if below is not None:
                return [child, *below[0]], below[1]
            mass = _excess(a, p_V, q_V)
            p_V = residual(a * p_V, q_V, or_V=p_V)
            a = share(mass, a)
        if node == ROOT:
            return [], p_V
        depth = draft.depths[node]
        won = coins.bernoulli(a, Purpose.ACCEPT, start + depth - 1, node)
        judged.append(_judged(draft, node, p=p, q=q, weight=weight, a=a, kept=won))
        return ([], p_V) if won else None

    found = verify(ROOT, 1.0, 1.0, 1.0)
    if found is None:  # the root is never judged
        raise AssertionError("the root always survives")
    path, rest_V = found
    return Verdict(
        rule="traversal", path=tuple(path), row=path[-1] + 1 if path else 0,
        weights_V=rest_V, judgements=tuple(judged),
    )  # fmt: skip


_RULES = {"match": match, "token": token, "block": block, "traversal": traversal}


def ratio(p: float, q: float) -> float:
    """min(1, p/q); 1 where p >= q, so a guess the target likes as much is never lost to rounding.

    q = 0 with p = 0 cannot be drawn; it counts as 0.
    """
    return (1.0 if p > 0 else 0.0) if p >= q else p / q


def scaled_ratio(weight: float, p: float, q: float) -> float:
    """min(1, weight * p/q)."""
    return min(1.0, weight * (p / q)) if q > 0 else float(p > 0)


def share(mass: float, weight: float) -> float:
    """R / (R + 1 - P): how likely a prefix is kept once what follows it was not. 0/0 is 1.

    1 - P first: it is exact, so a tiny R cannot be rounded away and the share never passes 1.
    """
    rest = mass + (1.0 - weight)
    return mass / rest if rest > 0 else 1.0


def _excess(weight: float, p_V: Tensor, q_V: Tensor) -> float:
    excess_V = (weight * p_V - q_V).clamp_min(0)
    return float(excess_V.sum(dtype=torch.float64))


def _law_of(draft: Draft, node: int, like_V: Tensor) -> Tensor:
    """The law a guess was drawn from; a chosen guess is a draw from a one-hot law."""
    if draft.drawn:
        return draft.law(node).to(like_V.dtype)
    law_V = torch.zeros_like(like_V)
    law_V[draft.tokens[node]] = 1
    return law_V


def _children(draft: Draft, node: int, laws: Laws) -> tuple[int, ...]:
    """The guesses after `node`; none where the target allows no token at all."""
    children = draft.children[node + 1]
    return () if children and laws.dead(node + 1) else children


def _siblings(draft: Draft, children: Seq[int], like_V: Tensor) -> Seq[tuple[int, Tensor]]:
    """Children in draw order, each with the law it was drawn from given its elder siblings."""
    pairs: list[tuple[int, Tensor]] = []
    elder: list[int] = []
    for child in children:
        q_V = _law_of(draft, child, like_V)
        if draft.drawn and not draft.replacement and elder:
            q_V = q_V.clone()
            q_V[elder] = 0
            left = q_V.sum()
            if not left > 0:
                raise ContractError(
                    f"guess {child} was drawn without replacement, and its elder siblings "
                    f"{elder} had used up the whole law"
                )
            q_V = q_V / left
        pairs.append((child, q_V))
        elder.append(draft.tokens[child])
    return pairs


def _judged(
    draft: Draft, node: int, *, p: float, a: float, kept: bool,
    q: float = 1.0, weight: float = 1.0, mass: float = 0.0,
) -> Judgement:  # fmt: skip
    return Judgement(
        node=node, token=draft.tokens[node], p=p, q=q, weight=weight, mass=mass, a=a, kept=kept
    )
