"""A ledger that was touched is found out, at the line that was touched."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from outpace.errors import CapacityError
from outpace.evaluate.ledger import (
    HEAD,
    KINDS,
    LEDGER,
    Kind,
    Ledger,
    LedgerBroken,
    Statement,
    chained,
    read_ledger,
)
from outpace.journal import encoded

AT = "2026-03-01T12:00:00+00:00"
MADE: tuple[Kind, ...] = ("lock", "verify", "tune", "test", "verdict")
Lines = list[str]


def statement(kind: Kind, **body: str) -> Statement:
    return Statement(kind=kind, at=AT, plan="ab" * 32, lineage={"plan": "ab" * 32}, body=dict(body))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Ledger(tmp_path) as ledger:
        for i, kind in enumerate(MADE):
            ledger.append(statement(kind, note=f"{i} ü"))
    return tmp_path


def test_what_was_stated_is_read_again(folder: Path) -> None:
    entries = read_ledger(folder)
    assert [e.statement.kind for e in entries] == list(MADE)
    assert [e.n for e in entries] == [1, 2, 3, 4, 5]
    assert all(b.previous == a.sha256 for a, b in pairwise(entries))
    with Ledger(folder) as ledger:
        assert ledger.entries == entries
        ledger.append(statement("deviation", why="a reason"))
    assert read_ledger(folder)[:5] == entries
    assert read_ledger(folder)[5].statement.body == {"why": "a reason"}


def test_no_ledger_has_no_statements(tmp_path: Path) -> None:
    assert read_ledger(tmp_path) == ()


def edited(lines: Lines) -> Lines:
    return [line.replace('"2 ü"', '"3 ü"') for line in lines]


def rehashed(lines: Lines) -> Lines:
    """Edited, with a hash that fits: the next line betrays it."""
    line = json.loads(lines[2])
    old = statement("tune", note="other")
    made = chained(old, n=3, previous=line["previous"])
    line["statement"]["body"]["note"], line["sha256"] = "other", made.sha256
    return [*lines[:2], encoded(line).decode().strip(), *lines[3:]]


def swapped(lines: Lines) -> Lines:
    return [*lines[:2], lines[3], lines[2], *lines[4:]]


def removed(lines: Lines) -> Lines:
    return lines[:2] + lines[3:]


def doubled(lines: Lines) -> Lines:
    return [*lines[:3], lines[2], *lines[3:]]


def field_added(lines: Lines) -> Lines:
    return [*lines[:2], lines[2].replace('"event"', '"who":"me","event"'), *lines[3:]]


def date_moved(lines: Lines) -> Lines:
    return [*lines[:2], lines[2].replace("2026-03-01", "2026-02-01"), *lines[3:]]


def hash_edited(lines: Lines) -> Lines:
    return [*lines[:2], lines[2].replace('"sha256":"', '"sha256":"0')[:-3] + '"}', *lines[3:]]


def cut(lines: Lines) -> Lines:
    return lines[:4]


def emptied(lines: Lines) -> Lines:
    return []


@pytest.mark.parametrize(
    ("touch", "line"),
    [
        (edited, 3),
        (rehashed, 4),
        (swapped, 3),
        (removed, 3),
        (doubled, 4),
        (field_added, 3),
        (date_moved, 3),
        (hash_edited, 3),
        (cut, 5),
        (emptied, 1),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_a_touched_ledger_is_found_at_its_line(
    folder: Path, touch: Callable[[Lines], Lines], line: int
) -> None:
    path = folder / LEDGER
    before = path.read_text("utf-8").splitlines()
    after = touch(before)
    assert after != before, "the edit was planted"
    path.write_text("".join(f"{text}\n" for text in after), "utf-8")
    for look in (read_ledger, Ledger):
        with pytest.raises(LedgerBroken, match=rf"ledger\.jsonl:{line}: ") as caught:
            look(folder)
        assert caught.value.line == line
    assert path.read_text("utf-8").splitlines() == after, "finding it changes nothing"


def test_no_byte_can_be_changed(folder: Path) -> None:
    path = folder / LEDGER
    whole = path.read_bytes()
    for at in range(0, len(whole), 11):
        for new in (b"0", b" ", b"\n"):
            if whole[at : at + 1] != new:
                path.write_bytes(whole[:at] + new + whole[at + 1 :])
                with pytest.raises(LedgerBroken):
                    read_ledger(folder)


def test_another_spelling_of_the_same_content_is_found(folder: Path) -> None:
    path = folder / LEDGER
    text = path.read_text("utf-8")
    for other in ('"n": 3,', '"n":1,"n":3,'):
        path.write_text(text.replace('"n":3,', other), "utf-8")
        with pytest.raises(LedgerBroken, match=r"spelled|repeated") as caught:
            read_ledger(folder)
        assert caught.value.line == 3


def test_a_last_line_without_its_end_is_not_mended_away(folder: Path) -> None:
    path = folder / LEDGER
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(LedgerBroken, match="cut off"):
        Ledger(folder)
    assert path.read_bytes() == whole[:-1]


def test_rewriting_the_end_is_found_by_the_head(folder: Path) -> None:
    path = folder / LEDGER
    lines = path.read_text("utf-8").splitlines()
    made = chained(
        statement("verdict", note="better"), n=5, previous=json.loads(lines[3])["sha256"]
    )
    line = json.loads(lines[4])
    line["statement"]["body"]["note"], line["sha256"] = "better", made.sha256
    path.write_text("\n".join([*lines[:4], encoded(line).decode()]), "utf-8")
    with pytest.raises(LedgerBroken, match="names another statement"):
        read_ledger(folder)


def test_a_head_that_is_gone_or_wrong_is_found(folder: Path) -> None:
    head = folder / HEAD
    text = head.read_text("ascii")
    for content in ("", "x y", "0 " + text.split()[1], text[:-2] + "0\n", "3" + text[1:]):
        if content != text:
            head.write_text(content, "ascii")
            with pytest.raises(LedgerBroken):
                read_ledger(folder)
    head.unlink()
    with pytest.raises(LedgerBroken, match="is gone"):
        read_ledger(folder)


def test_a_killed_process_leaves_a_ledger_that_continues(folder: Path) -> None:
    """Killed within a line, or between a line and its head."""
    path, head = folder / LEDGER, folder / HEAD
    whole = path.read_bytes()
    entries = read_ledger(folder)
    begin = len(whole) - len(whole.splitlines(keepends=True)[-1])
    for n_bytes in [*range(begin, len(whole), 13), len(whole) - 1, len(whole)]:
        path.write_bytes(whole[:n_bytes])
        head.write_text(f"4 {entries[3].sha256}\n", "ascii")
        with Ledger(folder) as ledger:
            assert len(ledger.entries) == (5 if n_bytes == len(whole) else 4)
            ledger.append(statement("deviation", why="resumed"))
        assert read_ledger(folder)[-1].statement.body == {"why": "resumed"}


def test_one_process_writes(folder: Path) -> None:
    with Ledger(folder), pytest.raises(CapacityError):
        Ledger(folder)


def test_a_statement_checks_itself() -> None:
    for kind in KINDS:
        statement(kind)
    with pytest.raises(ValueError, match="allowed: lock"):
        statement("locked")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="offset"):
        Statement(kind="lock", at="2026-03-01T12:00:00", plan="")
    with pytest.raises(ValueError, match="opened, done"):
        Statement(kind="lock", at=AT, plan="", event="begun")  # type: ignore[arg-type]
