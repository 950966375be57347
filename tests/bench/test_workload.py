"""Prompts come in the shapes people have, and what is wrong is named by line."""

import json
from pathlib import Path

import pytest

from outpace.bench.workload import BUILT_IN, read_workload
from outpace.errors import ConfigError


def written(path: Path, *entries: object) -> Path:
    path.write_text("\n".join(e if isinstance(e, str) else json.dumps(e) for e in entries))
    return path


def test_every_shape_is_read(tmp_path: Path) -> None:
    made = read_workload(
        written(
            tmp_path / "p.jsonl",
            {"prompt": "one", "id": "a", "category": "chat"},
            {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]},
            {"question_id": 82, "category": "writing", "turns": ["first", "second", "third"]},
            {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]},
            "",
        )
    )
    one, two, three, four = made.items
    assert (one.id, one.category, one.messages[0]["content"]) == ("a", "chat", "one")
    assert [m["role"] for m in two.messages] == ["system", "user"]
    assert (three.id, three.later, three.n_turns) == ("82", ("second", "third"), 3)
    assert four.messages == ({"role": "user", "content": "hi"},)
    assert len(made.first(2).items) == 2


def test_sharegpt_is_one_array(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps([{"id": "x", "conversations": [{"from": "human", "value": "hi"}]}]))
    assert read_workload(path).items[0].id == "x"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{", "p.jsonl:2"),
        ("3", "found int"),
        ({"text": "x"}, "exactly one of prompt"),
        ({"prompt": "x", "turns": ["y"]}, "found prompt, turns"),
        ({"prompt": "  "}, "not empty"),
        ({"prompt": 3}, "prompt is 3"),
        ({"turns": []}, "at least one"),
        ({"turns": ["a", 2]}, r"turns\[1\]"),
        ({"messages": [{"role": "user"}]}, "role and content"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "the assistant's"),
        ({"conversations": [{"from": "gpt", "value": "x"}]}, "no message from human"),
        ({"prompt": "x", "id": "1"}, "occurs twice"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, entry: object, message: str) -> None:
    path = written(tmp_path / "p.jsonl", {"prompt": "fine"}, entry)
    with pytest.raises(ConfigError, match=message):
        read_workload(path)


def test_many_wrong_lines_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", *["{"] * 9)
    with pytest.raises(ConfigError, match="and 4 more"):
        read_workload(path)
    with pytest.raises(ConfigError, match="no prompts"):
        read_workload(written(tmp_path / "q.jsonl", ""))
    with pytest.raises(ConfigError, match="cannot read"):
        read_workload(tmp_path / "none.jsonl")


def test_the_packages_own_prompts_are_read() -> None:
    assert len(read_workload(BUILT_IN).items) >= 100
