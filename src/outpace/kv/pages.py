"""Who holds which page. Numbers only: the K/V tensors the pages stand for live elsewhere.

A page is `page_size` slots for keys and values. At any moment it is exactly one of

    free     nobody holds it and its contents mean nothing
    owned    one or more sequences hold it: its reference count is their number
    cached   nobody holds it, but the prefix index remembers what it contains

and free + owned + cached = total, which `check_integrity` recounts from nothing.

Copy on write never has to copy here. A page may be shared only once it is full of committed
tokens, and sequences only ever append: what is written next goes to a page its sequence alone
holds. The price is that a beginning is reused in whole pages and the tokens after the last whole
one are read again, fewer than `page_size` + 1 rows in a pass that reads the weights anyway.

Every operation takes a time proportional to the pages it names, whatever the pool's size.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence as Seq

from outpace.errors import CapacityError, ContractError


class PagePool:
    """The books of `n_pages` pages: tables (sequence key -> its pages, in order) and references."""

    def __init__(self, *, n_pages: int, page_size: int) -> None:
        if n_pages < 1 or page_size < 1:
            raise ContractError(
                f"a pool of {n_pages} pages of {page_size} slots; both must be at least 1"
            )
        self.n_pages = n_pages
        self.page_size = page_size
        self._free = list(range(n_pages - 1, -1, -1))  # a stack; low numbers leave first
        self._refs = [0] * n_pages
        self._tables: dict[int, list[int]] = {}
        self._remembered: set[int] = set()
        # Remembered pages that nobody holds, the longest unheld first.
        self._cached: OrderedDict[int, None] = OrderedDict()

    @property
    def n_free(self) -> int:
        """Pages without contents."""
        return len(self._free)

    @property
    def n_cached(self) -> int:
        """Remembered pages that nobody holds; `evict` turns them into free ones."""
        return len(self._cached)

    @property
    def n_owned(self) -> int:
        """Pages held by one or more sequences."""
        return self.n_pages - len(self._free) - len(self._cached)

    @property
    def keys(self) -> Seq[int]:
        """The sequences that have a table, in the order they opened."""
        return tuple(self._tables)

    def pages(self, key: int) -> Seq[int]:
        """The pages of a sequence in order; the live list, not to be changed by the caller."""
        return self._table(key)

    def references(self, page: int) -> int:
        """How many sequences hold the page."""
        return self._refs[page]

    def open(self, key: int) -> None:
        """Begin an empty table."""
        if key in self._tables:
            raise ContractError(f"sequence {key} already has a table; close it first")
        self._tables[key] = []

    def allocate(self, key: int, n: int) -> Seq[int]:
        """Append n free pages to the sequence's table and return them.

        Raises:
            CapacityError: fewer than n pages are free; nothing changed.
        """
        table, free = self._table(key), self._free
        if n > len(free):
            raise CapacityError(
                f"sequence {key} needs {n} more pages, {len(free)} are free and {self.n_cached} "
                f"can be evicted, of {self.n_pages} pages of {self.page_size} tokens; try again "
                f"when others have ended, or make the pool larger"
            )
        taken = [free.pop() for _ in range(n)]
        for page in taken:
            self._refs[page] = 1
        table.extend(taken)
        return taken

    def share(self, key: int, pages: Seq[int]) -> None:
        """Append pages to the sequence's table that already have contents, owned or cached."""
        table = self._table(key)
        for page in pages:
            self._acquire(page)
            table.append(page)

    def replace(self, key: int, index: int, page: int) -> None:
        """Hold `page`, of equal contents, in place of the one at this index, which is let go."""
        table = self._table(key)
        if not 0 <= index < len(table):
            raise ContractError(f"sequence {key} has {len(table)} pages, none at index {index}")
        self._acquire(page)
        self._drop(table[index])
        table[index] = page

    def trim(self, key: int, n_kept: int) -> None:
        """Let go of all pages after the first n_kept."""
        table = self._table(key)
        if not 0 <= n_kept <= len(table):
            raise ContractError(f"sequence {key} has {len(table)} pages; cannot keep {n_kept}")
        # Last page first: of a cached text the end is then always older than its beginning, so
        # eviction never strands a page whose beginning is gone.
        while len(table) > n_kept:
            self._drop(table.pop())

    def close(self, key: int) -> None:
        """Let go of all pages and forget the sequence."""
        self.trim(key, 0)
        del self._tables[key]

    def remember(self, page: int) -> None:
        """From now on the page's contents survive its last holder, until evicted."""
        if not self._refs[page]:
            raise ContractError(f"page {page} is held by nobody; only held pages have contents")
        if page in self._remembered:
            raise ContractError(f"page {page} is already remembered; its contents are fixed")
        self._remembered.add(page)

    def evict(self) -> int:
        """Free the page that has been unheld the longest and return it."""
        if not self._cached:
            raise ContractError("nothing to evict: every remembered page is held by a sequence")
        page, _ = self._cached.popitem(last=False)
        self._remembered.discard(page)
        self._free.append(page)
        return page

    def check_integrity(self) -> None:
        """Recount everything.

        Raises:
            ContractError: free + owned + cached is not the total, a page's references are not
                its holders, a page is twice in one table, or a shared page could be written to.
        """
        holders: Counter[int] = Counter()
        for key, table in self._tables.items():
            _require(len(set(table)) == len(table), f"sequence {key} holds a page twice: {table}")
            holders.update(table)
        for page, n in enumerate(self._refs):
            found = holders[page]
            _require(n == found, f"page {page} counts {n} references, {found} sequences hold it")
            shared = found > 1 and page not in self._remembered
            _require(not shared, f"page {page} is shared by {found} sequences but not remembered")
        free, cached, owned = set(self._free), set(self._cached), set(holders)
        _require(len(free) == len(self._free), "a page is twice in the free list")
        _require(cached == self._remembered - owned, "the cached pages are not the unheld known")
        apart = not (free & owned or free & cached or cached & owned)
        total = len(free) + len(cached) + len(owned)
        _require(
            apart and total == self.n_pages,
            f"{len(free)} free + {len(owned)} owned + {len(cached)} cached pages make {total}, "
            f"not {self.n_pages}, or overlap",
        )

    def _table(self, key: int) -> list[int]:
        try:
            return self._tables[key]
        except KeyError:
            raise ContractError(f"sequence {key} has no table; open it first") from None

    def _acquire(self, page: int) -> None:
        if page not in self._remembered:
            raise ContractError(
                f"page {page} cannot be shared: only remembered pages have fixed contents"
            )
        if not self._refs[page]:
            del self._cached[page]
        self._refs[page] += 1

    def _drop(self, page: int) -> None:
        left = self._refs[page] - 1
        if left < 0:
            raise ContractError(f"page {page} was let go of twice")
        self._refs[page] = left
        if left == 0:
            if page in self._remembered:
                self._cached[page] = None
            else:
                self._free.append(page)


def _require(ok: bool, message: str) -> None:
    if not ok:
        raise ContractError(f"the page pool's books are wrong: {message}")
