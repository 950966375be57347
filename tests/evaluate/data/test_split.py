"""The split is drawn once: by salt, per stratum, kept as the file grows, alike with alike."""

import random
from collections import Counter
from collections.abc import Sequence as Seq
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluate.data.files import SPLIT, prompt, rows
from outpace.evaluate.data.alike import THRESHOLD, alike, pieces
from outpace.evaluate.data.items import PARTS, Item
from outpace.evaluate.data.split import Drawn, draw
from outpace.evaluate.plan.data import Split


def item(n: int, text: str | None = None, **fields: object) -> Item:
    content = text or prompt(n)
    made = Item(
        id=f"r{n}", line=n + 1, category="all", language="en", case_kind="ordinary",
        messages=({"role": "user", "content": content},),
    )  # fmt: skip
    return replace(made, **fields)  # type: ignore[arg-type]


def drawn(items: Seq[Item], strata: Seq[str] | None = None, **changed: object) -> Drawn:
    split = Split.model_validate({**SPLIT, **changed})
    return draw(items, split, strata or [""] * len(items))


ITEMS = [item(n) for n in range(200)]


def test_the_rows_of_these_tests_are_unlike() -> None:
    assert not any(alike([str(row["prompt"]) for row in rows(200)]))


def test_parts_have_their_shares() -> None:
    sizes = Counter(drawn(ITEMS).parts.values())
    assert abs(sizes["dev"] - 60) <= 2
    assert abs(sizes["test"] - 80) <= 2
    assert abs(sizes["confirm"] - 60) <= 2


def test_the_same_salt_draws_the_same_and_another_another() -> None:
    assert drawn(ITEMS) == drawn(ITEMS)
    again = drawn(ITEMS, salt="another").parts
    same = sum(again[name] == part for name, part in drawn(ITEMS).parts.items())
    assert same < 110  # a third by chance


def test_a_share_of_nothing_gets_nothing() -> None:
    sizes = Counter(drawn(ITEMS, dev=0.0, test=1.0, confirm=0.0).parts.values())
    assert sizes == {"test": 200}


@settings(max_examples=20)
@given(st.integers(0, 199), st.integers(0, 5))
def test_rows_added_at_the_end_move_none_before(n: int, seed: int) -> None:
    strata = [random.Random(seed + i).choice("abc") for i in range(200)]
    before = drawn(ITEMS[:n], strata[:n]).parts
    after = drawn(ITEMS, strata).parts
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("n_strata", [1, 7, 40])
def test_every_stratum_is_divided_like_the_whole(n_strata: int) -> None:
    strata = [f"s{n % n_strata}" for n in range(200)]
    found = Counter(zip(strata, drawn(ITEMS, strata).parts.values(), strict=True))
    each = 200 // n_strata
    for stratum in set(strata):
        for part, share in zip(PARTS, (0.3, 0.4, 0.3), strict=True):
            assert found[stratum, part] - share * each < 2
            assert found[stratum, part] - share * each > -4


def test_no_place_in_the_file_decides_the_part() -> None:
    """Over salts, each row is in the test part by its share."""
    sizes = Counter(
        name
        for n in range(2000)
        for name, part in drawn(ITEMS[:8], salt=f"s{n}").parts.items()
        if part == "test"
    )
    assert all(abs(sizes[f"r{at}"] / 2000 - 0.4) < 0.06 for at in range(8))


def test_what_is_alike_stays_together() -> None:
    text = prompt(3)
    twins = [item(1000 + n, f"{text} please {n}") for n in range(20)]
    got = drawn([*ITEMS, *twins])
    assert {got.parts[twin.id] for twin in twins} == {got.parts["r3"]}
    assert {got.groups[twin.id] for twin in twins} == {"r3"}


def test_a_conversation_stays_together() -> None:
    talk = [item(1000 + n, prompt(500 + n), conversation="c") for n in range(20)]
    got = drawn([*talk, *ITEMS])
    assert len({got.parts[each.id] for each in talk}) == 1


def test_what_is_alike_two_parts_is_in_none() -> None:
    a, b = prompt(1) * 2, prompt(2) * 2
    for salt in range(40):
        items = [item(1, a), item(2, b), item(3, a + b, conversation="c")]
        items[0] = replace(items[0], conversation="c")
        items.append(item(4, b + " ", conversation="c"))
        got = drawn(items, salt=str(salt))
        if got.parts["r1"] != got.parts["r2"]:
            assert got.left_out == ("r4",)
            assert got.parts["r3"] == got.parts["r1"]
            return
    raise AssertionError("no salt parts them")


def test_system_messages_make_nobody_alike() -> None:
    system = {"role": "system", "content": "You answer briefly. " * 50}
    items = [
        replace(i, messages=(system, *i.messages))
        for i in ITEMS[:50]
    ]  # fmt: skip
    assert all(name == group for name, group in drawn(items).groups.items())


@given(st.lists(st.text("ab cé字", max_size=24), max_size=12))
def test_of_every_cluster_alike_one_text_is_found(texts: list[str]) -> None:
    sets = [pieces(text) for text in texts]
    clusters: list[int] = []
    for at, found in enumerate(alike(texts)):
        near = [
            j for j in range(at) if len(sets[at] & sets[j]) >= THRESHOLD * len(sets[at] | sets[j])
        ]
        assert set(found) <= set(near)
        assert sorted({clusters[j] for j in near}) == sorted(clusters[j] for j in found)
        clusters.append(clusters[found[0]] if len(found) == 1 else at)


def test_case_width_and_spacing_set_nobody_apart() -> None:
    assert alike(["The harbour opens", "  THE harbour   ｏｐｅｎｓ"]) == [[], [0]]
    assert alike(["What is 17 times 23?", "What is 31 times 46?"]) == [[], []]
