"""The comparison as SVG: a panel for each measurement, a bar for each system. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from testbed.bench.peers.systems.protocol import OURS
from testbed.bench.peers.table import PeerComparison, figure

_WIDTH, _PANEL, _BAR, _COLUMNS = 400, 34, 18, 2
_LABEL, _VALUE = 110, 70
_COLOURS = {OURS: "#0f766e", "echo": "#9ca3af"}
_OTHER = "#94a3b8"


def draw(comparisons: Sequence[PeerComparison]) -> str:
    """Draw all measurements; bars of one panel share a scale, and one that is infinite fills its panel."""
    heights = [_PANEL + _BAR * len(each.medians) for each in comparisons]
    rows = [max(heights[begin : begin + _COLUMNS]) for begin in range(0, len(heights), _COLUMNS)]
    parts: list[str] = []
    y = 0.0
    for row, height in enumerate(rows):
        for column, comparison in enumerate(comparisons[row * _COLUMNS : (row + 1) * _COLUMNS]):
            parts += _panel(comparison, column * _WIDTH, y)
        y += height
    width = _WIDTH * _COLUMNS
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y + 12:g}" font-family="sans-serif"'
    background = f'<rect width="{width}" height="{y + 12:g}" fill="#ffffff"/>'
    return "\n".join([f'{start} font-size="12">', background, *parts, "</svg>"]) + "\n"


def _panel(comparison: PeerComparison, left: float, top: float) -> list[str]:
    better = "more is better" if comparison.more_is_better else "less is better"
    title = f"{comparison.name}, {comparison.unit} ({better})"
    parts = [_text(left + 8, top + 22, title, "start", weight="bold")]
    longest = max((value for value in comparison.medians.values() if math.isfinite(value)), default=1.0) or 1.0
    room = _WIDTH - _LABEL - _VALUE - 8
    for number, (system, value) in enumerate(comparison.medians.items()):
        y = top + _PANEL + _BAR * number
        length = room * min(1.0, value / longest)
        colour = _COLOURS.get(system, _OTHER)
        parts.append(_text(left + _LABEL - 6, y + 10, system, "end"))
        place = f'x="{left + _LABEL:.1f}" y="{y:.1f}" width="{max(1.0, length):.1f}" height="{_BAR - 5}"'
        parts.append(f'<rect {place} fill="{colour}"/>')
        parts.append(_text(left + _LABEL + length + 6, y + 10, figure(value) or "", "start"))
    return parts


def _text(x: float, y: float, text: str, anchor: str, weight: str = "normal") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text {place} fill="#374151">{escape(text)}</text>'
