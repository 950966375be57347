"""What `verify` found so far, kept as it is found: long texts are not decoded twice.

`exact.jsonl` has a line per compared text, and one for the enumeration, each with the digest of
what it rests on; lines that rest on something else are passed over.
"""

from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from outpace.errors import ConfigError
from outpace.evaluate.judge.verified import LawWalk, TextCheck
from outpace.journal import Journal, read_lines

EXACT = "exact.jsonl"
Place = tuple[str, str, float]


class Kept:
    """A study's exact.jsonl, open for this process alone. basis: what findings rest on now.

    Raises:
        ConfigError: a line is no finding.
    """

    def __init__(self, folder: Path, basis: str) -> None:
        self._basis = basis
        self._texts: dict[Place, TextCheck] = {}
        self._law: LawWalk | None = None
        self._journal = Journal(folder / EXACT)
        try:
            for at, line in read_lines(folder / EXACT):
                if line.get("basis") == basis:
                    self._read(line, f"{folder / EXACT}:{at}")
        except BaseException:
            self._journal.close()
            raise

    def text(self, arm: str, prompt: str, temperature: float) -> TextCheck | None:
        """What was found of a text; None = nothing yet."""
        return self._texts.get((arm, prompt, temperature))

    def keep(self, found: TextCheck) -> TextCheck:
        """Write a finding down, and return it."""
        self._journal.append({"basis": self._basis, "text": found.model_dump(mode="json")})
        return found

    def law(self, walk: Callable[[], LawWalk]) -> LawWalk:
        """The enumeration, walked once."""
        if self._law is None:
            self._law = walk()
            self._journal.append({"basis": self._basis, "law": self._law.model_dump(mode="json")})
        return self._law

    def close(self) -> None:
        """Let go of the file."""
        self._journal.close()

    def _read(self, line: dict[str, object], where: str) -> None:
        try:
            if "law" in line:
                self._law = LawWalk.model_validate(line["law"])
            else:
                found = TextCheck.model_validate(line.get("text"))
                self._texts[found.arm, found.prompt, found.temperature] = found
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise ConfigError(f"{where} is no finding: {first['msg']}; remove the line") from None
