"""Marks of SVG pictures: scales, text, lines, and a file that holds a picture. Pure.

A mark has a style class. A page defines the colours of the classes, so that a chart follows its light or dark mode; a
picture in a separate file contains the style sheet `_STYLE`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

_LINES = {"orange": "#c2410c", "green": "#15803d", "blue": "#1d4ed8", "purple": "#7e22ce"}
_STYLE = (
    ".back{fill:#fff}text{fill:#374151}.bold{font-weight:bold}.line{fill:none;stroke-width:2}.grid{stroke:#e5e7eb}"
    ".mark{stroke:#6b7280;stroke-dasharray:4 4}.ours{fill:#0f766e}.echo{fill:#9ca3af}.other{fill:#94a3b8}"
    + "".join(f"path.{name}{{stroke:{colour}}}text.{name}{{fill:{colour}}}" for name, colour in _LINES.items())
)
"""Colours of the classes; the classes of lines and of their names are the keys of `_LINES`."""

Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Box:
    """The inside of a chart, in its units."""

    left: float
    right: float
    top: float
    bottom: float


def picture(width: float, height: float, parts: Iterable[str]) -> str:
    """Return the text of a file with one picture; a unit is a pixel unless the picture is scaled."""
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif"'
    back = f'<rect width="{width:g}" height="{height:g}" class="back"/>'
    return "\n".join([f'{start} font-size="12">', f"<style>{_STYLE}</style>", back, *parts, "</svg>"]) + "\n"


def linear(low: float, high: float, start: float, end: float) -> Scale:
    """Return a scale from values to units."""
    span = (high - low) or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def logarithmic(low: float, high: float, start: float, end: float) -> Scale:
    """Return a scale from positive values to units; values below `low` are drawn at `low`."""
    inner = linear(math.log10(low), math.log10(high), start, end)
    return lambda value: inner(math.log10(max(value, low)))


def ticks(high: float, n_ticks: int) -> list[float]:
    """Return round values from 0 up to `high`."""
    step = nice_step(high / max(1, n_ticks))
    return [n * step for n in range(int(high / step + 1e-9) + 1)]


def axis_end(high: float, n_ticks: int) -> float:
    """Return the end of an axis that `n_ticks` round steps divide, at `high` or beyond."""
    return n_ticks * nice_step(high / n_ticks)


def nice_step(rough: float) -> float:
    """Return the next round number: 1, 2 or 5 with zeros."""
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(n * power for n in (1, 2, 5, 10) if n * power >= rough * (1 - 1e-9))


def text(x: float, y: float, content: str, *, style: str = "", anchor: str = "start") -> str:
    """Draw a text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{style}">{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, style: str, title: str = "") -> str:
    """Draw a straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}">{_title(title)}</line>'


def rect(x: float, y: float, width: float, height: float, style: str, title: str = "") -> str:
    """Draw a rectangle."""
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.4):.2f}" height="{height:.2f}" class="{style}">'
        f"{_title(title)}</rect>"
    )


def dot(x: float, y: float, style: str, title: str = "") -> str:
    """Draw a small disc."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{style}">{_title(title)}</circle>'


def path(points: Sequence[tuple[float, float]], style: str, *, steps: bool = False) -> str:
    """Draw a line through points; with `steps` each value holds until the next."""
    if not points:
        return ""
    drawn = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    drawn += [f"H{x:.1f}V{y:.1f}" if steps else f"L{x:.1f} {y:.1f}" for x, y in points[1:]]
    return f'<path d="{"".join(drawn)}" class="{style}"/>'


def value_axis(y: Scale, high: float, box: Box, n_ticks: int = 4) -> list[str]:
    """Draw round values from 0 to `high` with thin lines."""
    parts = []
    for value in ticks(high, n_ticks):
        parts += [
            line(box.left, y(value), box.right, y(value), "grid"),
            text(box.left - 8, y(value) + 4, f"{value:,g}", anchor="end"),
        ]
    return parts


def _title(content: str) -> str:
    return f"<title>{escape(content)}</title>" if content else ""
