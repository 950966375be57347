"""What the figures say, in a sentence each, and the few numbers the page opens with."""

from outpace.evaluate.judge.words import number, percent, units
from outpace.evaluate.plan.document import BASELINE, CANDIDATE
from outpace.evaluate.report.figures import Guesses, PositionRate
from outpace.evaluate.report.page.words import NAMES, NO_DATA, between, ordinal, times
from outpace.evaluate.report.shape import Report
from outpace.stats import Estimate

Key = tuple[str, str, str]


def keys(report: Report) -> list[Key]:
    """Label, value, note."""
    made: list[Key] = []
    if report.speed is not None and report.speed.means is not None:
        e = report.speed.means
        wanted = f"; more than {report.speed.wanted:g} was claimed" if report.speed.wanted else ""
        made.append((f"{NAMES[report.speed.metric]}, times as fast", f"{number(e.value)} ×",
                     f"{between(e).strip()}, {units(e.n)}{wanted}"))  # fmt: skip
    text = next((c for c in report.criteria if "identical" in c.found), None)
    if text is not None:
        count = text.found.split(" text")[0]
        made.append(("texts identical to the baseline's", count, text.status.lower()))
    if report.subgroups and report.subgroups[0].estimate is not None:
        worst = report.subgroups[0]
        made.append(("worst subgroup, times the baseline's time", _value(worst.estimate),
                     worst.name.replace("=", ": ")))  # fmt: skip
    zero = next((p for p in report.failure_mode if p.alpha == 0 and p.control), None)
    if zero is not None:
        made.append(("every guess wrong, times the baseline's time", _value(zero.slowdown),
                     "control on"))  # fmt: skip
    costs = {u.arm: u.cost_per_useful for u in report.resources}
    mine, base = costs.get(CANDIDATE), costs.get(BASELINE)
    if mine and base:
        made.append(("cost of a useful answer, share of the baseline's", percent(mine / base), ""))
    return made


def sayings(report: Report) -> dict[str, str]:
    """By figure."""
    return {
        "speed": _speed(report),
        "paired": _paired(report),
        "blocks": _blocks(report),
        "stages": _stages(report),
        "positions": _positions(report),
        "lengths": _lengths(report),
        "stress": _stress(report),
        "collapse": _collapse(report),
        "what_if": _what_if(report),
        "subgroups": _subgroups(report),
    }


def _speed(report: Report) -> str:
    s = report.speed
    if s is None:
        return NO_DATA
    return (
        f"By the {NAMES[s.metric]} the candidate is {times(s.means)} as fast (geometric mean over "
        f"prompts, 95 %), {times(s.totals)} by total time, {times(s.medians)} by medians, which "
        "say less."
    )


def _paired(report: Report) -> str:
    if report.speed is None:
        return NO_DATA
    pairs = report.speed.pairs
    faster = sum(p.other_s < p.base_s for p in pairs)
    return f"The candidate was faster in {faster} of {units(len(pairs), 'pair')}."


def _blocks(report: Report) -> str:
    known = [b.estimate.value for b in report.speed.blocks if b.estimate] if report.speed else []
    if not known:
        return NO_DATA
    if len(known) == 1:
        return f"One block, {number(known[0])} times as fast."
    return f"Blocks agree on {number(min(known))} to {number(max(known))} times as fast."


def _stages(report: Report) -> str:
    g = next((g for g in report.guesses if g.arm == CANDIDATE), None)
    if g is None:
        return "The candidate told nothing of its rounds."
    return (
        f"The candidate's part of the test: {g.rounds:,} rounds, {g.drafted:,} guesses, "
        f"{g.kept:,} kept; {number(g.pooled.value)} tokens a pass."
    )


def _positions(report: Report) -> str:
    g = next((g for g in report.guesses if g.arm == CANDIDATE), None)
    if g is None or not g.positions:
        return NO_DATA
    shown = well_known(g)
    first, last = shown[0], shown[-1]
    words = f"The first guess was kept {percent(first.marginal)} of the time"
    if len(shown) == 1:
        return f"{words}."
    return f"{words}, the {ordinal(last.position)} {percent(last.marginal)}."


def well_known(g: Guesses) -> tuple[PositionRate, ...]:
    """Positions that enough drafts reached for a share to mean something; at least the first."""
    least = max(5, g.positions[0].offered // 100)
    return tuple(p for p in g.positions[:12] if p.position == 1 or p.offered >= least)


def _lengths(report: Report) -> str:
    even = report.break_even
    if even is None:
        return NO_DATA
    below = sum(p.length < even.cost.value for p in even.points)
    return (
        f"A pass costs {number(even.cost.value)} plain passes; {below} of "
        f"{units(len(even.points))} stay below that many tokens a pass."
    )


def _stress(report: Report) -> str:
    on = [p for p in report.failure_mode if p.control and p.slowdown is not None]
    off = [p for p in report.failure_mode if not p.control and p.slowdown is not None]
    parts = []
    for name, group in (("With the control on", on), ("with it off", off)):
        worst = max(group, key=lambda p: p.slowdown.value if p.slowdown else 0.0, default=None)
        if worst is not None:
            parts.append(f"{name} the worst is {times(worst.slowdown)} the baseline's time")
    return "; ".join(parts) + "." if parts else NO_DATA


def _collapse(report: Report) -> str:
    limit = report.max_slowdown
    over = [
        p for p in report.failure_mode
        if p.control and p.alpha is not None and p.slowdown and limit and p.slowdown.value > limit
    ]  # fmt: skip
    if not over:
        return f"With the control on it stays within {number(limit or 1.0)} times."
    shares = ", ".join(percent(p.alpha or 0.0) for p in over)
    return f"Slower than allowed where {shares} of the guesses are kept."


def _what_if(report: Report) -> str:
    carrying = [assumption(w.change) for w in report.what_if if w.carries]
    if not carrying:
        return "What if: no single assumption carries the result"
    return f"What if: the result rests on {' and on '.join(carrying)}"


def assumption(change: str) -> str:
    """What a change takes away."""
    name, _, value = change.replace(":", "=").partition("=")
    words = {
        "drafter_removed": "the drafter",
        "wrong_drafter": "its guesses being right",
        "forced_abstention": "guessing at all",
        "threads": f"more than {value} thread{'' if value == '1' else 's'}",
        "longer_context": f"contexts shorter by {value} tokens",
        "data": f"prompts other than {value}",
    }
    return words.get(name, change)


def _subgroups(report: Report) -> str:
    worst = next((b for b in report.subgroups if b.estimate is not None), None)
    if worst is None:
        return NO_DATA
    return (
        f"Worst is {worst.name.replace('=', ' ')}, at {times(worst.estimate)} the baseline's "
        f"time. Below 1 the candidate is faster."
    )


def _value(estimate: Estimate | None) -> str:
    return NO_DATA if estimate is None else f"{number(estimate.value)} ×"
