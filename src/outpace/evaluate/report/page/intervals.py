"""Intervals inside tables: a small drawing per row, on one scale for all rows of its kind."""

import math
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from markupsafe import Markup

from outpace.evaluate.report.shape import Judged, Limit
from outpace.stats import Estimate

WIDTH, HEIGHT, PAD = 190, 22, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruler:
    """The scale of a column. log: ratios."""

    low: float
    high: float
    log: bool

    def __call__(self, value: float) -> float:
        a, b, v = self.low, self.high, value
        if self.log:
            a, b, v = math.log(a), math.log(b), math.log(max(v, 1e-9))
        part = min(max((v - a) / (b - a), -0.02), 1.02)
        return PAD + part * (WIDTH - 2 * PAD)


def ruler(values: Iterable[float | None], *, log: bool = True, centre: float = 1.0) -> Ruler:
    """One that holds all values and the point of no difference; the far tails are cut."""
    known = [v for v in values if v is not None and math.isfinite(v) and (v > 0 or not log)]
    low, high = min([centre, *known]), max([centre, *known])
    if log:
        low, high = max(low, 0.2), min(high, 8.0)
        air = max((high / low) ** 0.08, 1.02)
        return Ruler(low=low / air, high=high * air, log=True)
    air = 0.08 * (high - low) or 0.01
    return Ruler(low=low - air, high=high + air, log=False)


def draw(
    on: Ruler, estimate: float | None, low: float | None, high: float | None, *,
    limit: Limit | None = None, kind: str = "", label: str = "",
) -> Markup:  # fmt: skip
    """Where the estimate lies; the shaded side of the limit is the one that was asked for."""
    centre = 1.0 if on.log else 0.0
    parts = [_rect(on, limit)] if limit is not None else []
    parts.append(_line("even", on(centre), 3, on(centre), HEIGHT - 3))
    if limit is not None:
        parts.append(_line("limit", on(limit.value), 2, on(limit.value), HEIGHT - 2))
    middle = HEIGHT / 2
    if low is not None and high is not None:
        parts.append(_line(f"range {kind}", on(low), middle, on(high), middle))
    if estimate is not None:
        parts.append(
            Markup('<circle class="mark {}" cx="{:.1f}" cy="{:.1f}" r="4"/>').format(
                kind, on(estimate), middle
            )
        )
    return Markup(
        '<svg class="interval" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(label, Markup("").join(parts), w=WIDTH, h=HEIGHT)


def of_estimate(on: Ruler, e: Estimate | None, *, limit: Limit | None = None, kind: str) -> Markup:
    """The same of an estimate; empty where there is none."""
    if e is None:
        return Markup("")
    return draw(on, e.value, e.low, e.high, limit=limit, kind=kind, label=f"{e.value:.3g}")


def bounds(estimates: Iterable[Estimate | None]) -> list[float]:
    """Everything a ruler has to hold of them."""
    known = [e for e in estimates if e is not None]
    return [v for e in known for v in (e.value, e.low, e.high) if v is not None]


def of_criteria(criteria: Seq[Judged]) -> dict[str, Markup]:
    """A drawing per criterion that has a limit; ratios share a scale, shares have one each."""
    ratios = ruler(
        v
        for c in criteria if c.limit is not None and c.limit.scale == "ratio"
        for v in (c.estimate, c.low, c.high, c.limit.value)
    )  # fmt: skip
    made = {}
    for c in criteria:
        if c.limit is None or c.estimate is None:
            continue
        on = ratios
        if c.limit.scale != "ratio":
            on = ruler((c.estimate, c.low, c.high, c.limit.value), log=False, centre=0.0)
        made[c.id] = draw(
            on, c.estimate, c.low, c.high, limit=c.limit, kind=c.status.lower(), label=c.found
        )
    return made


def _rect(on: Ruler, limit: Limit) -> Markup:
    at = on(limit.value)
    x, width = (at, WIDTH - PAD - at) if limit.wanted == "above" else (PAD, at - PAD)
    return Markup('<rect class="wanted" x="{:.1f}" y="3" width="{:.1f}" height="{}"/>').format(
        x, max(width, 0.0), HEIGHT - 6
    )


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(
        kind, x1, y1, x2, y2
    )
