"""A data file becomes items with factors, or an error that says what to mend."""

from pathlib import Path
from typing import Any

import pytest

from evaluate.data.files import SPLIT, prompt, read, rows, write
from evaluate.plans import plan
from outpace.errors import ConfigError
from outpace.evaluate.data import counts, grade, graded_by, load
from outpace.evaluate.data.items import Item, length_group
from outpace.evaluate.measurement import Grade
from outpace.evaluate.plan.data import Data, Sampling
from outpace.evaluate.plan.lint import Facts, lint

FACTORS = ["category", "language", "case_kind", "prompt_length", "temperature", "field:team"]


def mixed(n: int) -> list[dict[str, object]]:
    lines = rows(n)
    for i, line in enumerate(lines):
        line |= {"category": "ab"[i % 2], "language": ["en", "de", "fr"][i % 3], "team": i % 4}
        line |= {"case_kind": "misleading" if i % 5 == 0 else "ordinary"}
    return lines


def test_items_carry_what_their_rows_say(tmp_path: Path) -> None:
    line: dict[str, object] = {
        "id": "x", "turns": ["first", "second"], "category": "talk", "language": "en",
        "case_kind": "difficult", "team": "red", "check": {"type": "numeric", "answer": 4},
    }  # fmt: skip
    got = read(tmp_path, [line], count=len, subgroups=FACTORS, split=SPLIT | {"test": 1, "dev": 0,
               "confirm": 0})  # fmt: skip
    (only,) = got.test
    assert (only.prompt, only.later, only.n_turns) == ("first", ("second",), 2)
    assert only.asked.messages == ({"role": "user", "content": "first"},)
    assert only.at(0.5) == {
        "category": "talk", "language": "en", "case_kind": "difficult", "prompt_length": "1-127",
        "temperature": "0.5", "field:team": "red",
    }  # fmt: skip
    assert grade(only, "4") == Grade(check="numeric", passed=True, score=1.0)


def test_all_shapes_are_read_and_only_the_questions_of_a_shared_log(tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [
        {"prompt": prompt(1)},
        {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": prompt(2)}]},
        {"conversations": [{"from": "human", "value": prompt(3)}]},
    ]
    got = read(tmp_path, lines)
    assert sorted(i.prompt for i in got.all) == sorted(prompt(n) for n in (1, 2, 3))


def test_a_prompt_keeps_its_part_whatever_is_asked_of_the_file(tmp_path: Path) -> None:
    whole = read(tmp_path, mixed(120))
    where = {i.id: part for part in ("dev", "test", "confirm") for i in whole.part(part)}
    german = read(tmp_path, mixed(120), filter={"language": ["de"]}, subgroups=["category"])
    few = read(tmp_path, mixed(120), limit=30)
    longer = read(tmp_path, [*mixed(120), {"id": "new", "prompt": "Something else entirely?"}])
    for got in (german, few, longer):
        for part in ("dev", "test", "confirm"):
            assert all(where.get(i.id, part) == part for i in got.part(part))
    assert {i.language for i in german.all} == {"de"}
    assert [i.id for i in sorted(few.all, key=lambda i: i.line)] == [f"r{n}" for n in range(30)]


def test_stratified_parts_hold_every_stratum(tmp_path: Path) -> None:
    got = read(tmp_path, mixed(60), split=SPLIT | {"stratify": "language"})
    for part in (got.dev, got.test, got.confirm):
        assert {i.language for i in part} == {"en", "de", "fr"}


def test_filters_go_by_every_factor(tmp_path: Path) -> None:
    def ids(**wanted: list[str]) -> set[str]:
        named = {key.replace("__", ":"): value for key, value in wanted.items()}
        return {i.id for i in read(tmp_path, mixed(24), filter=named).all}

    assert ids(category=["a"]) == {f"r{n}" for n in range(0, 24, 2)}
    assert ids(case_kind=["misleading"]) == {f"r{n}" for n in range(0, 24, 5)}
    assert ids(field__team=["1", "3"]) == {f"r{n}" for n in range(1, 24, 2)}
    assert ids(category=["a"], language=["de"]) == {f"r{n}" for n in range(4, 24, 6)}


def test_every_prompt_is_asked_at_the_plans_temperatures_or_its_own(tmp_path: Path) -> None:
    lines = [*rows(10), {"id": "hot", "prompt": "Write something wild.", "temperature": 1.2}]
    got = read(tmp_path, lines, temperatures=[0.0, 0.7], subgroups=["temperature"])
    assert {i.temperatures for i in got.all if i.id != "hot"} == {(0.0, 0.7)}
    assert [i.temperatures for i in got.all if i.id == "hot"] == [(1.2,)]
    warm = read(tmp_path, lines, temperatures=[0.0, 0.7], filter={"temperature": ["0.7"]})
    assert {i.temperatures for i in warm.all} == {(0.7,)}
    assert "hot" not in {i.id for i in warm.all}


def test_lengths_are_counted_or_estimated_and_it_is_said_which(tmp_path: Path) -> None:
    lines = [{"id": "x", "prompt": "word " * 200 + "end"}]
    counted = read(tmp_path, lines, count=lambda text: len(text.split()))
    guessed = read(tmp_path, lines)
    assert [i.n_prompt_tokens for i in counted.all] == [201]
    assert [i.n_prompt_tokens for i in guessed.all] == [251]
    assert not any("estimate" in note for note in counted.notes)
    assert any("estimate" in note for note in guessed.notes)


def test_edges_belong_to_the_group_above() -> None:
    groups = [length_group(n, (128, 512)) for n in (1, 127, 128, 511, 512, 9999)]
    assert groups == ["1-127", "1-127", "128-511", "128-511", "512+", "512+"]


def test_counts_are_what_the_linter_needs(tmp_path: Path) -> None:
    got = read(tmp_path, mixed(60), subgroups=FACTORS, temperatures=[0.0, 0.7])
    found = counts(got)
    assert (found.dev, found.test, found.confirm) == (
        len(got.dev), len(got.test), len(got.confirm),
    )  # fmt: skip
    assert sum(found.subgroups["category"].values()) == found.test
    assert found.subgroups["temperature"] == {"0": found.test, "0.7": found.test}
    whole = plan()
    levels = {f.rule for f in lint(whole, Facts(prompts=found)) if f.level == "error"}
    assert "subgroup_too_small" in levels


def test_an_empty_part_is_noted_and_refused_when_it_is_needed(tmp_path: Path) -> None:
    lines = [{"id": str(n), "prompt": f"{prompt(1)} {n}"} for n in range(9)]
    got = read(tmp_path, lines)
    parts = {"dev": got.dev, "test": got.test, "confirm": got.confirm}
    empty = [name for name, found in parts.items() if not found]
    assert len(empty) == 2
    with pytest.raises(ConfigError, match=f"{empty[0]} is empty.* has 9 of 9"):
        got.part(empty[0])  # type: ignore[arg-type]
    findings = lint(plan(), Facts(prompts=counts(got)))
    assert {f.where for f in findings if f.rule == "empty_split"} == {
        f"data.split.{name}" for name in empty
    }


def test_digests_tell_what_changed(tmp_path: Path) -> None:
    base = read(tmp_path, mixed(30)).digests
    assert base == read(tmp_path, mixed(30)).digests
    lines = mixed(30)
    lines[3]["prompt"] = "Another question."
    edited = read(tmp_path, lines).digests
    assert edited["data"] != base["data"]
    assert [p for p in ("dev", "test", "confirm") if edited[p] != base[p]]
    salted = read(tmp_path, mixed(30), split=SPLIT | {"salt": "other"}).digests
    assert salted["data"] == base["data"]
    assert salted["split"] != base["split"]
    checked = mixed(30)
    checked[3]["check"] = {"type": "numeric", "answer": 1}
    regraded = read(tmp_path, checked).digests
    assert [p for p in ("dev", "test", "confirm") if regraded[p] != base[p]]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"id": "x"}, "exactly one of prompt"),
        ({"prompt": " "}, "not empty"),
        ({"prompt": "p", "case_kind": "dificult"}, "did you mean difficult"),
        ({"prompt": "p", "language": ["en"]}, "language is"),
        ({"prompt": "p", "temperature": "hot"}, "allowed: 0 to 10"),
        ({"prompt": "p", "temperature": -1}, "allowed: 0 to 10"),
        ({"prompt": "p", "check": {"type": "numeric"}}, "check.answer"),
        ({"prompt": "p", "check": {"type": "regex", "pattern": "("}}, "check.pattern: .*no patt"),
        ({"prompt": "p", "check": "yes"}, "check"),
        ({"prompt": "p", "id": "r2"}, "id 'r2' is that of line 3"),
        ({"prompt": prompt(1)}, "asks what 'r1' asks"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_named_by_its_line(
    tmp_path: Path, line: dict[str, object], says: str
) -> None:
    with pytest.raises(ConfigError, match=rf"prompts.jsonl:4: .*{says}"):
        read(tmp_path, [*rows(3), line])


def test_every_wrong_row_is_named_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "prompts.jsonl", rows(2))
    path.write_text(path.read_text() + "{broken\n[1]\n")
    data = Data.model_validate({"source": "prompts.jsonl", "split": SPLIT})
    with pytest.raises(ConfigError, match=r"(?s)prompts.jsonl:3: .*prompts.jsonl:4: "):
        load(data, Sampling(), folder=tmp_path)


def test_a_question_may_be_asked_twice_by_those_who_say_so(tmp_path: Path) -> None:
    lines = [{"id": str(n), "prompt": "Again?", "conversation": "c"} for n in range(3)]
    assert len(read(tmp_path, lines).all) == 3
    hot = [{"id": str(n), "prompt": "Again?", "temperature": n} for n in range(3)]
    assert len(read(tmp_path, hot).all) == 3


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"subgroups": ["field:teem"]}, "field:teem.*there is field:team"),
        ({"filter": {"language": ["it"]}}, "'it', which no prompt .*there is de, en, fr"),
        ({"filter": {"category": ["a"], "case_kind": ["difficult"]}}, "difficult"),
        ({"filter": {"temperature": ["0.9"]}}, "'0.9'"),
        ({"source": "elsewhere.jsonl"}, "no prompts at"),
    ],
)
def test_data_that_is_not_there_is_named(tmp_path: Path, data: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(tmp_path, mixed(12), **data)


def test_a_filter_that_leaves_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leaves none of 12"):
        read(tmp_path, mixed(12), filter={"category": ["a"], "field:team": ["1"]})


def test_a_function_of_ones_own_grades_what_has_no_check(tmp_path: Path) -> None:
    lines = rows(3)
    lines[0]["check"] = {"type": "numeric", "answer": 1}

    def polite(asked: Item, text: str) -> float:
        return 1.0 if "please" in text else 0.25

    got = {i.id: i for i in graded_by(read(tmp_path, lines), polite).all}
    assert grade(got["r0"], "1") == Grade(check="numeric", passed=True, score=1.0)
    name = polite.__qualname__
    assert grade(got["r1"], "yes please") == Grade(check=name, passed=True, score=1.0)
    assert grade(got["r1"], "yes") == Grade(check=name, passed=False, score=0.25)
    assert grade(read(tmp_path, lines).all[-1], "yes") is None


def test_a_function_that_raises_has_not_judged(tmp_path: Path) -> None:
    def broken(asked: Item, text: str) -> bool:
        raise KeyError(text)

    def odd(asked: Item, text: str) -> float:
        return 7

    got = read(tmp_path, rows(1)).all[0]
    items = read(tmp_path, rows(1))
    assert got.check is None
    grades = [grade(i, "x") for i in graded_by(items, broken, name="mine").all]
    assert grades == [Grade(check="mine", passed=None, reason="KeyError: 'x'")]
    with pytest.raises(ConfigError, match="said 7"):
        grade(graded_by(items, odd).all[0], "x")
