"""`outpace doctor` says what is here, and where a pass goes."""

import json
from pathlib import Path

from cli.conftest import Run


def test_facts_are_one_document(run: Run) -> None:
    done = run("doctor", "--json", model=False)
    assert done.returncode == 0
    facts = json.loads(done.stdout)
    assert {"outpace", "machine", "packages", "models", "drafters", "runtimes"} <= set(facts)


def test_a_profile_shows_each_pass_beside_its_floor(run: Run, folder: Path) -> None:
    asked = ("doctor", "--profile", str(folder), "--rows", "1,3", "--context", "20")
    done = run(*asked, model=False)
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in ("matrices", "attention", "rest", "floor", "GB/s"))
    passes = json.loads(run(*asked, "--json", model=False).stdout)["passes"]
    assert [one["rows"] for one in passes] == [1, 3]
    assert all(one["times_floor"] > 0 for one in passes)


def test_rows_that_are_no_numbers_are_named(run: Run, folder: Path) -> None:
    done = run("doctor", "--profile", str(folder), "--rows", "1,x", model=False)
    assert done.returncode != 0
    assert "'1,x'" in done.stderr
    assert "whole numbers" in done.stderr
