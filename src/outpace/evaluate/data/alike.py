"""Which prompts are nearly the same: what is learnt from one then tells about the other.

Two texts are alike where the sets of their overlapping six-character pieces have a Jaccard index
of at least 0.7, after case, width and spacing are set aside. Pieces of characters serve scripts
with and without spaces. Nothing is sampled; two filters that lose no pair spare most work:

    prefixes   of the pieces of a text, rare ones first, the first (1 - 0.7) share holds one that
               is in the first share of any text alike (Chaudhuri et al. 2006; Bayardo et al. 2007)
    parities   sets whose pieces, counted modulo 2 in 4096 bins, differ in d bins differ in at least
               d pieces (Sandes et al. 2017)
"""

import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from collections.abc import Sequence as Seq

THRESHOLD = 0.7
_PIECE = 6
_BINS = 4096


def pieces(text: str) -> frozenset[int]:
    """Hashes of all overlapping pieces of a text; a shorter text is one piece."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return frozenset(
        zlib.crc32(plain[i : i + _PIECE].encode()) for i in range(max(1, len(plain) - _PIECE + 1))
    )


def alike(texts: Seq[str]) -> list[list[int]]:
    """For each text, earlier ones that it is alike: the first of each cluster of them.

    A text that is alike texts of one cluster belongs to it, so a file of one template does not cost
    the square of its length; one that is alike several, or none, begins a cluster.
    """
    sets = [pieces(text) for text in texts]
    parities = [_parity(found) for found in sets]
    frequency = Counter(piece for found in sets for piece in found)
    holders: defaultdict[int, list[int]] = defaultdict(list)
    clusters: list[int] = []
    pairs: list[list[int]] = []
    for at, found in enumerate(sets):
        n_first = int(len(found) * (1 - THRESHOLD)) + 1
        first = sorted(found, key=lambda piece: (frequency[piece], piece))[:n_first]
        near: dict[int, int] = {}
        for other in sorted({other for piece in first for other in holders[piece]}):
            if clusters[other] in near:
                continue
            most = (1 - THRESHOLD) / (1 + THRESHOLD) * (len(found) + len(sets[other]))
            apart = (parities[at] ^ parities[other]).bit_count()
            if apart <= most + 1e-9 and _jaccard(found, sets[other]) >= THRESHOLD:
                near[clusters[other]] = other
        pairs.append(list(near.values()))
        clusters.append(next(iter(near)) if len(near) == 1 else at)
        for piece in first:
            holders[piece].append(at)
    return pairs


def _parity(found: Iterable[int]) -> int:
    """Which bins hold an odd number of pieces, as bits."""
    bits = 0
    for piece in found:
        bits ^= 1 << piece % _BINS
    return bits


def _jaccard(a: frozenset[int], b: frozenset[int]) -> float:
    both = len(a & b)
    return both / (len(a) + len(b) - both)
