"""Draws the lag of `contrast` over time as SVG, for the documentation.

python -m testbed.bench.throughput.contrast_chart > docs/pop-contrast.svg
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pictures.svg import Box, axis_end, line, linear, path, picture, text, ticks, value_axis
from testbed.bench.throughput.contrast import SAMPLE_S, SECONDS, WAYS, measure_contrast

WIDTH, HEIGHT = 760, 320
_BOX = Box(64, WIDTH - 16, 16, HEIGHT - 44)
_COLOURS = ("orange", "green", "blue")
_TICKS = 5


def chart(lines: Mapping[str, Sequence[int]], every_s: float, sent_s: float) -> str:
    """Draw the lag of several groups over time.

    `lines` has a figure every `every_s` seconds from second 0 on, by label; `sent_s`, when sending ends, is marked.
    """
    long_s = max(len(counts) - 1 for counts in lines.values()) * every_s
    high = axis_end(max(max(counts) for counts in lines.values()), _TICKS)
    x, y = linear(0, long_s, _BOX.left, _BOX.right), linear(0, high, _BOX.bottom, _BOX.top)
    parts = value_axis(y, high, _BOX, _TICKS)
    parts += [text(x(tick_s), _BOX.bottom + 18, f"{tick_s:g} s", anchor="middle") for tick_s in ticks(long_s, _TICKS)]
    parts.append(line(x(sent_s), _BOX.top, x(sent_s), _BOX.bottom, "mark"))
    parts.append(text(x(sent_s) + 6, y(high / 2) + 4, "the producer stops"))
    parts.append(text(WIDTH / 2, HEIGHT - 8, "backlog, messages, over time", anchor="middle"))
    for row, ((label, counts), colour) in enumerate(zip(lines.items(), _COLOURS, strict=True)):
        parts.append(path([(x(n * every_s), y(messages)) for n, messages in enumerate(counts)], f"line {colour}"))
        parts.append(text(_BOX.right - 8, _BOX.top + 16 + 18 * row, label, style=colour, anchor="end"))
    return picture(WIDTH, HEIGHT, parts)


def main() -> None:
    """Measure, and print the chart."""
    print(chart({way.label: measure_contrast(way).backlog for way in WAYS}, SAMPLE_S, SECONDS), end="")


if __name__ == "__main__":
    main()
