"""Draws a what-if: each configuration as a point, which is large on the Pareto front."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pipeline.replay.advice import counts
from pipeline.replay.job import TriedRules
from pipeline.replay.rules import Handover

_COLORS = ("#4477aa", "#cc6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
WIDE = 30
"""An axis is logarithmic if the largest value is this many times the smallest, else points crowd at one end."""
_MARKERS = {Handover.DRAIN: "o", Handover.CUT: "s", Handover.OVERLAP: "^"}


def plot_whatif(tried: Sequence[TriedRules], front: Sequence[bool], recorded: TriedRules, path: Path) -> None:
    """Draw two panels: moves against time without an owner, duplicates against lag; `path` is a `.png` or `.svg`.

    Configurations with equal costs are one point, with their number beside it. `front` has for each configuration
    whether it is on the Pareto front; the configuration of the trace is drawn as a star.
    """
    import matplotlib  # noqa: PLC0415 - slow to import, and only needed for a picture

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415
    from matplotlib.lines import Line2D  # noqa: PLC0415

    strategies = sorted({each.rules.strategy for each in (*tried, recorded)})
    color_of = dict(zip(strategies, _COLORS, strict=False))
    figure, panels = pyplot.subplots(1, 2, figsize=(12, 5.4), layout="constrained")
    axes_of = (
        (panels[0], "moves", "orphan_s", "moves of queues", "time without an owner, queue seconds"),
        (panels[1], "duplicates", "lag_p99", "messages delivered twice (estimate)", "lag, 99th percentile (estimate)"),
    )
    for axes, x, y, x_label, y_label in axes_of:
        _draw_points(axes, tried, front, (x, y), color_of)
        axes.plot(getattr(recorded.costs, x), getattr(recorded.costs, y), "*", color="#000000", markersize=16)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        scale, *bounds = choose_axis(getattr(each.costs, x) for each in (*tried, recorded))
        axes.set_xscale(scale)
        axes.set_xlim(*bounds)
        scale, *bounds = choose_axis(getattr(each.costs, y) for each in (*tried, recorded))
        axes.set_yscale(scale)
        axes.set_ylim(*bounds)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    keys = [Line2D([], [], marker="o", linestyle="", color=color, label=name) for name, color in color_of.items()]
    used = {each.rules.handover for each in tried}
    keys += [
        Line2D([], [], marker=marker, linestyle="", color="#777777", label=handover.value)
        for handover, marker in _MARKERS.items()
        if handover in used
    ]
    keys.append(
        Line2D([], [], marker="o", linestyle="", color="#777777", markerfacecolor="white", label="not notified")
    )
    keys.append(Line2D([], [], marker="*", linestyle="", color="#000000", markersize=12, label="as recorded"))
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), fontsize=8, frameon=False)
    figure.suptitle(f"{counts(tried, front)}, drawn large", fontsize=11)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _draw_points(
    axes: Any, tried: Sequence[TriedRules], front: Sequence[bool], costs: tuple[str, str], color_of: dict[str, str]
) -> None:
    points = Counter(
        (
            tuple(getattr(each.costs, cost) for cost in costs),
            (color_of.get(each.rules.strategy, "#777777"), _MARKERS[each.rules.handover], each.rules.notify),
            is_on_front,
        )
        for each, is_on_front in zip(tried, front, strict=True)
    )
    for (point, (color, marker, notify), is_on_front), count in points.items():
        axes.plot(
            *point,
            marker,
            markersize=8 if is_on_front else 5,
            markerfacecolor=color if notify else "white",
            markeredgecolor="#222222" if is_on_front and notify else color,
            alpha=0.9 if is_on_front else 0.35,
        )
        if count > 1:
            axes.annotate(f"{count}", point, xytext=(5, 4), textcoords="offset points", fontsize=7, color="#555555")


def choose_axis(values: Iterable[float]) -> tuple[str, float, float]:
    """Return the scale and the bounds of an axis on which these values fill the picture.

    A logarithmic axis begins at the smallest value above 0, or below it if there are zeros, to leave space for them.
    """
    distinct = sorted(set(values))
    low, high = distinct[0], distinct[-1]
    if low == high:
        return "linear", low - 1.0, high + 1.0
    positive = [value for value in distinct if value > 0]
    if low < 0 or high / positive[0] < WIDE:
        margin = (high - low) * 0.07
        return "linear", low - margin, high + margin
    below = 0.0 if low == 0 else positive[0] / 10 ** (0.07 * math.log10(high / positive[0]))
    return "symlog" if low == 0 else "log", below, high * 10 ** (0.07 * math.log10(high / positive[0]))
