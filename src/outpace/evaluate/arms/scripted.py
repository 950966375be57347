"""A drafter that knows the answer, and is as right as it is told to be.

Forced acceptance asks what speculation costs when guesses are wrong on purpose. A drafter that
peeked at the target while it guesses would add passes of its own to the time that is measured. So
the answer is decoded before, without guesses, and read from a script here: guesses cost next to
nothing, like those of a lookup.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Seq

from outpace.core.coins import Purpose, toss
from outpace.core.draft import NO_GUESS, Ask, Draft, Seen, chain
from outpace.drafters.synthetic import plan_of

Script = tuple[int, ...]
_SEED = 20_260_102


class ScriptedDrafter:
    """Chains from known answers, right in the share that `kind` says (`drafters.synthetic`).

    scripts: prompt ids -> the answer's ids; what is not there is not guessed. Requests whose
    guesses would have to be drawn are guessed too, as chosen tokens.
    """

    def __init__(self, scripts: Mapping[Script, Seq[int]], kind: str, *, vocab_size: int) -> None:
        self.name = f"scripted:{kind}"
        self._scripts, self._share, self._vocab_size = scripts, plan_of(kind), vocab_size
        self._known: dict[int, tuple[int, Seq[int]]] = {}  # of a sequence: its lot, its script

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return [self._guess(ask) for ask in asks]

    def observe(self, seen: Seq[Seen]) -> None:
        pass

    def forget(self, key: int) -> None:
        self._known.pop(key, None)

    def _guess(self, ask: Ask) -> Draft:
        if ask.key not in self._known:
            prompt = tuple(ask.tokens[: ask.n_prompt])
            # By text, not by key: the same request has the same fate whenever it is asked.
            self._known[ask.key] = hash(prompt) & 0xFFFFFFFF, self._scripts.get(prompt, ())
        lot, script = self._known[ask.key]
        begin = len(ask.tokens) - ask.n_prompt
        coming = script[begin : begin + min(ask.max_depth, ask.max_nodes)]
        if not coming:
            return NO_GUESS
        path: list[int] = []
        for position, token in enumerate(coming, start=len(ask.tokens)):
            right = toss(_SEED, Purpose.DRAFT, lot, position) < self._share(ask, position)
            path.append(token if right else (token + 1) % self._vocab_size)
        return chain(path, source=self.name)
