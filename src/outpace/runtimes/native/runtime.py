"""The native runtime: five verbs over pages, beginnings and one `Decoder`.

It knows which slots hold which tokens and nothing of arithmetic. Two facts carry the rest:

* The slots of a sequence's kept tokens are in the order of their positions. A pass appends its
  rows after them in any order a tree likes; `keep` moves the accepted path to the front of
  those, so the next pass starts from position order again.
* Only kept tokens are ever shared. A page enters the prefix index when its last token is kept,
  and after that nobody writes to it.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import numpy as np

from outpace.core.score import Rows, Scores, Traits
from outpace.errors import CapacityError, ContractError
from outpace.kv.pages import PagePool
from outpace.kv.prefix import Beginning, PrefixIndex
from outpace.runtimes.native.assembly import Part, assemble, chain, divide
from outpace.runtimes.native.passes import Decoder, Int32

_FIRST_TABLE_PAGES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStats:
    """The pool now (free + owned + cached = total, in pages), and beginnings reused so far."""

    page_size: int
    n_pages: int
    n_free: int
    n_owned: int
    n_cached: int
    n_open: int
    n_lookups: int
    n_hits: int
    n_hit_tokens: int
    n_evicted: int

    @property
    def free_tokens(self) -> int:
        """Tokens that fit before anyone must end: cached pages give way."""
        return (self.n_free + self.n_cached) * self.page_size


@dataclass(slots=True, kw_only=True)
class _Open:
    """A sequence: its kept tokens, a mirror of its page table, and the last pass until `keep`.

    beginning: the last of its pages that the index knows, None once one could not be added.
    """

    beginning: Beginning | None
    tokens: list[int]
    table_P: Int32
    n_pages: int = 0
    n_known_pages: int = 0
    n_reserved: int = 0
    pending: Rows | None = field(default=None)


class NativeRuntime:
    """A `Runtime` over a decoder whose pool it alone hands out.

    digest: identity of the weights and their format; beginnings are shared within it only.
    n_hidden: width of the hidden states the decoder returns, 0 = none.
    reuse_beginnings: whether texts that begin alike share what is computed for the beginning.
    """

    def __init__(
        self,
        decoder: Decoder,
        *,
        vocab_size: int,
        context_tokens: int,
        eos_ids: frozenset[int],
        digest: str,
        n_hidden: int = 0,
        reuse_beginnings: bool = True,
    ) -> None:
        self.traits = Traits(
            name="native",
            vocab_size=vocab_size,
            context_tokens=context_tokens,
            eos_ids=eos_ids,
            trees=True,
            row_invariant=decoder.row_invariant,
            digest=digest,
            n_hidden=n_hidden,
        )
        self._decoder = decoder
        self._size = decoder.page_size
        self._pool = PagePool(n_pages=decoder.n_pages, page_size=decoder.page_size)
        self._index = PrefixIndex(self._pool)
        self._root = self._index.root(digest) if reuse_beginnings else None
        self._open: dict[int, _Open] = {}
        # Runs a drafting head on the decoder's threads; None where it cannot.
        self.compile_head = getattr(decoder, "compile_head", None)

    def open(self, key: int, tokens: Seq[int]) -> int:
        if key in self._open:
            raise ContractError(f"sequence {key} is already open; close it first")
        if len(tokens) > self.traits.context_tokens:
            raise ContractError(
                f"sequence {key}: {len(tokens)} tokens; the context has "
                f"{self.traits.context_tokens}"
            )
        known = self._index.match(self._root, tokens) if self._root is not None else []
        n_cached = len(known) * self._size
        self._pool.open(key)
        self._pool.share(key, [beginning.page for beginning in known])
        seq = _Open(
            beginning=known[-1] if known else self._root,
            tokens=list(tokens[:n_cached]),
            table_P=np.full(max(_FIRST_TABLE_PAGES, 2 * len(known)), -1, np.int32),
            n_known_pages=len(known),
        )
        _append(seq, [beginning.page for beginning in known])
        self._open[key] = seq
        return n_cached

    def reserve(self, key: int, n_rows: int) -> None:
        seq = self._sequence(key)
        if seq.pending is not None or n_rows < 0:
            raise ContractError(f"sequence {key}: cannot reserve {n_rows} rows, keep comes first")
        needed = -(-(len(seq.tokens) + n_rows) // self._size)
        missing = needed - seq.n_pages
        if missing > 0:
            if not self._index.make_room(missing):
                raise self._full(key, n_rows, missing)
            _append(seq, self._pool.allocate(key, missing))
        elif missing < 0:
            self._trim(key, seq, needed)
        seq.n_reserved = n_rows

    def extend(self, batch: Seq[Rows]) -> list[Scores]:
        if not batch:
            return []
        parts = [self._part(rows) for rows in batch]
        if len({rows.key for rows in batch}) < len(batch):
            raise ContractError(f"a sequence is twice in a pass: {[rows.key for rows in batch]}")
        traits = self.traits
        rows = assemble(
            parts, vocab_size=traits.vocab_size, context_tokens=traits.context_tokens
        )  # fmt: skip
        scores = divide(parts, rows, self._decoder.forward(rows))
        # Only now: after a decoder's error the sequences are as they were.
        for asked in batch:
            self._open[asked.key].pending = asked
        return scores

    def keep(self, key: int, rows: Seq[int]) -> None:
        seq = self._sequence(key)
        last = seq.pending
        if last is None:
            raise ContractError(f"sequence {key}: keep without a pass to keep from")
        path, n = list(rows), len(rows)
        if n and path == list(range(n)) and tuple(last.parents[:n]) == chain(n):
            kept = last.tokens[:n]
        else:
            kept = [last.tokens[row] for row in _checked_path(key, last, path)]
            self._compact(key, len(seq.tokens), path)
        seq.tokens.extend(kept)
        seq.pending, seq.n_reserved = None, 0
        needed = -(-len(seq.tokens) // self._size)
        if needed < seq.n_pages:
            self._trim(key, seq, needed)
        if len(seq.tokens) // self._size > seq.n_known_pages:
            self._learn(key, seq)

    def close(self, key: int) -> None:
        if self._open.pop(key, None) is not None:
            self._pool.close(key)

    def stats(self) -> PoolStats:
        """How full the pool is and what reuse has saved."""
        pool, index = self._pool, self._index
        return PoolStats(
            page_size=self._size,
            n_pages=pool.n_pages,
            n_free=pool.n_free,
            n_owned=pool.n_owned,
            n_cached=pool.n_cached,
            n_open=len(self._open),
            n_lookups=index.n_lookups,
            n_hits=index.n_hits,
            n_hit_tokens=index.n_hit_tokens,
            n_evicted=index.n_evicted,
        )

    def free_tokens(self) -> int:
        """Tokens that fit before anyone must end; whole pages, so a sequence may need more."""
        return (self._pool.n_free + self._pool.n_cached) * self._size

    def forget_beginnings(self) -> None:
        """Give up every page kept for texts to come, so that what follows starts from nothing."""
        self._index.make_room(self._pool.n_free + self._pool.n_cached)

    def shutdown(self) -> None:
        """Free the weights and the pool; the runtime is of no use afterwards."""
        for key in list(self._open):
            self.close(key)
        self._decoder.close()

    def check_integrity(self, *, idle: bool = True) -> None:
        """Recount the books of pages and beginnings.

        Raises:
            ContractError: they are wrong, or (idle) a sequence is still open.
        """
        if idle and self._open:
            raise ContractError(f"sequences {sorted(self._open)} are still open")
        self._pool.check_integrity()
        self._index.check_integrity()
        if set(self._pool.keys) != set(self._open):
            raise ContractError(f"pages are held for {self._pool.keys}, open: {list(self._open)}")
        for key, seq in self._open.items():
            held = list(self._pool.pages(key))
            needed = -(-(len(seq.tokens) + seq.n_reserved) // self._size)
            if len(held) != needed or seq.table_P[: seq.n_pages].tolist() != held:
                raise ContractError(f"sequence {key} needs {needed} pages and holds {held}")
            if any(self._pool.references(page) > 1 for page in held[seq.n_known_pages :]):
                raise ContractError(f"sequence {key} could write to a page it shares: {held}")

    def _sequence(self, key: int) -> _Open:
        try:
            return self._open[key]
        except KeyError:
            raise ContractError(f"sequence {key} is not open") from None

    def _part(self, rows: Rows) -> Part:
        seq, n = self._sequence(rows.key), len(rows.tokens)
        if seq.pending is not None:
            raise ContractError(f"sequence {rows.key}: a second pass before keep")
        if not 0 < n <= seq.n_reserved:
            raise ContractError(f"sequence {rows.key}: {n} rows, reserved are {seq.n_reserved}")
        return Part(rows=rows, n_cached=len(seq.tokens), pages=seq.table_P[: seq.n_pages])

    def _full(self, key: int, n_rows: int, missing: int) -> CapacityError:
        pool = self._pool
        return CapacityError(
            f"sequence {key} needs {missing} more pages for {n_rows} rows; {pool.n_free} are free, "
            f"{pool.n_cached} can be evicted and {pool.n_owned} are held by {len(self._open)} "
            f"sequences, of {pool.n_pages} pages of {self._size} tokens; try again when others "
            f"have ended, or make the pool larger"
        )

    def _trim(self, key: int, seq: _Open, n_pages: int) -> None:
        self._pool.trim(key, n_pages)
        seq.table_P[n_pages : seq.n_pages] = -1
        seq.n_pages = n_pages

    def _compact(self, key: int, n_kept: int, path: Seq[int]) -> None:
        """Move the path's slots to the front of the pass's; targets never pass their sources."""
        pages, size = self._pool.pages(key), self._size
        moves = [(n_kept + row, n_kept + at) for at, row in enumerate(path) if row != at]
        if moves:
            slots = [[pages[i // size] * size + i % size for i in move] for move in moves]
            sources, targets = np.array(slots, np.int32).T.copy()
            self._decoder.copy_slots(sources, targets)

    def _learn(self, key: int, seq: _Open) -> None:
        """Remember the pages that just became full of kept tokens, and share equal ones."""
        size, pages = self._size, self._pool.pages(key)
        while seq.beginning is not None and (seq.n_known_pages + 1) * size <= len(seq.tokens):
            at = seq.n_known_pages
            known = self._index.add(
                seq.beginning, seq.tokens[at * size : (at + 1) * size], pages[at]
            )  # fmt: skip
            seq.beginning = known
            if known is None:
                break
            if known.page != pages[at]:
                # A neighbour computed the same text meanwhile: one copy is enough.
                self._pool.replace(key, at, known.page)
                seq.table_P[at] = known.page
            seq.n_known_pages += 1


def _append(seq: _Open, pages: Seq[int]) -> None:
    end = seq.n_pages + len(pages)
    if end > len(seq.table_P):
        larger_P = np.full(2 * end, -1, np.int32)
        larger_P[: seq.n_pages] = seq.table_P[: seq.n_pages]
        seq.table_P = larger_P
    seq.table_P[seq.n_pages : end] = pages
    seq.n_pages = end


def _checked_path(key: int, last: Rows, path: list[int]) -> list[int]:
    before = -1
    for row in path:
        if not 0 <= row < len(last.tokens) or last.parents[row] != before:
            raise ContractError(f"sequence {key}: rows {path} are not a path of the last pass")
        before = row
    return path
