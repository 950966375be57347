"""The shipped prompts are what is said of them, and the check of that can fail."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evaluate.data.files import SPLIT
from outpace.bench.workload import BUILT_IN
from outpace.evaluate.data import Items, bad_case, counts, load, longer
from outpace.evaluate.data.builtin.validate import FOLDER, validate
from outpace.evaluate.data.sandbox.run import run
from outpace.evaluate.plan.data import Data, Sampling

CASES = ("domain_shift", "language_switch", "high_entropy", "adversarial")


@pytest.fixture(scope="module")
def shipped() -> Items:
    data = Data.model_validate({
        "source": "builtin", "split": SPLIT | {"stratify": "category"},
        "subgroups": ["category", "language", "case_kind", "prompt_length", "temperature"],
    })  # fmt: skip
    return load(data, Sampling())


def test_the_shipped_set_is_what_is_said_of_it() -> None:
    assert validate(run_code=False) == ()


@pytest.mark.skipif(
    run("", "").status == "no_cell", reason="code is only run where it can be walled in"
)
def test_every_test_of_code_passes_its_solution_and_no_lookalike() -> None:
    assert validate() == ()


def _row(folder: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the first row that the change applies to (it says True)."""
    path = folder / name
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert any(change(line) for line in lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def _set(row: dict[str, Any], **fields: object) -> bool:
    row |= fields
    return True


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("prompts.jsonl", lambda r: "check" in r and r.pop("check"), "an answer without a check"),
        ("prompts.jsonl", lambda r: _set(r, language=None), "no language"),
        ("prompts.jsonl", lambda r: _set(r, extra=1), "unknown extra"),
        ("prompts.jsonl", lambda r: _set(r, probe="odd"), "probe 'odd'"),
        ("prompts.jsonl", lambda r: _set(r, category="poetry"), "its category is poetry"),
        ("prompts.jsonl", lambda r: "prompt" in r and _set(r, prompt=r["prompt"] + " "), "space"),
        (
            "prompts.jsonl",
            lambda r: (
                r.get("check", {}).get("type") == "numeric"
                and _set(r, check={"type": "numeric", "answer": -77})
            ),
            "reference is graded False",
        ),
        (
            "prompts.jsonl",
            lambda r: (
                r["category"] == "chat"
                and _set(r, prompt=json.loads(BUILT_IN.read_text("utf-8").split("\n")[1])["prompt"])
            ),
            "is in the benchmark's set",
        ),
        (
            "answers.jsonl",
            lambda r: r["id"].startswith("copy") and _set(r, wrong=r["reference"]),
            "wrong is graded True",
        ),
    ],
)
def test_a_slip_in_the_set_is_found(
    tmp_path: Path, name: str, change: Callable[[dict[str, Any]], object], says: str
) -> None:
    folder = tmp_path / "set"
    shutil.copytree(FOLDER, folder)
    _row(folder, name, change)
    assert any(says in problem for problem in validate(folder, run_code=False))


def test_a_set_without_its_licence_or_too_large_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    shutil.copytree(FOLDER, folder)
    (folder / "LICENSE.txt").write_text("mine")
    (folder / "ballast.txt").write_bytes(bytes(1 << 20))
    problems = validate(folder, run_code=False)
    assert any("LICENSE" in p for p in problems)
    assert any("bytes" in p for p in problems)


def test_it_splits_into_parts_that_hold_every_category_and_kind(shipped: Items) -> None:
    for part in (shipped.dev, shipped.test, shipped.confirm):
        assert len({i.category for i in part}) == 9
        assert len({i.case_kind for i in part}) == 3
    found = counts(shipped)
    assert found.test >= 150
    assert min(found.subgroups["case_kind"].values()) >= 25
    assert not [note for note in shipped.notes if "left out" in note]


def test_its_first_prompts_are_a_cross_section() -> None:
    data = Data.model_validate({"source": "builtin", "split": SPLIT, "limit": 40})
    assert len({i.category for i in load(data, Sampling()).all}) == 9


@pytest.mark.parametrize("case", CASES)
def test_every_bad_case_has_prompts_and_the_confirmation_set_stays_closed(
    shipped: Items, case: Any
) -> None:
    found = bad_case(shipped, case)
    assert len(found) >= 4
    assert not {i.id for i in found} & {i.id for i in shipped.confirm}


def test_data_without_bad_cases_gets_the_shipped_ones(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "Hello there."}\n{"prompt": "Why is ice slick?"}')
    data = Data.model_validate({"source": "p.jsonl", "split": SPLIT})
    items = load(data, Sampling(temperatures=(0.0, 0.7)), folder=tmp_path)
    found = bad_case(items, "high_entropy")
    assert len(found) >= 10
    assert {i.temperatures for i in found} == {(0.0, 0.7)}


def test_a_longer_context_comes_before_the_question(shipped: Items) -> None:
    item = next(i for i in shipped.test if i.category == "extract")
    made = longer(item, 1000, lambda text: len(text.split()))
    assert made.prompt.endswith(item.prompt)
    n = len(made.prompt.split()) - len(item.prompt.split())
    assert 1000 <= n < 1200
    assert made.id == item.id
    assert made.digest != item.digest
    assert made.check == item.check
