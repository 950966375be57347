"""Which prompts are nearly the same: what is learnt from one then tells about the other.

Two texts are alike where the sets of their overlapping six-character pieces have a Jaccard index
of at least 0.7, after case, width and spacing are set aside. Pieces of characters serve scripts
with and without spaces. All such pairs are found, not most: of the pieces of a text, in an order
in which rare ones come first, the first (1 - 0.7) share must hold one that any text alike has in
its own first share (prefix filtering: Chaudhuri et al. 2006; Bayardo et al. 2007).
"""

import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence as Seq

THRESHOLD = 0.7
_PIECE = 6


def pieces(text: str) -> frozenset[int]:
    """Hashes of all overlapping pieces of a text; a shorter text is one piece."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return frozenset(
        zlib.crc32(plain[i : i + _PIECE].encode()) for i in range(max(1, len(plain) - _PIECE + 1))
    )


def alike(texts: Seq[str]) -> list[list[int]]:
    """For each text, the earlier ones that it is alike."""
    sets = [pieces(text) for text in texts]
    frequency = Counter(piece for found in sets for piece in found)
    holders: defaultdict[int, list[int]] = defaultdict(list)
    pairs: list[list[int]] = []
    for at, found in enumerate(sets):
        n_first = int(len(found) * (1 - THRESHOLD)) + 1
        first = sorted(found, key=lambda piece: (frequency[piece], piece))[:n_first]
        candidates = {other for piece in first for other in holders[piece]}
        pairs.append(sorted(c for c in candidates if _jaccard(found, sets[c]) >= THRESHOLD))
        for piece in first:
            holders[piece].append(at)
    return pairs


def _jaccard(a: frozenset[int], b: frozenset[int]) -> float:
    if min(len(a), len(b)) < THRESHOLD * max(len(a), len(b)):
        return 0.0
    both = len(a & b)
    return both / (len(a) + len(b) - both)
