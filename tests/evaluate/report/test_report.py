"""The report says what the records say, and nothing that they do not."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from evaluate.report.studies import begun, folder, study, text
from evaluate.simulated import CATEGORIES, Study, Truth, written
from outpace.errors import ConfigError
from outpace.evaluate.ledger import LEDGER, LedgerBroken
from outpace.evaluate.measurement import RECORDS
from outpace.evaluate.plan.read import parse_plan
from outpace.evaluate.report import show, write
from outpace.evaluate.report.figures import lines_in, spans
from outpace.evaluate.report.shape import Report
from outpace.evaluate.schemas import FOLDER

SLOW = Truth(
    n_items=25, kept=dict.fromkeys(CATEGORIES, 0.0), overhead=0.1, chunks=True, quality_lost=0.3
)  # fmt: skip


def document(at: Path, name: str = "report.json") -> Any:
    return json.loads((at / name).read_text("utf-8"))


def test_the_document_is_of_the_published_shape(reported: Path) -> None:
    schema = json.loads((FOLDER / "report.schema.json").read_text("utf-8"))
    Draft202012Validator(schema).validate(document(reported))


def test_all_seven_questions_are_answered(reported: Path) -> None:
    answers = document(reported)["answers"]
    assert len(answers) == 7
    assert all(a["answer"] and a["facts"] for a in answers)
    words = json.dumps(answers)
    for needed in ("no data", "core-hours", "Peak memory", "Maintenance", "tokens per pass"):
        assert needed in words


def test_reporting_again_gives_the_same_files(reported: Path) -> None:
    names = ("report.json", "report.html", "speculation_profile.json", "test-result.intoto.json")
    before = {name: (reported / name).read_bytes() for name in names}
    write(reported)
    assert {name: (reported / name).read_bytes() for name in names} == before


def test_every_figure_names_lines_that_are_there_and_of_that_kind(reported: Path) -> None:
    lines = (reported / RECORDS).read_text("utf-8").splitlines()
    found = document(reported)

    def behind(source: dict[str, str]) -> list[dict[str, Any]]:
        assert source["records"], "no lines"
        return [json.loads(lines[n - 1]) for n in lines_in(source["records"])]

    for curve in found["latencies"]:
        rows = behind(curve["source"])
        assert {r["request"]["block"]["arm"] for r in rows} == {curve["arm"]}
        assert {r["phase"] for r in rows} == {"test"}
        assert len(rows) == len(curve["values"])
    for probe in found["failure_mode"]:
        control = "on" if probe["control"] else "off"
        variants = {r["variant"] for r in behind(probe["source"])}
        assert variants == {f"{probe['case']},control={control}"}
    for row in found["loads"]:
        assert len(behind(row["source"])) == row["requests"] + 1, "and the window"
    for bar in found["subgroups"]:
        factor, _, value = bar["name"].partition("=")
        assert {r["subgroups"][factor] for r in behind(bar["source"])} == {value}
    for c in found["criteria"]:
        assert c["source"]["records"] or c["source"]["statements"], c["id"]
    for point in found["speed"]["pairs"]:
        base, other = (json.loads(lines[n - 1]) for n in point["lines"])
        assert base["request"]["item"] == other["request"]["item"] == point["item"]


def test_the_numbers_are_those_of_the_truth(tmp_path: Path) -> None:
    """A pass with four guesses costs 1.24 plain ones, and an edit keeps nine guesses in ten."""
    report = write(folder(tmp_path / "s"))
    assert report.break_even is not None
    assert report.break_even.cost.value == pytest.approx(1.24, rel=0.03)
    (mine,) = [g for g in report.guesses if g.arm == "candidate"]
    assert mine.pooled.value == pytest.approx(
        1 + sum(p.marginal * p.offered for p in mine.positions) / mine.rounds
    )
    predicted = report.break_even.predicted
    assert report.break_even.measured is not None
    assert report.break_even.measured.value == pytest.approx(predicted, rel=0.15)
    rates = document(tmp_path / "s", "speculation_profile.json")
    assert rates["per_category"]["edit"]["conditional"][0] == pytest.approx(0.9, abs=0.05)
    assert rates["per_category"]["translate"]["conditional"][0] == pytest.approx(0.35, abs=0.08)
    assert rates["consistency"]["counters_agree"] is True
    assert rates["consistency"]["histogram_agrees"] is True


def test_the_profile_notices_counters_that_disagree(tmp_path: Path) -> None:
    made = study()
    at = next(i for i, w in enumerate(made.windows) if w.block.block.arm == "candidate")
    counters = {**made.windows[at].counters, "draft_tokens": 1.0}
    made.windows[at] = replace(made.windows[at], counters=counters)
    write(written(made, tmp_path, text()))
    assert document(tmp_path, "speculation_profile.json")["consistency"]["counters_agree"] is False


def test_what_carries_the_result_is_named(tmp_path: Path) -> None:
    report = write(folder(tmp_path))
    assert {w.change for w in report.what_if if w.carries} == {"drafter_removed", "wrong_drafter"}


def test_the_worst_come_first(tmp_path: Path) -> None:
    report = write(folder(tmp_path, truth=SLOW))
    gains = [r.gain for r in report.regressions]
    assert len(gains) == 10
    assert gains == sorted(gains)
    assert all(g < 1 for g in gains)
    values = [b.estimate.value for b in report.subgroups if b.estimate]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(("truth", "result"), [(Truth(n_items=25), "PASSED"), (SLOW, "FAILED")])
def test_the_test_result_follows_the_verdict(tmp_path: Path, truth: Truth, result: str) -> None:
    report = write(folder(tmp_path, truth=truth))
    statement = document(tmp_path, "test-result.intoto.json")
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    predicate = statement["predicate"]
    assert predicate["result"] == result
    named = [*predicate["passedTests"], *predicate["warnedTests"], *predicate["failedTests"]]
    assert sorted(named) == sorted(c.id for c in report.criteria)
    digests = [c["digest"]["sha256"] for c in predicate["configuration"]]
    assert digests[0] == report.decision.plan
    assert all(re.fullmatch("[0-9a-f]{64}", d) for d in digests)


def test_what_is_unconfirmed_is_a_warning(tmp_path: Path) -> None:
    made = study()
    made.statements = [s for s in made.statements if s.kind != "confirm"]
    report = write(written(made, tmp_path, text()))
    assert report.judgement.words == "SUPPORTED (unconfirmed)"
    assert document(tmp_path, "test-result.intoto.json")["predicate"]["result"] == "WARNED"
    assert "confirmation set was not opened" in " ".join(report.limits)


def test_a_study_that_only_began_is_reported_too(tmp_path: Path) -> None:
    report = write(begun(tmp_path))
    assert report.judgement.conclusion == "INCONCLUSIVE"
    assert report.speed is None
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "not measured yet" in page


def test_arms_that_tell_nothing_are_reported_from_the_client_alone(tmp_path: Path) -> None:
    made = study()
    made.requests = [
        replace(m, request=replace(m.request, speculation=None)) for m in made.requests
    ]
    made.windows = [replace(w, counters={}, cpu_s=None, peak_bytes=None) for w in made.windows]
    report = write(written(made, tmp_path, text()))
    assert report.guesses == ()
    assert report.break_even is None
    assert report.speed is not None
    told = " ".join(report.limits)
    assert "candidate tells nothing of its guesses" in told
    assert "reports no processor time" in told
    assert document(tmp_path, "speculation_profile.json")["overall"] is None


def test_deviations_stale_statements_and_planted_faults_are_told(tmp_path: Path) -> None:
    planted = ("arms.candidate", {"drafter": "auto", "test_only": {"slowdown": 1.3}})
    made = study(planted)
    made.say("deviation", {"words": "the fan was off for block two"})
    made.say("verdict", {})
    last = made.statements[-1]
    made.statements[-1] = replace(last, lineage={**last.lineage, "hardware": "another"})
    report = write(written(made, tmp_path, text(planted)))
    assert "the fan was off" in report.deviations[0]
    assert "planted on purpose" in " ".join(report.limits)
    stale = [e for e in report.events if not e.counts]
    assert {e.kind for e in stale} >= {"test", "confirm"}
    assert all("hardware" in e.changed or "test" in e.changed for e in stale)


def test_text_from_elsewhere_stays_text(tmp_path: Path) -> None:
    nasty = ("decision.statement", "<script>alert(1)</script> & \"so\" 'on'")
    made = study(nasty)
    made.requests = [
        replace(m, request=replace(m.request, item=f"<img src=x>{m.request.item}"))
        for m in made.requests
    ]
    write(written(made, tmp_path, text(nasty)))
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


def test_a_broken_ledger_is_not_reported(tmp_path: Path) -> None:
    made = folder(tmp_path)
    path = made / LEDGER
    path.write_bytes(
        path.read_bytes().replace(b'"mismatch"', b'"identical"').replace(b"512", b"513")
    )
    with pytest.raises(LedgerBroken):
        write(made)
    with pytest.raises(ConfigError, match=r"no plan\.yaml"):
        write(tmp_path / "nowhere")


def test_the_console_shows_the_verdict_and_every_criterion(reported: Path) -> None:
    console = Console(record=True, width=120, file=io.StringIO())
    report: Report = write(reported)
    show(report, console)
    shown = console.export_text()
    assert report.judgement.words in shown
    assert all(c.id in shown for c in report.criteria)


def test_lines_are_written_as_ranges_and_read_again() -> None:
    for numbers in ((), (5,), (1, 2), (1, 4, 7, 10), (1, 2, 3, 9, 20, 22, 24), (1, 9)):
        assert lines_in(spans(numbers)) == numbers
    assert spans((1, 4, 7, 10, 20)) == "1-10/3,20"
    assert spans(range(3, 49)) == "3-48"


def test_a_report_is_about_its_own_plan(tmp_path: Path) -> None:
    made = Study(parse_plan(text()), Truth())
    other = text(("metadata.name", "another"))
    made.measure("test")
    with pytest.raises(ConfigError, match="another folder"):
        write(written(made, tmp_path, other))
