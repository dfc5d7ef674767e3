"""Charts of a report as SVG text: small, sharp at any size, with the exact figure in the tooltip of each mark.

Each chart is drawn twice, in a box of `WIDE` units and in one of `NARROW` units for narrow pages, so that its text
stays readable when the page scales it; the style sheet shows one of the two. Colours and fonts are classes of the
page's style sheet, so that a chart follows its light or dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

from pictures.svg import Box, Scale, dot, line, linear, logarithmic, path, rect, text, ticks, value_axis

WIDE, NARROW = 1000.0, 400.0
RIGHT, TOP, BOTTOM = 12.0, 8.0, 26.0


def both(draw: Callable[[float], str]) -> str:
    """Return a chart for wide pages and one for narrow pages."""
    return draw(WIDE) + draw(NARROW)


def chart(width: float, height: float, parts: Iterable[str], label: str) -> str:
    """Return an SVG element of this size in units; `label` describes it to screen readers."""
    style = "for-wide" if width == WIDE else "for-narrow"
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" class="{style}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def time_axis(x: Scale, span_ms: float, box: Box) -> list[str]:
    """Draw seconds, or minutes for long traces, with a thin vertical line at each."""
    unit, name = (1_000.0, "s") if span_ms < 600_000 else (60_000.0, "min")
    parts = []
    for value in ticks(span_ms / unit, round((box.right - box.left) / 65)):
        tick_x = x(value * unit)
        parts += [
            line(tick_x, box.top, tick_x, box.bottom, "grid"),
            text(tick_x, box.bottom + 16, f"{value:g} {name}", anchor="middle"),
        ]
    return parts


# --- whole charts ----------------------------------------------------------------------------------------------------


def strip(groups: Sequence[tuple[str, Sequence[float]]], label: str, width: float = WIDE) -> str:
    """Draw times in milliseconds of several kinds on one logarithmic axis: a dot each, and a bar at each median."""
    values = [value for _, times in groups for value in times if value > 0]
    if not values:
        return ""
    low, high = 10.0 ** math.floor(math.log10(max(min(values), 0.1))), 10.0 ** math.ceil(math.log10(max(values)) + 1e-9)
    is_wide = width == WIDE
    row = 34.0 if is_wide else 50.0  # names are beside the dots, or above them
    box = Box(270 if is_wide else 16, width - RIGHT - 20, TOP, TOP + row * len(groups))
    x = logarithmic(low, max(high, low * 10), box.left, box.right)
    parts = []
    for power in range(round(math.log10(low)), round(math.log10(max(high, low * 10))) + 1):
        tick_x = x(10.0**power)
        parts += [
            line(tick_x, box.top, tick_x, box.bottom, "grid"),
            text(tick_x, box.bottom + 16, milliseconds(10.0**power), anchor="middle"),
        ]
    for number, (name, times) in enumerate(groups):
        top = box.top + row * number
        middle = top + (17 if is_wide else 34)
        ordered = sorted(times)
        median = ordered[(len(ordered) - 1) // 2]
        title = f"{name} ({len(times):,})"
        parts.append(text(box.left - 12, middle + 4, title, anchor="end") if is_wide else text(0, top + 14, title))
        parts += [dot(x(value), middle, "point", f"{name}: {milliseconds(value)}") for value in ordered]
        parts.append(line(x(median), middle - 12, x(median), middle + 12, "median", f"median {milliseconds(median)}"))
    return chart(width, box.bottom + BOTTOM, parts, label)


def lines(
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    marks: Sequence[tuple[float, str]],
    span_ms: float,
    unit: str,
    width: float = WIDE,
    *,
    steps: bool = False,
) -> str:
    """Draw values over time, a line for each series, and thin vertical lines where rebalances began.

    A series is a style class and its points (milliseconds, value); with `steps`, a value holds until the next. `marks`
    are the time and tooltip of each rebalance.
    """
    high = max((value for _, points in series for _, value in points), default=0.0) or 1.0
    box = Box(90 if width == WIDE else 52, width - RIGHT, TOP + 16, 186.0)
    x, y = linear(0, span_ms, box.left, box.right), linear(0, high * 1.05, box.bottom, box.top)
    parts = [*time_axis(x, span_ms, box), text(0, TOP + 4, unit), *value_axis(y, high, box)]
    parts += [line(x(mark), box.top, x(mark), box.bottom, "mark", title) for mark, title in marks]
    for style, points in series:
        parts.append(path([(x(mark), y(value)) for mark, value in points], f"line {style}", steps=steps))
    return chart(width, box.bottom + BOTTOM, parts, f"{' and '.join(name for name, _ in series)} over time")


def bars(counted: Sequence[tuple[str, int]], label: str, width: float = WIDE) -> str:
    """Draw a bar for each class, with its name below and its count above."""
    max_count = max((n for _, n in counted), default=0) or 1
    box = Box(20, width - 20, 26, 150) if width == WIDE else Box(0, width, 26, 150)
    each = (box.right - box.left) / max(1, len(counted))
    y = linear(0, max_count, box.bottom, box.top)
    parts = [line(box.left, box.bottom, box.right, box.bottom, "axis")]
    for number, (name, n) in enumerate(counted):
        left = box.left + each * number
        middle = left + each / 2
        parts.append(rect(left + each * 0.12, y(n), each * 0.76, box.bottom - y(n), "bar", f"{name}: {n:,}"))
        if width == WIDE:
            parts.append(text(middle, box.bottom + 18, name, anchor="middle"))
        else:  # there is no space for the words side by side
            value, _, rest = name.rpartition(" ")
            parts += [
                text(middle, box.bottom + 16, value, anchor="middle", style="small"),
                text(middle, box.bottom + 28, rest, anchor="middle", style="small"),
            ]
        if n:
            parts.append(text(middle, y(n) - 5, f"{n:,}", anchor="middle"))
    return chart(width, box.bottom + BOTTOM + (0 if width == WIDE else 8), parts, label)


# --- numbers ---------------------------------------------------------------------------------------------------------


def milliseconds(value: float) -> str:
    """Format a duration for people: at most three digits, and a suitable unit."""
    if value < 10:
        return f"{value:.1f} ms" if value % 1 else f"{value:.0f} ms"
    if value < 1_000:
        return f"{value:.0f} ms"
    if value < 120_000:
        return f"{value / 1_000:.3g} s"
    return f"{value / 60_000:,.1f} min"


def seconds(value: float) -> str:
    """Format a time of the trace, in seconds since its beginning."""
    return f"{value / 1_000:,.3f} s"
