"""A study measured in this process on a table model, and what its report says of its rounds."""

from pathlib import Path

import pytest

from evaluate.steps.lab import document, study_of, walked, write
from outpace.evaluate.report import write as report_on


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study whose candidate guesses four at a time."""
    arms = {
        "baseline": {"drafter": "none", "test_only": {"slowdown": 5}},
        "candidate": {"drafter": "lookup", "depth": 4},
    }
    path = write(tmp_path_factory.mktemp("toy"), document(arms=arms))
    walked(path)
    return study_of(path).folder


def test_the_five_stages_share_the_time_of_the_rounds(measured: Path) -> None:
    stages = report_on(measured).stages
    assert [s.name for s in stages] == ["draft", "score", "accept", "resample", "repeat"]
    shares = [s.share for s in stages]
    assert all(share is not None and share > 0 for share in shares)
    assert sum(share for share in shares if share is not None) == pytest.approx(1)


def test_what_is_said_of_guesses_is_what_was_counted(measured: Path) -> None:
    report = report_on(measured)
    (mine,) = report.guesses
    assert f"{mine.drafted:,} guesses" in report.stages[0].output
    assert f"{mine.kept:,} kept" in report.stages[2].output
    assert mine.pooled.value == pytest.approx(1 + mine.kept / mine.rounds)
    assert report.judgement.words == "SUPPORTED"
    assert any("planted on purpose" in text for text in report.limits)
