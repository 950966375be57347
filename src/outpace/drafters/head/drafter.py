"""Guess with a trained head: a tree from the hidden states of the last row the target computed.

Of each text only that row is remembered, so nothing has to be kept in step with the target: what
was rejected is forgotten by itself, a beginning that another text computed is not missed (the
last row is always computed), and a preempted text shows its last row again when it comes back.
Observing costs one copy of that row; the head itself runs when it is asked for guesses.

How guesses are picked follows the request:

    chosen   the likeliest tree, best first (temperature 0)
    coupled  by nodes, the largest log q + the position's shared noise, as the target's are picked
    drawn    the likeliest tree too: chosen guesses are exact everywhere, and several of them are
             kept more often than one draw (2305.09781); or, if told so or if the request names
             the rule `block`, a chain drawn from the law that is reported
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
import torch

from outpace.core.coins import Purpose, shared_noise
from outpace.core.draft import NO_GUESS, ROOT, Ask, Draft, Seen
from outpace.drafters.head.files import Head
from outpace.drafters.head.steps import Float32, Grown, Steps
from outpace.drafters.tree import NO_OFFER, Offer
from outpace.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadOptions:
    """What a user can turn.

    width: children a node may have. floor: least path probability offered where the ask does not
    say what a row is worth. draws: whether drawn styles get draws. couples: whether seeded requests
    get guesses under their noise, and not only the likeliest.
    """

    width: int = 8
    floor: float = 0.01
    draws: bool = False
    couples: bool = True

    def __post_init__(self) -> None:
        if self.width < 1 or not 0 <= self.floor < 1:
            raise ConfigError(
                f"a head of width {self.width} and floor {self.floor}; allowed: a width of 1 or "
                "more, a floor from 0 to less than 1"
            )


@dataclass(slots=True)
class _Last:
    """The last row the target computed of a text, and how long the text is after the next token."""

    hidden_F: Float32
    n_tokens: int


class HeadDrafter:
    """Guesses of one head, for all sequences at once.

    steps: runs the head (`steps.py`).
    """

    def __init__(
        self, head: Head, steps: Steps, options: HeadOptions | None = None, *, name: str = "head"
    ) -> None:
        self.name = name
        self.head = head
        self._steps = steps
        self._options = options or HeadOptions()
        self._width = head.config.shape.hidden * len(head.config.shape.taps)
        self._last: dict[int, _Last] = {}

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        chosen = [i for i, ask in enumerate(asks) if not self._draws(ask)]
        offers = iter(self.offers([asks[i] for i in chosen]))
        picked = {i: next(offers).draft() for i in chosen}
        return [picked[i] if i in picked else self._drawn(ask) for i, ask in enumerate(asks)]

    def offer(self, ask: Ask) -> Offer:
        """The likeliest tree, with its estimated chances."""
        return self.offers([ask])[0]

    def offers(self, asks: Seq[Ask]) -> list[Offer]:
        """The same for all asks at once."""
        found: list[Offer] = [NO_OFFER] * len(asks)
        known = [(i, ask, self._row(ask)) for i, ask in enumerate(asks)]
        live = [(i, ask, row) for i, ask, row in known if row is not None]
        coupled = [(i, ask, row) for i, ask, row in live if self._couples(ask)]
        plain = [(i, ask, row) for i, ask, row in live if not self._couples(ask)]
        for i, ask, row_F in coupled:
            found[i] = self._offer(ask, self._coupled(ask, row_F))
        if plain:
            asked = [ask for _, ask, _ in plain]
            trees = self._grow(asked, np.stack([row_F for _, _, row_F in plain]))
            for (i, ask, _), tree in zip(plain, trees, strict=True):
                found[i] = self._offer(ask, tree)
        return found

    def observe(self, seen: Seq[Seen]) -> None:
        """Keep the last row of each text, at depth 0 too."""
        for s in seen:
            if s.hidden_RH is None or not s.tokens:
                continue
            row_F = s.hidden_RH[-1].numpy()
            if len(row_F) != self._width:
                raise ConfigError(
                    f"the target returns hidden states of width {len(row_F)}, the head wants "
                    f"{self._width}; open the target with this drafter's layers"
                )
            self._last[s.key] = _Last(row_F.copy(), s.start + len(s.tokens))

    def forget(self, key: int) -> None:
        self._last.pop(key, None)

    def _draws(self, ask: Ask) -> bool:
        if ask.style != "drawn":
            return False
        return self._options.draws or ask.sampling.rule == "block"

    def _couples(self, ask: Ask) -> bool:
        return self._options.couples and ask.style == "coupled" and not ask.sampling.greedy

    def _row(self, ask: Ask) -> Float32 | None:
        last = self._last.get(ask.key)
        if last is None or last.n_tokens != len(ask.tokens):
            return None
        return last.hidden_F

    def _grow(self, asks: Seq[Ask], hidden_SF: Float32) -> Seq[Grown]:
        width = self._options.width
        return self._steps.grow(
            hidden_SF,
            np.array([ask.tokens[-1] for ask in asks], np.int32),
            max_nodes_S=np.array([ask.max_nodes for ask in asks], np.int32),
            max_depths_S=np.array([ask.max_depth for ask in asks], np.int32),
            widths_S=np.array([width if ask.trees else 1 for ask in asks], np.int32),
            worths_S=np.array([ask.worth or self._options.floor for ask in asks], np.float32),
            sharpness_S=np.array([self._sharpness(ask) for ask in asks], np.float32),
        )

    def _sharpness(self, ask: Ask) -> float:
        """What makes the head's law one of the token the target will have."""
        greedy = self.head.config.greedy_sharpness
        temperature = ask.sampling.temperature
        return greedy if temperature == 0 else min(1 / temperature, max(greedy, 1.0))

    def _offer(self, ask: Ask, tree: Grown) -> Offer:
        tokens, parents, chances = tree
        if not tokens:
            return NO_OFFER
        if ask.mask is not None:
            tokens, parents, chances = _allowed(ask, tree)
        return Offer(
            tokens=tokens, parents=parents, chances=chances, sources=(self.name,) * len(tokens)
        )

    def _coupled(self, ask: Ask, row_F: Float32) -> Grown:
        """Best first, where a node's children are those whose log q + noise is largest.

        The chance of a child is taken to be the head's law sharpened by what the noise adds: the
        winner of both the target's and the head's contest is likelier the same than a draw is.
        """
        sharp = self._sharpness(ask)
        nodes: list[tuple[float, int, int, int]] = []
        states: dict[int, Float32] = {}
        best: list[int] = []
        todo = [ROOT] if ask.max_nodes > 0 and ask.max_depth > 0 else []
        floor = ask.worth or self._options.floor
        while todo:
            roots = todo == [ROOT]
            starts = [row_F if at == ROOT else states[nodes[at][1]] for at in todo]
            tokens = [ask.tokens[-1] if at == ROOT else nodes[at][3] for at in todo]
            below, logits_ND = self._steps.rows(
                np.stack(starts), np.array(tokens, np.int32), roots=roots
            )
            for at, state, logits_D in zip(todo, below, logits_ND, strict=True):
                states[at] = state
                above, depth = (1.0, 0) if at == ROOT else (nodes[at][0], nodes[at][2])
                for child, p in self._contest(ask, logits_D, sharp, len(ask.tokens) + depth):
                    if above * p >= floor:
                        nodes.append((above * p, at, depth + 1, child))
            best = sorted(range(len(nodes)), key=lambda i: -nodes[i][0])[: ask.max_nodes]
            todo = [i for i in best if i not in states and nodes[i][2] < ask.max_depth]
        place = {ROOT: ROOT, **{node: i for i, node in enumerate(best)}}
        return (
            [nodes[i][3] for i in best],
            [place[nodes[i][1]] for i in best],
            [nodes[i][0] for i in best],
        )

    def _contest(
        self, ask: Ask, logits_D: Float32, sharp: float, position: int
    ) -> list[tuple[int, float]]:
        """The likeliest few tokens by log q + the position's noise, and estimated chances."""
        ids_D = self.head.ids_D
        x_D = np.asarray(logits_D, np.float64) * sharp
        noise_D = shared_noise(ask.coins, ids_D.astype(np.uint64), position)
        noisy_D = x_D if noise_D is None else x_D + noise_D
        n = min(self._options.width if ask.trees else 1, len(ids_D))
        few = np.argpartition(-noisy_D, n - 1)[:n]
        few = few[np.argsort(-noisy_D[few], kind="stable")]
        # How far ahead a token is says how likely the target's contest has the same winner.
        gap = np.exp(noisy_D[few] - noisy_D[few[0]])
        log_sum = np.log(np.exp(x_D - x_D.max()).sum()) + x_D.max()
        own = float(np.exp(x_D[few[0]] - log_sum))
        chances = gap / gap.sum() * (1 + own) / 2
        return [(int(ids_D[i]), float(p)) for i, p in zip(few, chances, strict=True)]

    def _drawn(self, ask: Ask) -> Draft:
        """A chain of draws, each from the law that is reported."""
        row_F = self._row(ask)
        n = min(ask.max_depth, ask.max_nodes)
        if row_F is None or n < 1:
            return NO_GUESS
        state, token, roots = row_F.reshape(1, -1), ask.tokens[-1], True
        tokens: list[int] = []
        laws: list[torch.Tensor] = []
        for depth in range(n):
            state, logits_ND = self._steps.rows(state, np.array([token], np.int32), roots=roots)
            law_V = self._law(logits_ND[0], ask.sampling.temperature)
            token = ask.coins.categorical(law_V, Purpose.DRAFT, len(ask.tokens) + depth)
            tokens.append(token)
            laws.append(law_V)
            roots = False
        return Draft(
            tokens=tuple(tokens),
            parents=tuple(range(-1, n - 1)),
            laws_LV=torch.stack(laws),
            law_rows=tuple(range(n)),
            sources=(self.name,) * n,
        )

    def _law(self, logits_D: Float32, temperature: float) -> torch.Tensor:
        """The head's law over the whole vocabulary, at the request's temperature."""
        x_D = torch.from_numpy(np.asarray(logits_D, np.float64))
        law_V = torch.zeros(self.head.config.shape.vocab, dtype=torch.float64)
        law_V[torch.from_numpy(self.head.ids_D).long()] = ((x_D - x_D.max()) / temperature).softmax(
            0
        )
        return law_V


def _allowed(ask: Ask, tree: Grown) -> Grown:
    """The tree without what the mask forbids, which is exact: these guesses are chosen."""
    tokens: list[int] = []
    parents: list[int] = []
    chances: list[float] = []
    place: dict[int, int] = {ROOT: ROOT}
    paths: dict[int, tuple[int, ...]] = {ROOT: ()}
    for node, (token, parent, chance) in enumerate(zip(*tree, strict=True)):
        if parent not in place or ask.mask is None or not ask.mask.accepts(paths[parent], token):
            continue
        place[node], paths[node] = len(tokens), (*paths[parent], token)
        tokens.append(token)
        parents.append(place[parent])
        chances.append(chance)
    return tokens, parents, chances
