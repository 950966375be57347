"""Prompts without a file, for tests of what is done with prompts."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A prompt with nothing special."""

    id: str
    text: str
    category: str = "words"
    later: tuple[str, ...] = ()
    temperatures: tuple[float, ...] = (0.0,)

    @property
    def messages(self) -> tuple[Mapping[str, str], ...]:
        return ({"role": "user", "content": self.text},)

    @property
    def n_turns(self) -> int:
        return 1 + len(self.later)

    def at(self, temperature: float) -> Mapping[str, str]:
        return {"category": self.category, "temperature": f"{temperature:g}"}


def plain(n: int, **fields: object) -> tuple[Plain, ...]:
    """n prompts that differ."""
    return tuple(Plain(id=f"q{i}", text=f"say {i} " * (i + 1), **fields) for i in range(n))  # type: ignore[arg-type]
