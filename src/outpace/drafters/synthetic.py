"""Drafters that peek, for tests and evaluation: acceptance as wished, never for real use.

They ask a `Peek` for the target's own logits and guess its next token on purpose, or miss it on
purpose, so that controls, failure sweeps and engines can be driven to every acceptance there is.

    right             every guess is kept
    wrong             no guess is kept
    alpha=0.7         each guess is kept with this probability
    flip=8            right for so many positions, wrong for as many, and so on
    adversarial=32    right for so many tokens of the answer, until it is trusted; then wrong

Whether a guess is meant to be right depends on its position alone. Where guesses are drawn, the
law reported is a mixture of the target's and a token it hardly ever says, in that proportion.
"""

from collections.abc import Callable
from collections.abc import Sequence as Seq

import torch
from torch import Tensor

from outpace.core.coins import Purpose, toss
from outpace.core.draft import NO_GUESS, Ask, Draft, Seen, chain
from outpace.core.law import History, Laws, one_hot
from outpace.errors import ConfigError

# The target's logits [V] after a sequence's committed text and these guesses.
Peek = Callable[[Ask, Seq[int]], Tensor]
# How much of the target a guess shall have: (ask, absolute position) -> 0 .. 1.
Plan = Callable[[Ask, int], float]

_SEED = 20_260_101


def plan_of(kind: str) -> Plan:
    """What a kind, as above, means.

    Raises:
        ConfigError: no such kind, or a number it cannot have.
    """
    name, _, number = kind.partition("=")
    if kind == "right":
        return lambda _ask, _position: 1.0
    if kind == "wrong":
        return lambda _ask, _position: 0.0
    try:
        x = float(number)
        if name == "alpha" and 0 <= x <= 1:
            return lambda _ask, _position: x
        if name == "flip" and x >= 1:
            return lambda _ask, position: float(position // int(x) % 2 == 0)
        if name == "adversarial" and x >= 1:
            return lambda ask, position: float(position - ask.n_prompt < int(x))
    except ValueError:
        pass
    raise ConfigError(
        f"no synthetic drafter {kind!r}; there are right, wrong, alpha=0 to 1, flip=1 or more, "
        "adversarial=1 or more"
    )


class SyntheticDrafter:
    """Chains that are as right as planned."""

    def __init__(self, peek: Peek, kind: str) -> None:
        self.name = f"synthetic:{kind}"
        self._peek = peek
        self._plan = plan_of(kind)

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return [self._guess(ask) for ask in asks]

    def observe(self, seen: Seq[Seen]) -> None:
        pass

    def forget(self, key: int) -> None:
        pass

    def _guess(self, ask: Ask) -> Draft:
        path: list[int] = []
        laws_V: list[Tensor] = []
        for _ in range(min(ask.max_depth, ask.max_nodes)):
            position = len(ask.tokens) + len(path)
            share = self._plan(ask, position)
            laws = Laws(
                sampling=ask.sampling,
                history=History(ask.tokens[: ask.n_prompt], list(ask.tokens[ask.n_prompt :])),
                paths=[tuple(path)],
                logits_AV=self._peek(ask, path)[None],
                mask=ask.mask,
            )
            if ask.style == "drawn":
                p_V = laws.law(0)
                q_V = share * p_V + (1 - share) * one_hot(int(p_V.argmin()), p_V)
                laws_V.append(q_V)
                path.append(ask.coins.categorical(q_V, Purpose.DRAFT, position))
                continue
            token = laws.choice(0, position, ask.coins)
            right = toss(_SEED, Purpose.DRAFT, ask.key, position) < share
            path.append(token if right else (token + 1) % len(laws.scores(0)))
        if not path:
            return NO_GUESS
        return chain(path, laws_LV=torch.stack(laws_V) if laws_V else None, source=self.name)
