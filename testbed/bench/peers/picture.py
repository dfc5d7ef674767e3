"""The comparison as SVG: a panel for each measurement, a bar for each system. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pictures.svg import picture, rect, text
from testbed.bench.peers.systems.protocol import OURS
from testbed.bench.peers.table import PeerComparison, figure

_WIDTH, _PANEL, _BAR, _COLUMNS = 400, 34, 18, 2
_LABEL, _VALUE = 110, 70
_STYLES = {OURS: "ours", "echo": "echo"}


def draw(comparisons: Sequence[PeerComparison]) -> str:
    """Draw all measurements; bars of one panel share a scale, and one that is infinite fills its panel."""
    parts: list[str] = []
    y = 0.0
    for begin in range(0, len(comparisons), _COLUMNS):
        row = comparisons[begin : begin + _COLUMNS]
        for column, comparison in enumerate(row):
            parts += _panel(comparison, column * _WIDTH, y)
        y += _PANEL + _BAR * max(len(each.medians) for each in row)
    return picture(_WIDTH * _COLUMNS, y + 12, parts)


def _panel(comparison: PeerComparison, left: float, top: float) -> list[str]:
    better = "more is better" if comparison.more_is_better else "less is better"
    parts = [text(left + 8, top + 22, f"{comparison.name}, {comparison.unit} ({better})", style="bold")]
    longest = max((value for value in comparison.medians.values() if math.isfinite(value)), default=1.0) or 1.0
    room = _WIDTH - _LABEL - _VALUE - 8
    for number, (system, value) in enumerate(comparison.medians.items()):
        y = top + _PANEL + _BAR * number
        length = max(1.0, room * min(1.0, value / longest))
        parts.append(text(left + _LABEL - 6, y + 10, system, anchor="end"))
        parts.append(rect(left + _LABEL, y, length, _BAR - 5, _STYLES.get(system, "other")))
        parts.append(text(left + _LABEL + length + 6, y + 10, figure(value) or ""))
    return parts
