"""The figures of the page, each from a section of the report."""

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq

from markupsafe import Markup

from outpace.evaluate.judge.words import number
from outpace.evaluate.plan.document import BASELINE, CANDIDATE
from outpace.evaluate.report.figures import (
    BreakEven,
    Curve,
    Guesses,
    LengthPoint,
    PairPoint,
    ProbePoint,
    Speed,
)
from outpace.evaluate.report.page.sayings import well_known
from outpace.evaluate.report.page.svg import (
    X0,
    X1,
    Y0,
    Y1,
    Point,
    Scale,
    across,
    axes,
    diamond,
    dot,
    figure,
    join,
    line,
    path,
    steps,
    text,
    upward,
    whisker,
)
from outpace.evaluate.report.page.words import NAMES, ms, times
from outpace.stats import Estimate

ARMS: Mapping[str, str] = {BASELINE: "base", CANDIDATE: "cand"}


def paired(speed: Speed) -> Markup:
    """Candidate against baseline, a mark per pair; below the diagonal it was faster."""
    both = [v for p in speed.pairs for v in (1000 * p.base_s, 1000 * p.other_s)]
    x, y = across(both, log=True), upward(both, log=True)
    parts = [
        axes(x, y, "baseline, ms", "candidate, ms"),
        line((x(x.low), y(y.low)), (x(x.high), y(y.high)), "even"),
        text((X0 + 8, Y1 + 12), "candidate slower", "hint"),
        text((X1 - 4, Y0 - 8), "candidate faster", "hint end"),
    ]
    parts += [_pair(p, (x(1000 * p.base_s), y(1000 * p.other_s))) for p in speed.pairs]
    return figure(f"{NAMES[speed.metric]} of every pair: candidate against baseline", *parts)


def blocks(speed: Speed) -> Markup:
    """The gain of each block with its interval; lines at no difference and at what was claimed."""
    known = [b for b in speed.blocks if b.estimate is not None]
    values = [1.0, speed.wanted or 1.0, *_bounds(b.estimate for b in known)]
    y = upward(values, log=True)
    x = Scale(low=0.4, high=len(known) + 0.6, start=X0, end=X1)
    parts = [axes(None, y, "block", "times as fast"), line((X0, y(1)), (X1, y(1)), "even")]
    if speed.wanted is not None and speed.wanted != 1:
        parts.append(line((X0, y(speed.wanted)), (X1, y(speed.wanted)), "limit"))
        parts.append(text((X1, y(speed.wanted) - 4), f"claimed {speed.wanted:g}", "hint end"))
    for i, bar in enumerate(known, start=1):
        parts.append(_estimate(x(i), y, bar.estimate, "cand", f"{bar.name}: {times(bar.estimate)}"))
        if len(known) <= 12:
            parts.append(text((x(i), Y0 + 16), str(i), "tick mid"))
    return figure("gain of each block", *parts)


def distribution(curves: Seq[Curve]) -> Markup:
    """The share of requests answered within a time, per arm."""
    metric = curves[0].metric
    x = across([1000 * v for c in curves for v in (c.values[0], c.values[-1])], log=True)
    y = Scale(low=0, high=1, start=Y0, end=Y1)
    parts = [axes(x, y, f"{NAMES[metric]}, ms", "share of requests",
                  y_words=_percent)]  # fmt: skip
    for c in curves:
        title = f"{c.arm}: median {ms(c.p50)} ms, p99 {ms(c.p99)} ms"
        values = [1000 * v for v in _thinned(c.values)]
        parts.append(steps(values, x, y, f"curve {ARMS.get(c.arm, 'other')}", title))
    return figure(f"distribution of the {NAMES[metric]} by arm", *parts)


def positions(guesses: Guesses) -> Markup:
    """How often guess i was kept: of all drafts that reached it, and where the one before was."""
    shown = well_known(guesses)
    x = Scale(low=0.6, high=max(len(shown), 2) + 0.4, start=X0, end=X1)
    y = Scale(low=0, high=1, start=Y0, end=Y1)
    parts = [axes(None, y, "position of the guess", "share kept", y_words=_percent)]
    marginal = [(x(p.position), y(p.marginal)) for p in shown]
    conditional = [
        (x(p.position), y(p.conditional)) for p in shown if p.conditional is not None
    ]  # fmt: skip
    parts += [path(conditional, "curve other"), path(marginal, "curve cand")]
    for p in shown:
        words = f"guess {p.position}: kept in {100 * p.marginal:.3g} % of {p.offered:,} drafts"
        parts.append(dot((x(p.position), y(p.marginal)), "mark cand", words, radius=3.6))
        if p.conditional is not None:
            again = f"guess {p.position}: {100 * p.conditional:.3g} % where the one before was kept"
            parts.append(diamond((x(p.position), y(p.conditional)), "mark open", again))
        parts.append(text((x(p.position), Y0 + 16), str(p.position), "tick mid"))
    return figure("acceptance by position", *parts)


def lengths(even: BreakEven) -> Markup:
    """Tokens per pass against the gain per token; the cost of a pass is the break-even."""
    x = across([1.0, even.cost.value, *(p.length for p in even.points)])
    y = upward([1.0, *(p.gain for p in even.points)], log=True)
    cost = x(even.cost.value)
    parts = [
        axes(x, y, "tokens per pass", "times as fast per token"),
        line((X0, y(1)), (X1, y(1)), "even"),
        line((cost, Y0), (cost, Y1), "limit"),
        text((cost + 5, Y1 + 9), f"break-even {number(even.cost.value)}", "hint"),
        path(_law(even, x, y), "curve faint", "gain = tokens per pass / cost of a pass"),
    ]
    parts += [_length(p, (x(p.length), y(p.gain))) for p in even.points]
    return figure("acceptance length against break-even", *parts)


def collapse(probes: Seq[ProbePoint], limit: float | None) -> Markup:
    """Slowdown by the share of guesses forced to be kept, with the control on and off."""
    forced = [p for p in probes if p.alpha is not None and p.slowdown is not None]
    y = upward([1.0, limit or 1.0, *_bounds(p.slowdown for p in forced)], log=True)
    x = Scale(low=-0.04, high=1.04, start=X0, end=X1)
    parts = [axes(x, y, "share of guesses forced to be kept", "times the baseline's time")]
    parts.append(line((X0, y(1)), (X1, y(1)), "even"))
    if limit is not None:
        parts.append(line((X0, y(limit)), (X1, y(limit)), "limit"))
        parts.append(text((X1, y(limit) - 4), f"allowed {limit:g}", "hint end"))
    for control, kind in ((False, "off"), (True, "cand")):
        mine = sorted((p for p in forced if p.control is control), key=lambda p: p.alpha or 0.0)
        known = [(p.alpha or 0.0, p.slowdown) for p in mine if p.slowdown is not None]
        parts.append(path([(x(a), y(s.value)) for a, s in known], f"curve {kind}"))
        for alpha, slowdown in known:
            words = f"{alpha:g} kept, control {'on' if control else 'off'}: {times(slowdown)}"
            shape = "dot" if control else "diamond"
            parts.append(_estimate(x(alpha), y, slowdown, kind, words, shape=shape))
    return figure("slowdown by forced acceptance, control on and off", *parts)


def _pair(p: PairPoint, at: Point) -> Markup:
    words = f"{p.item} ({p.category}), block {p.repeat + 1}: {ms(p.base_s)} → {ms(p.other_s)} ms"
    href = f"#r{p.lines[1]}"
    if p.other_s <= p.base_s:
        return dot(at, "mark cand soft", words, href=href, radius=2.6)
    return diamond(at, "mark off soft", words, href=href)


def _length(p: LengthPoint, at: Point) -> Markup:
    words = f"{p.item} ({p.category}): {number(p.length)} tokens a pass, {number(p.gain)} times"
    href = f"#r{p.lines[1]}"
    if p.gain >= 1:
        return dot(at, "mark cand soft", words, href=href)
    return diamond(at, "mark off soft", words, href=href)


def _law(even: BreakEven, x: Scale, y: Scale) -> list[Point]:
    ends = [x.low + (x.high - x.low) * i / 24 for i in range(25)]
    gains = [(v, v / even.cost.value) for v in ends if v > 0]
    return [(x(v), y(g)) for v, g in gains if y.low <= g <= y.high]


def _estimate(
    x: float, y: Scale, estimate: Estimate | None, kind: str, words: str, *, shape: str = "dot"
) -> Markup:
    if estimate is None:
        return Markup("")
    parts = []
    if estimate.low is not None and estimate.high is not None:
        parts.append(whisker(x, y(estimate.low), y(estimate.high), f"range {kind}"))
    mark = dot if shape == "dot" else diamond
    parts.append(mark((x, y(estimate.value)), f"mark {kind}", words, radius=3.6))
    return join(parts)


def _percent(value: float) -> str:
    return f"{100 * value:g} %"


def _bounds(estimates: Iterable[Estimate | None]) -> list[float]:
    known = [e for e in estimates if e is not None]
    return [v for e in known for v in (e.value, e.low, e.high) if v is not None]


def _thinned(values: Seq[float], most: int = 240) -> Seq[float]:
    """Quantiles of long lists: a figure shows no more than its pixels."""
    if len(values) <= most:
        return values
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]
