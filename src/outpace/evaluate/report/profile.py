"""`speculation_profile.json`: how guesses fared, for planners and simulators.

Marginal rates are over the drafts that offered a position, conditional ones over those whose
guess before was kept. What the engine's own counters say is compared with the requests' sum.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import asdict

from outpace.evaluate.arms.arm import ACCEPTED, DRAFTED
from outpace.evaluate.judge.evidence import Row
from outpace.evaluate.plan.document import CANDIDATE
from outpace.evaluate.report.facts.guessing import of_rows
from outpace.evaluate.report.figures import Guesses
from outpace.evaluate.report.shape import Report
from outpace.evaluate.report.study import TEST, Reported

SCHEMA = 1
Document = Mapping[str, object]


def profile(study: Reported, report: Report) -> Document:
    """The candidate's, from the test. `overall` is null where nobody told the guesses."""
    plan = study.evidence.plan
    rows = study.evidence.requests(TEST, CANDIDATE)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.m.request.category, []).append(row)
    whole = of_rows(CANDIDATE, rows)
    even = report.break_even
    return {
        "schema": SCHEMA,
        "kind": "speculation_profile",
        "method": plan.arms[CANDIDATE].model_dump(mode="json"),
        "conditions": {
            "plan": plan.identity,
            "population": plan.decision.population,
            "sampling": plan.sampling.model_dump(mode="json"),
            "streams": plan.design.streams,
            "lineage": dict(study.entries[-1].statement.lineage) if study.entries else {},
        },
        "overall": _rates(whole),
        "per_category": {name: _rates(of_rows(CANDIDATE, mine)) for name, mine in groups.items()},
        "pass_cost": asdict(even.cost) if even is not None else None,
        "consistency": _consistency(study, rows),
    }


def _rates(g: Guesses | None) -> Document | None:
    if g is None:
        return None
    return {
        "rounds": g.rounds,
        "drafted": g.drafted,
        "kept": g.kept,
        "acceptance_length": {
            "pooled": asdict(g.pooled),
            "per_request": asdict(g.per_request) if g.per_request is not None else None,
        },
        "draft_waste": asdict(g.waste) if g.waste is not None else None,
        "marginal": [p.marginal for p in g.positions],
        "conditional": [p.conditional for p in g.positions],
        "offered": [p.offered for p in g.positions],
        "histogram": [{"guesses": d, "kept": k, "rounds": n} for d, k, n in g.histogram],
    }


def _consistency(study: Reported, rows: Seq[Row]) -> Document:
    """Do the histogram, the requests and the server's counters tell the same story?"""
    said = [r.m.request.speculation for r in rows if r.m.request.speculation is not None]
    windows = study.evidence.windows(TEST, CANDIDATE)
    sums = {DRAFTED: sum(s.drafted for s in said), ACCEPTED: sum(s.kept for s in said)}
    counted = {
        name: sum(s.w.counters[name] for s in windows)
        for name in sums
        if windows and all(name in s.w.counters for s in windows)
    }
    kept = sum(k * n for s in said for _, k, n in s.lengths)
    agrees = all(abs(counted[name] - sums[name]) < 0.5 for name in counted)
    return {
        "requests": sums,
        "counters": counted or None,
        "counters_agree": agrees if counted and said else None,
        "histogram_agrees": kept == sums[ACCEPTED] if any(s.lengths for s in said) else None,
    }
