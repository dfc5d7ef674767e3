"""Draws the lag of `contrast` over time as SVG, for the documentation.

python -m testbed.bench.throughput.contrast_chart > docs/pop-contrast.svg
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from testbed.bench.throughput.contrast import SAMPLE_S, SECONDS, WAYS, measure_contrast

WIDTH, HEIGHT = 760, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 16, 44
_COLOURS = ("#c2410c", "#15803d", "#1d4ed8")
_TICKS = 5


def chart(lines: Mapping[str, Sequence[int]], every_s: float, sent_s: float) -> str:
    """Draw the lag of several groups over time.

    `lines` has a figure every `every_s` seconds from second 0 on, by label; `sent_s`, when sending ends, is marked.
    """
    long_s = max(len(line) - 1 for line in lines.values()) * every_s
    high = _round_up(max(max(line) for line in lines.values()))

    def x(time_s: float) -> float:
        return _LEFT + time_s / long_s * (WIDTH - _LEFT - _RIGHT)

    def y(messages: float) -> float:
        return HEIGHT - _BOTTOM - messages / high * (HEIGHT - _TOP - _BOTTOM)

    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    for n in range(_TICKS + 1):
        value, time_s = high * n / _TICKS, _round_down(long_s / _TICKS) * n
        parts.append(f'<path d="M{_LEFT} {y(value):.1f}H{WIDTH - _RIGHT}" stroke="#e5e7eb"/>')
        parts.append(_text(_LEFT - 8, y(value) + 4, f"{value:,.0f}", "end"))
        parts.append(_text(x(time_s), HEIGHT - _BOTTOM + 18, f"{time_s:g} s", "middle"))
    parts.append(f'<path d="M{x(sent_s):.1f} {_TOP}V{HEIGHT - _BOTTOM}" stroke="#6b7280" stroke-dasharray="4 4"/>')
    parts.append(_text(x(sent_s) + 6, y(high / 2) + 4, "nothing is sent any more", "start"))
    parts.append(_text(WIDTH / 2, HEIGHT - 8, "backlog, messages, over time", "middle"))
    for row, ((label, line), colour) in enumerate(zip(lines.items(), _COLOURS, strict=True)):
        points = " ".join(f"{x(n * every_s):.1f},{y(messages):.1f}" for n, messages in enumerate(line))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(WIDTH - _RIGHT - 8, _TOP + 16 + 18 * row, label, "end", colour))
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
    return "\n".join([f'{start} font-size="12">', *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#374151") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def _round_up(messages: int) -> int:
    """The next number that `_TICKS` divides into round ones."""
    step = _TICKS
    while step * 10 < messages:
        step *= 10
    return -(-max(1, messages) // step) * step


def _round_down(seconds: float) -> float:
    """A readable time between two marks: rounded down to whole tens or whole seconds where possible."""
    for step in (10, 1):
        if seconds >= step:
            return seconds // step * step
    return seconds


def main() -> None:
    """Measure, and print the chart."""
    lines = {way.label: measure_contrast(way).backlog for way in WAYS}
    print(chart(lines, SAMPLE_S, SECONDS), end="")


if __name__ == "__main__":
    main()
