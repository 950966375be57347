"""The script of the text promise, in small: its prompts, its arms, and ten real texts."""

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from outpace.models.pull import default_cache_dir

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MODEL = "smollm2-135m"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("same_text", BENCHMARKS / "same_text.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["same_text"] = module
    spec.loader.exec_module(module)
    return module


def test_the_prompts_are_a_hundred_of_nine_kinds(script: ModuleType) -> None:
    text = script.PROMPTS.read_text(encoding="utf-8")
    items = [json.loads(line) for line in text.splitlines()]
    assert len(items) >= 100
    assert len({item["id"] for item in items}) == len({i["prompt"] for i in items}) == len(items)
    assert len({item["category"] for item in items}) == 9
    assert len({item["category"] for item in items[:10]}) >= 8  # the first few are mixed already
    assert all(set(item) == {"id", "category", "prompt"} for item in items)


def test_every_depth_is_tried_as_chain_and_as_tree(script: ModuleType) -> None:
    arms = list(script.arms_of("lookup", range(9), [0.0, 0.8]))
    assert len(arms) == len(set(arms)) == 2 * (1 + 2 * 8)
    args = script.parse([])
    assert (args.n_prompts, args.n_tokens) == (100, 512)
    assert args.depths == list(range(9))


@pytest.mark.model
def test_ten_real_texts_are_the_same_with_guesses(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (default_cache_dir(os.environ) / "models" / MODEL).exists():
        pytest.skip(f"{MODEL} is not in the cache; `make model` brings it")
    out = tmp_path / "same_text.json"
    lists = ["--drafters", "lookup,auto", "--depths", "5", "--json", str(out)]
    sizes = ["--n-prompts", "10", "--n-tokens", "32", "--streams", "5"]
    assert script.run(script.parse(["--model", MODEL, *lists, *sizes])) == 0
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["total"]["mismatches"] == 0
    assert document["total"]["texts"] == 2 * 2 * 2 * 10
    if document["row_invariant"]:
        assert document["total"]["same"] == document["total"]["texts"]
    assert "10/10 same" in capsys.readouterr().out
