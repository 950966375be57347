"""Beginnings already computed: which page holds the keys and values of which text.

A page's contents depend on every token up to its last one, so texts form a tree: a `Beginning`
is one full page of tokens after its parent. They are found by a chained content hash (the
parent's hash and the page's tokens), and a hit is then verified, tokens and parent, so that a
collision costs a miss and never a wrong text.

Only committed tokens enter: the runtime adds a page when all its tokens have been kept. A guess
that was computed but not kept leaves no trace here.

A namespace (the digest of the weights and their format) salts the root, so that what one target
computed is never found by another.
"""

from array import array
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from hashlib import blake2b

from outpace.errors import ContractError
from outpace.kv.pages import PagePool

Hash = Callable[[bytes], bytes]
_ROOT_PAGE = -1


def content_hash(content: bytes) -> bytes:
    """128 bits of BLAKE2b."""
    return blake2b(content, digest_size=16).digest()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Beginning:
    """A full page of tokens after its parent; of a root (parent None) only the hash counts.

    Two beginnings are the same only if they are one object: equality is identity on purpose.
    """

    parent: "Beginning | None"
    tokens: bytes
    page: int
    hash: bytes


class PrefixIndex:
    """Finds, adds and evicts beginnings whose pages live in `pool`.

    n_lookups, n_hits: texts looked up, and those of which something was known. n_hit_tokens:
    tokens that needed no pass. n_evicted: pages given up for others.
    """

    def __init__(self, pool: PagePool, *, content_hash: Hash = content_hash) -> None:
        self.n_lookups = 0
        self.n_hits = 0
        self.n_hit_tokens = 0
        self.n_evicted = 0
        self._pool = pool
        self._hash = content_hash
        self._roots: dict[str, Beginning] = {}
        self._by_hash: dict[bytes, Beginning] = {}
        self._by_page: dict[int, Beginning] = {}

    def __len__(self) -> int:
        return len(self._by_page)

    def root(self, namespace: str) -> Beginning:
        """Where the texts of one target begin."""
        if namespace not in self._roots:
            salt = self._hash(namespace.encode())
            self._roots[namespace] = Beginning(parent=None, tokens=b"", page=_ROOT_PAGE, hash=salt)
        return self._roots[namespace]

    def match(self, root: Beginning, tokens: Seq[int]) -> list[Beginning]:
        """The longest known beginning of these tokens, page by page; takes no references.

        Never reaches the last token: it must be computed to have logits.
        """
        size, ids = self._pool.page_size, array("i", tokens)
        width, content = size * ids.itemsize, ids.tobytes()
        found: list[Beginning] = []
        parent = root
        for page in range((len(tokens) - 1) // size):
            known = self._find(parent, content[page * width : (page + 1) * width])
            if known is None:
                break
            found.append(known)
            parent = known
        self.n_lookups += 1
        self.n_hits += bool(found)
        self.n_hit_tokens += len(found) * size
        return found

    def add(self, parent: Beginning, tokens: Seq[int], page: int) -> Beginning | None:
        """Remember that `page` holds these committed tokens after `parent`.

        Returns the beginning now known, whose page is an older one if the text was known
        already, or None on a hash collision: then neither this page nor what follows is known.
        """
        if len(tokens) != self._pool.page_size:
            raise ContractError(
                f"a beginning of {len(tokens)} tokens; only full pages of "
                f"{self._pool.page_size} committed tokens are remembered"
            )
        content = array("i", tokens).tobytes()
        key = self._hash(parent.hash + content)
        if key in self._by_hash:
            return self._find(parent, content)
        self._pool.remember(page)
        new = Beginning(parent=parent, tokens=content, page=page, hash=key)
        self._by_hash[key] = self._by_page[page] = new
        return new

    def make_room(self, n_pages: int) -> bool:
        """Evict until n_pages are free; False, and nothing changed, if that many cannot be."""
        pool = self._pool
        if pool.n_free + pool.n_cached < n_pages:
            return False
        while pool.n_free < n_pages:
            gone = self._by_page.pop(pool.evict())
            del self._by_hash[gone.hash]
            self.n_evicted += 1
        return True

    def check_integrity(self) -> None:
        """Raise ContractError unless every beginning is found where it should be."""
        for page, known in self._by_page.items():
            parent = known.parent
            if parent is None or known.page != page or self._by_hash.get(known.hash) is not known:
                raise ContractError(f"the prefix index is wrong about page {page}")
            if parent.parent is not None and self._by_page.get(parent.page) is not parent:
                raise ContractError(f"page {page} is remembered but what precedes it is gone")
        if len(self._by_hash) != len(self._by_page):
            raise ContractError(
                f"the prefix index knows {len(self._by_hash)} texts on {len(self._by_page)} pages"
            )

    def _find(self, parent: Beginning, content: bytes) -> Beginning | None:
        known = self._by_hash.get(self._hash(parent.hash + content))
        if known is None or known.tokens != content or known.parent is not parent:
            return None
        return known
