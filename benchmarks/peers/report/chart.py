"""The page's one picture: a bar per arm, its interval, nothing else. SVG, written by hand."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from html import escape

_WIDTH, _LEFT, _RIGHT, _ROW, _BAR = 720, 200, 70, 26, 16
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#555}"
    ".own{fill:#2563a8}.peer{fill:#9aa5b1}.fast{opacity:1}.plain{opacity:.6}"
    ".range{stroke:#c2410c;stroke-width:2}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One arm: own = outpace's, fast = speculative."""

    label: str
    value: float
    low: float
    high: float
    own: bool
    fast: bool


def draw(bars: Seq[Bar], title: str) -> str:
    """Bars in the order given, on a scale that starts at 0."""
    most = max(bar.high for bar in bars)
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    height = _ROW * (len(bars) + 1) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<text x="{_LEFT}" y="18">{escape(title)}</text>',
    ]
    for at, bar in enumerate(bars):
        top = _ROW * (at + 1) + 4
        middle = top + _BAR / 2
        low, high = _LEFT + bar.low * scale, _LEFT + bar.high * scale
        kind = f"{'own' if bar.own else 'peer'} {'fast' if bar.fast else 'plain'}"
        lines += [
            f'<text x="{_LEFT - 8}" y="{middle + 4:.0f}" text-anchor="end">'
            f"{escape(bar.label)}</text>",
            f'<rect class="{kind}" x="{_LEFT}" y="{top}" width="{bar.value * scale:.1f}" '
            f'height="{_BAR}"/>',
            f'<path class="range" d="M{low:.1f} {middle:.0f}H{high:.1f}"/>',
            f'<text x="{max(high, _LEFT + bar.value * scale) + 6:.0f}" y="{middle + 4:.0f}">'
            f"{bar.value:.0f}</text>",
        ]
    return "\n".join([*lines, "</svg>", ""])
