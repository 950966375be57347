"""Guess nothing. Plain decoding is speculation with this drafter, not another code path."""

from collections.abc import Sequence as Seq

from outpace.core.draft import NO_GUESS, Ask, Draft, Seen


class NoDrafter:
    """Offers no guesses and remembers nothing."""

    name = "none"

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return [NO_GUESS] * len(asks)

    def observe(self, seen: Seq[Seen]) -> None:
        pass

    def forget(self, key: int) -> None:
        pass
