"""A beginning is found if, and only if, exactly its tokens were committed for the same target."""

import pytest

from outpace.errors import ContractError
from outpace.kv.pages import PagePool
from outpace.kv.prefix import Hash, PrefixIndex, content_hash


def world(
    n_pages: int = 8, hash_with: Hash = content_hash
) -> tuple[PagePool, PrefixIndex]:  # fmt: skip
    pool = PagePool(n_pages=n_pages, page_size=2)
    return pool, PrefixIndex(pool, content_hash=hash_with)


def commit(pool: PagePool, index: PrefixIndex, key: int, text: list[int], name: str = "a") -> None:
    """Hold pages for a text and remember the full ones."""
    pool.open(key)
    known = index.root(name)
    for page in range(len(text) // 2):
        (own,) = pool.allocate(key, 1)
        found = index.add(known, text[2 * page : 2 * page + 2], own)
        assert found is not None
        known = found
    index.check_integrity()


def pages(index: PrefixIndex, text: list[int], name: str = "a") -> list[int]:
    return [known.page for known in index.match(index.root(name), text)]


def test_the_longest_known_beginning_is_found_but_never_the_last_token() -> None:
    pool, index = world()
    commit(pool, index, 1, [1, 2, 3, 4, 5])
    held = list(pool.pages(1))
    assert pages(index, [1, 2, 3, 4, 9, 9]) == held
    assert pages(index, [1, 2, 3, 4]) == held[:1]
    assert pages(index, [1, 2, 9, 4, 5]) == held[:1]
    assert pages(index, [3, 4, 5]) == []
    assert pages(index, [1]) == pages(index, []) == []
    assert (index.n_lookups, index.n_hits, index.n_hit_tokens) == (6, 3, 8)


def test_targets_do_not_find_each_others_beginnings() -> None:
    pool, index = world()
    commit(pool, index, 1, [1, 2], name="a")
    assert pages(index, [1, 2, 3], name="b") == []
    commit(pool, index, 2, [1, 2], name="b")
    assert pages(index, [1, 2, 3], name="b") == list(pool.pages(2))
    assert pages(index, [1, 2, 3], name="a") == list(pool.pages(1))


def test_a_text_known_already_names_its_first_page() -> None:
    pool, index = world()
    commit(pool, index, 1, [1, 2])
    commit(pool, index, 2, [1, 2])
    assert len(index) == 1
    assert pages(index, [1, 2, 3]) == list(pool.pages(1))


def test_a_collision_is_a_miss_never_a_wrong_text() -> None:
    pool, index = world(hash_with=lambda _: b"always")
    commit(pool, index, 1, [1, 2])
    pool.open(2)
    (page,) = pool.allocate(2, 1)
    assert index.add(index.root("a"), [3, 4], page) is None
    assert pages(index, [3, 4, 5]) == []
    assert pages(index, [1, 2, 5]) == list(pool.pages(1))
    assert pages(index, [1, 2, 1, 2, 5]) == list(pool.pages(1))  # the parent is verified too
    assert pages(index, [1, 2, 5], name="b") == []


def test_room_is_made_from_the_longest_unheld_text_inward() -> None:
    pool, index = world(n_pages=5)
    commit(pool, index, 1, [1, 2, 3, 4])
    commit(pool, index, 2, [5, 6, 7, 8])
    pool.close(1)
    pool.close(2)
    assert index.make_room(1)
    assert index.n_evicted == 0
    assert index.make_room(2)
    assert len(pages(index, [1, 2, 3, 4, 0])) == 1
    assert len(pages(index, [5, 6, 7, 8, 0])) == 2
    assert index.make_room(4)
    assert len(pages(index, [5, 6, 7, 8, 0])) == 1
    index.check_integrity()
    assert not index.make_room(6)
    assert len(index) == 1  # refused, nothing changed


def test_pages_in_use_are_never_evicted() -> None:
    pool, index = world(n_pages=3)
    commit(pool, index, 1, [1, 2, 3, 4])
    assert not index.make_room(2)
    assert len(pages(index, [1, 2, 3, 4, 5])) == 2


def test_a_page_that_is_not_full_is_refused() -> None:
    pool, index = world()
    pool.open(1)
    (page,) = pool.allocate(1, 1)
    with pytest.raises(ContractError, match="a beginning of 1 tokens; only full pages of 2"):
        index.add(index.root("a"), [1], page)


def test_a_lost_parent_is_found() -> None:
    pool, index = world()
    commit(pool, index, 1, [1, 2, 3, 4])
    first = pool.pages(1)[0]
    del index._by_hash[index._by_page.pop(first).hash]
    with pytest.raises(ContractError, match="what precedes it is gone"):
        index.check_integrity()
