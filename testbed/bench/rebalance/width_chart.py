"""Draws what each change of a group costs a member, by the size of the group, as SVG, for the documentation.

python -m testbed.bench.rebalance.width_chart > docs/width.svg
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from testbed.bench.kit.rounds import Sizes
from testbed.bench.rebalance.width import ChangeCost, measure_group

WIDTH, HEIGHT = 760, 320
_LEFT, _RIGHT, _TOP, _BOTTOM, _GAP = 64, 16, 40, 44, 72
_COLOURS = {"cold": "#1d4ed8", "join": "#c2410c", "leave": "#15803d", "crash": "#7e22ce"}
_LABELS = {"cold": "cold start", "join": "join", "leave": "leave", "crash": "crash"}
_TICKS = 4


class Panel(NamedTuple):
    """One of the two drawings."""

    title: str
    value: Callable[[ChangeCost], float]  # of one member


PANELS = (
    Panel("bytes a member", lambda cost: cost.bytes_sent / cost.members),
    Panel("CPU ms a member", lambda cost: 1000 * cost.cpu_s / cost.members),
)


def chart(costs: Sequence[ChangeCost]) -> str:
    """Draw costs by the number of members, which goes to the right in powers of ten: a flat line is a fair price."""
    each = (WIDTH - _LEFT - _RIGHT - _GAP) / len(PANELS)
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    for number, panel in enumerate(PANELS):
        parts += _panel(panel, costs, _LEFT + number * (each + _GAP), each)
    for row, (change, colour) in enumerate(_COLOURS.items()):
        parts.append(_text(_LEFT + 100 * row, 16, _LABELS[change], "start", colour))
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
    return "\n".join([f'{start} font-size="12">', *parts, "</svg>"]) + "\n"


def _panel(panel: Panel, costs: Sequence[ChangeCost], left: float, width: float) -> list[str]:
    sizes = sorted({cost.members for cost in costs})
    low, high = math.log10(sizes[0]), math.log10(sizes[-1])
    most = _round_up(max(map(panel.value, costs)))

    def x(members: int) -> float:
        return left + (math.log10(members) - low) / (high - low or 1) * width

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - value / most * (HEIGHT - _TOP - _BOTTOM)

    parts = []
    for n in range(_TICKS + 1):
        value = most * n / _TICKS
        parts.append(f'<path d="M{left:.1f} {y(value):.1f}h{width:.1f}" stroke="#e5e7eb"/>')
        parts.append(_text(left - 8, y(value) + 4, f"{value:,g}", "end"))
    parts += [_text(x(members), HEIGHT - _BOTTOM + 18, f"{members:,}", "middle") for members in sizes]
    parts.append(_text(left + width / 2, HEIGHT - 8, f"{panel.title}, by members of the group", "middle"))
    for change, colour in _COLOURS.items():
        line = sorted((cost for cost in costs if cost.change == change), key=lambda cost: cost.members)
        points = " ".join(f"{x(cost.members):.1f},{y(panel.value(cost)):.1f}" for cost in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return parts


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#374151") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def _round_up(value: float) -> float:
    """The next of 1, 2, 4 and 8 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 8, 10) if step * power >= value)


def main() -> None:
    """Measure, and print the chart."""
    print(chart([cost for members in Sizes().widths for cost in measure_group(members)]), end="")


if __name__ == "__main__":
    main()
