"""Drawing: scales, axes and marks as SVG that takes its colours from the page's style.

All figures share one size, so that type is as large in each; they scale with their column. Marks
carry a title (shown on hover, read aloud) and, where they stand for records, a link to them.
"""

import math
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, HEIGHT = 340, 244
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 26, 40
X0, X1, Y0, Y1 = LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM, TOP
Point = tuple[float, float]
_FRAME = Markup('<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
_DIAMOND = Markup('<path class="{}" d="M{:.1f} {:.1f}l{r} {r}l-{r} {r}l-{r} -{r}z">{}</path>')


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """From data to pixels; logarithmic if `log`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        a, b, v = (
            (math.log(self.low), math.log(self.high), math.log(max(value, 1e-300)))
            if self.log else (self.low, self.high, value)
        )  # fmt: skip
        part = (v - a) / (b - a)
        return self.start + min(max(part, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers within the scale."""
        return _log_ticks(self.low, self.high, most) if self.log else _ticks(self, most)


def across(values: Iterable[float], *, log: bool = False, zero: bool = False) -> Scale:
    """A horizontal scale that holds all values, with a little air."""
    return _spread(values, X0, X1, log=log, zero=zero)


def upward(values: Iterable[float], *, log: bool = False, zero: bool = False) -> Scale:
    """A vertical one."""
    return _spread(values, Y0, Y1, log=log, zero=zero)


def figure(label: str, *parts: Markup, height: int = HEIGHT) -> Markup:
    """The drawing. label: what it shows, for those who do not see it."""
    return _FRAME.format(WIDTH, height, label, join(parts))


def join(parts: Iterable[Markup]) -> Markup:
    """One after the other."""
    return Markup("").join(parts)


def axes(
    x: Scale | None, y: Scale, x_label: str, y_label: str, *,
    x_words: Callable[[float], str] | None = None, y_words: Callable[[float], str] | None = None,
) -> Markup:  # fmt: skip
    """Ticks, their lines and labels, and what the axes are. x None: it has names, not numbers."""
    made = []
    for value in y.ticks():
        at = y(value)
        made.append(line((X0, at), (X1, at), "grid"))
        made.append(text((X0 - 6, at + 3.5), (y_words or _spelled)(value), "tick end"))
    for value in x.ticks() if x is not None else ():
        at = x(value) if x is not None else 0.0
        made.append(line((at, Y0), (at, Y0 + 4), "axis"))
        made.append(text((at, Y0 + 16), (x_words or _spelled)(value), "tick mid"))
    made.append(line((X0, Y0), (X1, Y0), "axis"))
    made.append(text(((X0 + X1) / 2, HEIGHT - 6), x_label, "name mid"))
    made.append(text((0, 11), y_label, "name"))
    return join(made)


def line(a: Point, b: Point, kind: str) -> Markup:
    """A straight line."""
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(
        kind, *a, *b
    )


def path(points: Seq[Point], kind: str, title: str = "") -> Markup:
    """A line through points."""
    steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return Markup('<polyline class="{}" points="{}">{}</polyline>').format(
        kind, steps, _title(title)
    )


def steps(values: Seq[float], x: Scale, y: Scale, kind: str, title: str = "") -> Markup:
    """The share of values up to each: an empirical distribution."""
    points: list[Point] = [(x.start, y(0.0))]
    for i, value in enumerate(values):
        at = x(value)
        points += [(at, y(i / len(values))), (at, y((i + 1) / len(values)))]
    points.append((x.end, y(1.0)))
    return path(points, kind, title)


def dot(at: Point, kind: str, title: str, *, href: str = "", radius: float = 3.0) -> Markup:
    """A round mark."""
    mark = Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}">{}</circle>').format(
        kind, *at, radius, _title(title)
    )
    return _linked(mark, href)


def diamond(at: Point, kind: str, title: str, *, href: str = "", radius: float = 3.8) -> Markup:
    """A mark whose shape tells it from a dot, for those who see no colours."""
    x, y, r = at[0], at[1], radius
    mark = _DIAMOND.format(kind, x, y - r, _title(title), r=r)
    return _linked(mark, href)


def whisker(x: float, low: float, high: float, kind: str) -> Markup:
    """An upright interval."""
    return line((x, low), (x, high), kind)


def text(at: Point, words: str, kind: str) -> Markup:
    """Words at a point."""
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, *at, words)


def _linked(mark: Markup, href: str) -> Markup:
    return Markup('<a href="{}">{}</a>').format(href, mark) if href else mark


def _title(words: str) -> Markup:
    return Markup("<title>{}</title>").format(words) if words else Markup("")


def _spelled(value: float) -> str:
    return str(escape(f"{value:g}"))


def _spread(
    values: Iterable[float], start: float, end: float, *, log: bool, zero: bool
) -> Scale:  # fmt: skip
    known = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
    low, high = min(known), max(known)
    if log:
        air = max((high / low) ** 0.06, 1.04)
        return Scale(low=low / air, high=high * air, start=start, end=end, log=True)
    if zero:
        low = min(low, 0.0)
    air = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return Scale(low=low if zero and low == 0 else low - air, high=high + air, start=start, end=end)


def _ticks(scale: Scale, most: int) -> list[float]:
    rough = (scale.high - scale.low) / most
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * k for k in (1, 2, 2.5, 5, 10) if size * k >= rough)
    first = math.ceil(scale.low / step - 1e-9)
    made: list[float] = []
    while first * step <= scale.high * (1 + 1e-9) and len(made) < 20:
        made.append(round(first * step, 12))
        first += 1
    return made


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """1, 2, 5 of each decade; finer where the scale spans little."""
    for parts in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), None):
        if parts is None:
            break
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [p * 10.0**d for d in decades for p in parts if low <= p * 10.0**d <= high]
        if len(found) >= 3:
            return [float(f"{v:.3g}") for v in found][: most + 3]
    return _ticks(Scale(low=low, high=high, start=0, end=1), most)
