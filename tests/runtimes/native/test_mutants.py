"""Bugs that paging is prone to, planted one by one: each must be found by the walks."""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace

import numpy as np
import pytest

from outpace.core.score import Rows
from outpace.errors import ContractError
from outpace.kv.pages import PagePool
from outpace.kv.prefix import Beginning, PrefixIndex
from outpace.runtimes.native import runtime as module
from outpace.runtimes.native.runtime import NativeRuntime
from outpace.runtimes.native.table import TableDecoder
from runtimes.native.walk import table_walk

Plant = Callable[[pytest.MonkeyPatch], None]
PLANTS: dict[str, Plant] = {}


def plant(function: Plant) -> Plant:
    PLANTS[function.__name__] = function
    return function


@plant
def compaction_is_one_slot_off(patch: pytest.MonkeyPatch) -> None:
    right = TableDecoder.copy_slots
    patch.setattr(
        TableDecoder, "copy_slots", lambda self, s, t: right(self, np.maximum(s - 1, 0), t)
    )


@plant
def compaction_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NativeRuntime, "_compact", lambda *_: None)


@plant
def compaction_goes_backward(patch: pytest.MonkeyPatch) -> None:
    right = TableDecoder.copy_slots
    patch.setattr(TableDecoder, "copy_slots", lambda self, s, t: right(self, s[::-1], t[::-1]))


@plant
def a_shared_page_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    def acquire(self: PagePool, page: int) -> None:
        self._cached.pop(page, None)
        self._refs[page] = max(self._refs[page], 1)

    patch.setattr(PagePool, "_acquire", acquire)


@plant
def a_cached_page_is_held_and_stays_evictable(patch: pytest.MonkeyPatch) -> None:
    def acquire(self: PagePool, page: int) -> None:
        self._refs[page] += 1

    patch.setattr(PagePool, "_acquire", acquire)


@plant
def a_remembered_page_goes_to_the_free_list(patch: pytest.MonkeyPatch) -> None:
    def drop(self: PagePool, page: int) -> None:
        self._refs[page] -= 1
        if not self._refs[page]:
            self._free.append(page)

    patch.setattr(PagePool, "_drop", drop)


@plant
def an_evicted_page_is_still_found(patch: pytest.MonkeyPatch) -> None:
    def make_room(self: PrefixIndex, n_pages: int) -> bool:
        if self._pool.n_free + self._pool.n_cached < n_pages:
            return False
        while self._pool.n_free < n_pages:
            self._pool.evict()
        return True

    patch.setattr(PrefixIndex, "make_room", make_room)
    patch.setattr(PrefixIndex, "check_integrity", lambda _: None)
    patch.setattr(PagePool, "check_integrity", lambda _: None)
    patch.setattr(PagePool, "remember", lambda self, page: self._remembered.add(page))


@plant
def a_page_is_found_whatever_came_before_it(patch: pytest.MonkeyPatch) -> None:
    right = PrefixIndex.add

    def add(
        self: PrefixIndex, parent: Beginning, tokens: Seq[int], page: int
    ) -> Beginning | None:  # fmt: skip
        return right(self, replace(parent, hash=b""), tokens, page)

    def find(self: PrefixIndex, parent: Beginning, content: bytes) -> Beginning | None:
        known = self._by_hash.get(self._hash(content))
        return known if known is not None and known.tokens == content else None

    patch.setattr(PrefixIndex, "add", add)
    patch.setattr(PrefixIndex, "_find", find)
    patch.setattr(PrefixIndex, "check_integrity", lambda _: None)


@plant
def guesses_enter_the_index(patch: pytest.MonkeyPatch) -> None:
    right = NativeRuntime.extend

    def extend(self: NativeRuntime, batch: Seq[Rows]) -> object:
        scores = right(self, batch)
        for rows in batch:
            seq = self._open[rows.key]
            n = len(seq.tokens)
            seq.tokens.extend(rows.tokens)
            self._learn(rows.key, seq)
            del seq.tokens[n:]
        return scores

    patch.setattr(NativeRuntime, "extend", extend)
    patch.setattr(NativeRuntime, "check_integrity", lambda *_, **__: None)


@plant
def a_page_not_yet_full_enters_the_index(patch: pytest.MonkeyPatch) -> None:
    right = NativeRuntime._learn

    def learn(self: NativeRuntime, key: int, seq: module._Open) -> None:
        missing = -len(seq.tokens) % self._size
        seq.tokens.extend([0] * missing)
        right(self, key, seq)
        del seq.tokens[len(seq.tokens) - missing :]

    def keep(self: NativeRuntime, key: int, rows: Seq[int]) -> None:
        right_keep(self, key, rows)
        learn(self, key, self._sequence(key))

    right_keep = NativeRuntime.keep
    patch.setattr(NativeRuntime, "keep", keep)
    patch.setattr(NativeRuntime, "check_integrity", lambda *_, **__: None)


@plant
def surplus_pages_are_not_let_go(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NativeRuntime, "_trim", lambda *_: None)


@plant
def the_table_keeps_the_page_that_was_replaced(patch: pytest.MonkeyPatch) -> None:
    def learn(self: NativeRuntime, key: int, seq: module._Open) -> None:
        before = seq.table_P.copy()
        right_learn(self, key, seq)
        seq.table_P = before

    right_learn = NativeRuntime._learn
    patch.setattr(NativeRuntime, "_learn", learn)
    patch.setattr(NativeRuntime, "check_integrity", lambda *_, **__: None)


@plant
def a_hash_collision_is_trusted(patch: pytest.MonkeyPatch) -> None:
    def first_bytes(content: bytes) -> bytes:
        return content[:1]

    def find(self: PrefixIndex, parent: Beginning, content: bytes) -> Beginning | None:
        return self._by_hash.get(self._hash(parent.hash + content))

    patch.setattr(PrefixIndex.__init__, "__kwdefaults__", {"content_hash": first_bytes})
    patch.setattr(PrefixIndex, "_find", find)


def walks() -> None:
    for seed, n_pages, page_size in ((1, 60, 1), (2, 40, 4), (3, 25, 4), (4, 12, 16)):
        table_walk(seed=seed, n_pages=n_pages, page_size=page_size).run(600)


def test_without_a_planted_bug_the_walks_find_nothing() -> None:
    walks()


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[name](monkeypatch)
    with pytest.raises((AssertionError, ContractError, KeyError, IndexError)):
        walks()
