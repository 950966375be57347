"""`outpace train`: what cannot be is refused before a model is opened, and progress is told."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from outpace.cli.main import exit_code
from outpace.cli.train import _lines, train
from outpace.errors import ConfigError
from outpace.train.plan import ARCHS, Arch, Report, TrainPlan
from outpace.train.run import Run
from train.tiny import tiny_target, tiny_weights


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"arch": "huge"}, "small, standard, large"),
        ({"epochs": 0.0}, "epochs"),
        ({"minutes": -1.0}, "minutes"),
    ],
)
def test_impossible_options_are_refused(
    tmp_path: Path, options: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        train(out=tmp_path / "head", **options)  # type: ignore[arg-type]
    assert exit_code(caught.value) == 2
    assert not (tmp_path / "head").exists()


def test_prompts_without_a_prompt_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"text": "no"}\n')
    with pytest.raises(ConfigError, match="line 1"):
        train(out=tmp_path / "head", prompts=file)


def test_a_folder_that_holds_a_run_can_be_protected(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "plan.json").write_text("{}")
    with pytest.raises(ConfigError, match="holds a run"):
        train(out=tmp_path, resume=False)


def test_phases_are_told_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    tell = _lines()
    for report in (
        Report(phase="corpus", share=0.1, words="1 token"),
        Report(phase="corpus", share=0.2, words="2 tokens"),
        Report(phase="features", share=0.5, words="3 documents"),
    ):
        tell(report)
    assert capsys.readouterr().err.split("\n")[:2] == [
        "corpus 10%: 1 token",
        "features 50%: 3 documents",
    ]


def test_a_budget_of_minutes_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The corpus ends at its share of them, and the steps are what fits into the rest."""
    sizes = {**ARCHS, "small": Arch(embed=32, inner=64, root_inner=32, draft=64)}
    monkeypatch.setattr("outpace.train.learning.ARCHS", sizes)
    now = [0.0]

    def clock() -> float:
        now[0] += 0.2  # every look takes its time
        return now[0]

    plan = TrainPlan(tokens=10**6, minutes=1.0, arch="small", per_batch=4, max_answer=40)
    run = Run(
        folder=tmp_path, plan=plan, model=tiny_target(), weights=tiny_weights(),
        tell=lambda _: None, clock=clock,
    )  # fmt: skip
    run.run()
    noted = json.loads((tmp_path / "work" / "plan.json").read_text())
    assert 100 < noted["tokens"] < 10**6
    assert 1 <= noted["steps"] < 10**6 / 40
    manifest = json.loads((tmp_path / "work" / "manifest.json").read_text())
    assert manifest["tokens"] == noted["tokens"]
    assert now[0] < 75


def test_help_needs_no_torch() -> None:
    code = (
        "import sys; sys.argv = ['outpace', 'train', '--help']\n"
        "from outpace.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--target" in done.stdout
