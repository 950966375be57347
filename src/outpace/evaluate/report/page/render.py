"""Fills the page: every number in it was in the report or in the records before."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from outpace.evaluate.judge.evidence import Row
from outpace.evaluate.plan.document import CANDIDATE
from outpace.evaluate.report.figures import ProbePoint, Source, lines_in, spans
from outpace.evaluate.report.page import intervals, plots, sayings, words
from outpace.evaluate.report.shape import Limit, Report

_HERE = Path(__file__).parent
_MOST_ROWS = 8000
_GLYPHS = {
    "SUPPORTED": "PASS", "REFUTED": "FAIL", "INCONCLUSIVE": "INCONCLUSIVE", "INVALID": "INVALID",
}  # fmt: skip
_SECTIONS = (
    ("questions", "Seven questions"), ("criteria", "Criteria"), ("speed", "Speed"),
    ("stages", "Five stages"), ("stress", "When guesses go wrong"), ("subgroups", "Subgroups"),
    ("operations", "What it takes"), ("trail", "What it rests on"), ("records", "Records"),
)  # fmt: skip


def render(report: Report, rows: Seq[Row]) -> str:
    """The whole page as text."""
    mine = next((g for g in report.guesses if g.arm == CANDIDATE), None)
    here = {row.line for row in rows[:_MOST_ROWS]}
    return _template().render(
        r=report,
        style=Markup((_HERE / "style.css").read_text(encoding="utf-8")),  # noqa: S704 - our own
        sections=_SECTIONS,
        verdict_glyph=_GLYPHS[report.judgement.conclusion],
        keys=sayings.keys(report),
        say=sayings.sayings(report),
        plots=_plots(report),
        intervals=intervals.of_criteria(report.criteria),
        legend=[(arm, plots.ARMS.get(arm, "other"))
                for arm in dict.fromkeys(c.arm for c in report.latencies)],
        mine=mine,
        bad_cases=_cases(report),
        what_ifs=_what_ifs(report),
        forest=_forest(report),
        all_of=_all_of,
        rows=[_row(row) for row in rows[:_MOST_ROWS]],
        n_rows=len(rows),
        words=words,
        to=lambda n: f"#r{n}" if n in here else "#records",
        first=lambda ranges: lines_in(ranges)[0],
        count=lambda ranges: f"{len(lines_in(ranges)):,}",
    )  # fmt: skip


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("report.html")


def _plots(report: Report) -> Mapping[str, object]:
    metrics = dict.fromkeys(c.metric for c in report.latencies)
    groups = [[c for c in report.latencies if c.metric == metric] for metric in metrics]
    forced = [p for p in report.failure_mode if p.alpha is not None and p.slowdown is not None]
    mine = next((g for g in report.guesses if g.arm == CANDIDATE), None)
    return {
        "paired": plots.paired(report.speed) if report.speed else "",
        "blocks": plots.blocks(report.speed) if report.speed else "",
        "distributions": [(group, plots.distribution(group)) for group in groups],
        "positions": plots.positions(mine) if mine is not None else "",
        "lengths": plots.lengths(report.break_even) if report.break_even else "",
        "collapse": plots.collapse(report.failure_mode, report.max_slowdown) if forced else "",
    }


def _cases(report: Report) -> list[tuple[ProbePoint, Markup]]:
    """Natural bad cases, drawn on one scale."""
    natural = sorted(
        (p for p in report.failure_mode if p.alpha is None), key=lambda p: (p.case, not p.control)
    )
    limit = Limit(value=report.max_slowdown or 1.0, wanted="below", scale="ratio")
    on = intervals.ruler([limit.value, *intervals.bounds(p.slowdown for p in natural)])
    return [
        (p, intervals.of_estimate(on, p.slowdown, limit=limit, kind="cand" if p.control else "off"))
        for p in natural
    ]


def _what_ifs(report: Report) -> list[tuple[object, Markup]]:
    on = intervals.ruler(intervals.bounds(w.gain for w in report.what_if))
    return [(w, intervals.of_estimate(on, w.gain, kind="cand")) for w in report.what_if]


def _forest(report: Report) -> list[tuple[object, Markup]]:
    bars = [b for b in report.subgroups if b.estimate is not None]
    limit = None
    if report.subgroup_margin is not None:
        limit = Limit(value=report.subgroup_margin, wanted="below", scale="ratio")
    margin = [limit.value] if limit else []
    on = intervals.ruler([*margin, *intervals.bounds(b.estimate for b in bars)])
    return [
        (b, intervals.of_estimate(on, b.estimate, limit=limit,
                                  kind=b.status.lower() if b.status else "cand"))
        for b in bars
    ]  # fmt: skip


def _all_of(probes: Seq[ProbePoint]) -> Source:
    """Everything behind several points."""
    return Source(records=spans(n for p in probes for n in lines_in(p.source.records)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """A request as a row of the last table."""

    line: int
    phase: str
    arm: str
    block: str
    item: str
    ttft: str
    e2el: str
    tokens: int
    length: str
    check: str


def _row(row: Row) -> _Shown:
    m, r = row.m, row.m.request
    said = r.speculation
    per_pass = (said.rounds + said.kept) / said.rounds if said is not None and said.rounds else None
    graded = m.grade.passed if m.grade is not None else None
    check = {True: "passed", False: "failed", None: ""}[graded]
    return _Shown(
        line=row.line, phase=f"{m.phase} {m.variant}".strip(), arm=m.arm,
        block=f"{r.block.load} #{r.block.repeat + 1}", item=r.item, ttft=words.ms(r.ttft_s),
        e2el=words.ms(r.e2el_s) if r.ok else "failed", tokens=r.completion_tokens,
        length=words.plain(per_pass) if per_pass is not None else "",
        check=check if r.ok else r.error or "failed",
    )  # fmt: skip
