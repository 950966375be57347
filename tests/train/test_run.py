"""A whole run on a tiny target: killed wherever one likes it ends at the same head."""

import json
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from outpace.drafters.head.files import read_head
from outpace.drafters.head.steps import NumpySteps
from outpace.errors import ConfigError
from outpace.train.plan import ARCHS, Arch, Report, TrainPlan
from outpace.train.run import Run
from train.tiny import tiny_target, tiny_weights

PLAN = TrainPlan(tokens=2600, steps=14, seed=3, arch="small", per_batch=4, max_answer=40)


@pytest.fixture(autouse=True)
def tiny_arch(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {**ARCHS, "small": Arch(embed=32, inner=64, root_inner=32, draft=64)}
    monkeypatch.setattr("outpace.train.learning.ARCHS", sizes)
    torch.set_num_threads(1)


def run(folder: Path, tell: Callable[[Report], None], plan: TrainPlan = PLAN) -> dict[str, object]:
    return Run(
        folder=folder, plan=plan, model=tiny_target(), weights=tiny_weights(), tell=tell
    ).run()


def killed(folder: Path, after: int) -> bool:
    """Run in a process of its own that is killed at its `after`-th report; whether it was."""
    child = os.fork()
    if child == 0:
        left = [after]

        def tell(_: Report) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            run(folder, tell)
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def test_killed_at_ten_random_moments_it_ends_at_the_same_head(tmp_path: Path) -> None:
    reports: list[Report] = []
    whole = run(tmp_path / "whole", reports.append)
    phases = list(dict.fromkeys(report.phase for report in reports))
    assert phases == ["corpus", "features", "training", "evaluation", "export"]
    rng = random.Random(1)
    folder = tmp_path / "killed"
    n_killed = sum(killed(folder, rng.randrange(1, len(reports) // 2)) for _ in range(10))
    assert n_killed >= 5
    again = run(folder, lambda _: None)
    for name in ("head.safetensors", "config.json"):
        mine, other = ((tmp_path / f / name).read_bytes() for f in ("whole", "killed"))
        if name == "config.json":  # but for the seconds it took
            mine_facts, other_facts = json.loads(mine), json.loads(other)
            mine_facts["training"].pop("seconds")
            other_facts["training"].pop("seconds")
            assert mine_facts == other_facts
        else:
            assert mine == other
    assert {**whole, "seconds": 0} == {**again, "seconds": 0}


def test_a_head_learns_what_its_target_says(tmp_path: Path) -> None:
    plan = TrainPlan(tokens=2600, steps=60, seed=3, arch="small", per_batch=4, max_answer=40)
    found = run(tmp_path / "taught", lambda _: None, plan)
    untaught = run(tmp_path / "untaught", lambda _: None, PLAN_UNTAUGHT)
    kept, before = found["kept"], untaught["kept"]
    assert isinstance(kept, tuple)
    assert isinstance(before, tuple)
    assert kept[0] > before[0] + 0.02
    head = read_head(tmp_path / "taught")
    assert head.config.digest == tiny_weights().digest
    assert len(head.ids_D) == 64
    assert NumpySteps(head)


PLAN_UNTAUGHT = TrainPlan(tokens=2600, steps=1, seed=3, arch="small", per_batch=4, max_answer=40)


def test_a_folder_holds_one_run(tmp_path: Path) -> None:
    run(tmp_path, lambda _: None, PLAN_UNTAUGHT)
    other = TrainPlan(tokens=2600, steps=1, seed=4, arch="small", per_batch=4, max_answer=40)
    with pytest.raises(ConfigError, match="seed"):
        run(tmp_path, lambda _: None, other)


def test_too_small_a_corpus_is_refused(tmp_path: Path) -> None:
    plan = TrainPlan(tokens=60, steps=1, seed=3, arch="small", per_batch=4, max_answer=40)
    with pytest.raises(ConfigError, match="too few"):
        run(tmp_path, lambda _: None, plan)
