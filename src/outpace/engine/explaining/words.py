"""How an explanation is said: passages of plain sentences, each with its numbers for machines."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

# A token id -> its text, where a tokenizer is at hand.
Spell = Callable[[int], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Something explained: where it stands in the trace, in sentences and in numbers."""

    title: str
    sentences: tuple[str, ...]
    line: int | None = None
    request: int | None = None
    round: int | None = None
    facts: Mapping[str, object] = field(default_factory=dict)


class Words:
    """Numbers and tokens in the reader's words."""

    def __init__(self, spell: Spell | None) -> None:
        self._spell = spell

    def token(self, token: int) -> str:
        """A token by id, and by its text where that is known."""
        if self._spell is None:
            return f"token {token}"
        return f"token {token} ({self._spell(token)!r})"

    def tokens(self, tokens: Iterable[int]) -> str:
        """Several tokens, with commas."""
        return ", ".join(self.token(token) for token in tokens)


def number(x: float) -> str:
    """A probability or the like in three digits, without a leading zero: .62, 1, 3.1e-07."""
    said = f"{x:.3g}"
    return said.replace("0.", ".", 1) if said.startswith("0.") else said


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def count(n: int, noun: str) -> str:
    """`1 guess`, `2 guesses`."""
    if n == 1:
        return f"1 {noun}"
    return f"{n} {noun}es" if noun.endswith("s") else f"{n} {noun}s"


def share(part: float, whole: float) -> str:
    """A part in whole percent."""
    return f"{100 * part / whole:.0f} %" if whole > 0 else "0 %"
