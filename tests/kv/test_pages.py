"""Every page is free, owned or cached, and its references are its holders."""

import pytest

from outpace.errors import CapacityError, ContractError
from outpace.kv.pages import PagePool


def pool_of(n_pages: int, *keys: int) -> PagePool:
    pool = PagePool(n_pages=n_pages, page_size=4)
    for key in keys:
        pool.open(key)
    return pool


def test_pages_are_owned_until_their_last_holder_lets_go() -> None:
    pool = pool_of(4, 1, 2)
    first, second = pool.allocate(1, 2)
    pool.remember(first)
    pool.share(2, [first])
    assert (pool.n_free, pool.n_owned, pool.n_cached) == (2, 2, 0)
    assert pool.references(first) == 2
    pool.close(1)
    assert (pool.n_free, pool.n_owned, pool.n_cached) == (3, 1, 0)
    pool.close(2)
    assert (pool.n_free, pool.n_owned, pool.n_cached) == (3, 0, 1)
    pool.check_integrity()
    assert second != first


def test_a_full_pool_refuses_with_the_numbers_and_changes_nothing() -> None:
    pool = pool_of(3, 1, 2)
    pool.allocate(1, 2)
    with pytest.raises(CapacityError, match="sequence 2 needs 2 more pages, 1 are free and 0 can"):
        pool.allocate(2, 2)
    assert list(pool.pages(2)) == []
    assert len(pool.allocate(2, 1)) == 1
    pool.check_integrity()


def test_eviction_takes_the_longest_unheld_and_ends_before_beginnings() -> None:
    pool = pool_of(6, 1, 2)
    old = list(pool.allocate(1, 2))
    new = list(pool.allocate(2, 2))
    for page in (*old, *new):
        pool.remember(page)
    pool.close(1)
    pool.close(2)
    pool.open(3)
    pool.share(3, old[:1])
    pool.close(3)  # the beginning of the old text was held again
    assert [pool.evict() for _ in range(4)] == [old[1], new[1], new[0], old[0]]
    with pytest.raises(ContractError, match="nothing to evict"):
        pool.evict()
    assert pool.n_free == 6


def test_a_page_is_replaced_by_one_of_equal_contents() -> None:
    pool = pool_of(4, 1, 2)
    (kept,) = pool.allocate(1, 1)
    (own,) = pool.allocate(2, 1)
    pool.remember(kept)
    pool.replace(2, 0, kept)
    assert list(pool.pages(2)) == [kept]
    assert pool.references(kept) == 2
    assert pool.references(own) == 0
    pool.check_integrity()


def test_misuse_is_refused() -> None:
    pool = pool_of(4, 1, 2)
    (page,) = pool.allocate(1, 1)
    with pytest.raises(ContractError, match="already has a table"):
        pool.open(1)
    with pytest.raises(ContractError, match="cannot be shared"):
        pool.share(2, [page])  # not remembered: it can still be written to
    with pytest.raises(ContractError, match="held by nobody"):
        pool.remember(3)
    pool.remember(page)
    with pytest.raises(ContractError, match="already remembered"):
        pool.remember(page)
    with pytest.raises(ContractError, match="cannot keep 2"):
        pool.trim(1, 2)
    with pytest.raises(ContractError, match="none at index 1"):
        pool.replace(1, 1, page)
    pool.close(1)
    with pytest.raises(ContractError, match="has no table"):
        pool.close(1)
    with pytest.raises(ContractError, match="at least 1"):
        PagePool(n_pages=0, page_size=4)


def test_wrong_books_are_found() -> None:
    for spoil, message in (
        (lambda p: p._free.append(p._free[-1]), "twice in the free list"),
        (lambda p: p._free.pop(), "make 3, not 4"),
        (lambda p: p._refs.__setitem__(0, 2), "counts 2 references, 1 sequences hold it"),
        (lambda p: p._tables[1].append(0), "holds a page twice"),
        (lambda p: p._remembered.add(3), "not the unheld known"),
        (lambda p: (p._tables[2].append(0), p._refs.__setitem__(0, 2)), "not remembered"),
    ):
        pool = pool_of(4, 1, 2)
        pool.allocate(1, 1)
        pool.check_integrity()
        spoil(pool)
        with pytest.raises(ContractError, match=message):
            pool.check_integrity()


def test_letting_go_twice_is_refused() -> None:
    pool = pool_of(4, 1)
    (page,) = pool.allocate(1, 1)
    pool._refs[page] = 0
    with pytest.raises(ContractError, match="let go of twice"):
        pool.close(1)
