"""Draws the cost of each change of a group for a member, by the size of the group, as SVG, for the documentation.

python -m testbed.bench.rebalance.width_chart > docs/width.svg
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pictures.svg import Box, axis_end, linear, logarithmic, path, picture, text, value_axis
from testbed.bench.kit.rounds import Sizes
from testbed.bench.rebalance.width import ChangeCost, measure_group

WIDTH, HEIGHT = 760, 320
_LEFT, _TOP, _EACH, _BELOW = 64, 40, 304, 44
_GAP = 72
_COLOURS = {"cold": "blue", "join": "orange", "leave": "green", "crash": "purple"}
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
    """Draw costs by the number of members, on a logarithmic axis. A flat line: the cost of a member does not grow."""
    parts: list[str] = []
    for number, panel in enumerate(PANELS):
        left = _LEFT + number * (_EACH + _GAP)
        parts += _panel(panel, costs, Box(left, left + _EACH, _TOP, HEIGHT - _BELOW))
    parts += [text(_LEFT + 100 * row, 16, _LABELS[each], style=_COLOURS[each]) for row, each in enumerate(_COLOURS)]
    return picture(WIDTH, HEIGHT, parts)


def _panel(panel: Panel, costs: Sequence[ChangeCost], box: Box) -> list[str]:
    sizes = sorted({cost.members for cost in costs})
    y_max = axis_end(max(map(panel.value, costs)), _TICKS)
    x = logarithmic(sizes[0], sizes[-1], box.left, box.right)
    y = linear(0, y_max, box.bottom, box.top)
    parts = value_axis(y, y_max, box, _TICKS)
    parts += [text(x(members), box.bottom + 18, f"{members:,}", anchor="middle") for members in sizes]
    below = f"{panel.title}, by members of the group"
    parts.append(text((box.left + box.right) / 2, HEIGHT - 8, below, anchor="middle"))
    for change, colour in _COLOURS.items():
        line = sorted((cost for cost in costs if cost.change == change), key=lambda cost: cost.members)
        parts.append(path([(x(cost.members), y(panel.value(cost))) for cost in line], f"line {colour}"))
    return parts


def main() -> None:
    """Measure, and print the chart."""
    print(chart([cost for members in Sizes().widths for cost in measure_group(members)]), end="")


if __name__ == "__main__":
    main()
