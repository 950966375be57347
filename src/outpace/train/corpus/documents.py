"""Documents: how they lie on disk, and which of them are kept.

A corpus is the first so many documents, by number and without a gap, that are neither loops nor
near-copies of one kept before; so it is the same however the writing was interrupted.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outpace.journal import read_lines

# A text is a loop when so few of its runs of four tokens differ; checked from so many tokens on.
LEAST_DISTINCT, LOOP_FROM_TOKENS = 0.35, 48
# Near-duplicates: documents that share one of so many bands of so many minimal hashes.
BANDS, BAND_SIZE, SHINGLE = 4, 3, 5
_GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One finished document: token ids, or why there is none."""

    number: int
    kind: str
    temperature: float
    prompt: tuple[int, ...] = ()
    answer: tuple[int, ...] = ()
    dropped: str = ""

    def line(self) -> Mapping[str, object]:
        """For the journal."""
        return {
            "number": self.number,
            "kind": self.kind,
            "temperature": self.temperature,
            "prompt": list(self.prompt),
            "answer": list(self.answer),
            "dropped": self.dropped,
        }

    @classmethod
    def of_line(cls, line: Mapping[str, Any]) -> "Document":
        """From the journal."""
        return cls(**{**line, "prompt": tuple(line["prompt"]), "answer": tuple(line["answer"])})

    @property
    def n_tokens(self) -> int:
        """Prompt and answer."""
        return len(self.prompt) + len(self.answer)


def read_documents(path: Path) -> list[Document]:
    """Those of a journal, by number."""
    if not path.exists():
        return []
    found = {d.number: d for d in (Document.of_line(line) for _, line in read_lines(path))}
    return [found[number] for number in sorted(found)]


def loops(tokens: Seq[int]) -> bool:
    """Whether a text says the same again and again."""
    n = len(tokens) - 3
    if n < LOOP_FROM_TOKENS:
        return False
    return len({tuple(tokens[i : i + 4]) for i in range(n)}) < LEAST_DISTINCT * n


class Sieve:
    """Keeps documents that are neither loops nor near-copies of one kept before (MinHash)."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, ...]] = set()

    def verdict(self, document: Document) -> str:
        """Why a document is left out; empty = it stays."""
        if document.dropped:
            return document.dropped
        if len(document.answer) < 2:
            return "empty"
        if loops(document.answer):
            return "loop"
        bands = self._bands((*document.prompt[-64:], *document.answer))
        copies = any(band in self._seen for band in bands)
        self._seen.update(bands)
        return "copy" if copies else ""

    @staticmethod
    def _bands(tokens: Seq[int]) -> list[tuple[int, ...]]:
        shingles = [hash(tuple(tokens[i : i + SHINGLE])) for i in range(len(tokens) - SHINGLE + 1)]
        if not shingles:
            return [(0, *tokens)]
        least = [
            min((s * (2 * i + 1) * _GOLDEN ^ (s >> (7 + i))) & (2**61 - 1) for s in shingles)
            for i in range(BANDS * BAND_SIZE)
        ]  # fmt: skip
        return [(b, *least[b * BAND_SIZE : (b + 1) * BAND_SIZE]) for b in range(BANDS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """The documents kept, in order of their numbers, and how many were left out by reason."""

    documents: Seq[Document]
    left_out: Mapping[str, int]

    @property
    def n_tokens(self) -> int:
        """Of all documents kept."""
        return sum(document.n_tokens for document in self.documents)


def gather(documents: Seq[Document], n_tokens: int) -> Corpus | None:
    """The first documents, without a gap, that hold so many tokens; None if they do not yet."""
    sieve, kept, left_out, total = Sieve(), [], dict[str, int](), 0
    for number, document in enumerate(documents):
        if document.number != number:
            return None
        why = sieve.verdict(document)
        if why:
            left_out[why] = left_out.get(why, 0) + 1
            continue
        kept.append(document)
        total += document.n_tokens
        if total >= n_tokens:
            return Corpus(documents=kept, left_out=left_out)
    return None
