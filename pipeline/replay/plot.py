"""Draws a what-if: each configuration as a point, those on the Pareto front large."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.replay.job import Tried
from pipeline.replay.rules import Handover

_COLORS = ("#4477aa", "#cc6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
_MARKERS = {Handover.DRAIN: "o", Handover.CUT: "s", Handover.OVERLAP: "^"}


def plot_whatif(tried: Sequence[Tried], front: Sequence[bool], recorded: Tried, path: Path) -> None:
    """Draw two panels: moves against time without an owner, duplicates against lag; `path` is a `.png` or `.svg`.

    `front` says of each configuration whether it is on the Pareto front; that of the trace is drawn as a star.
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
        for each, is_on_front in zip(tried, front, strict=True):
            color = color_of.get(each.rules.strategy, "#777777")
            axes.plot(
                getattr(each.costs, x),
                getattr(each.costs, y),
                _MARKERS[each.rules.handover],
                markersize=8 if is_on_front else 5,
                markerfacecolor=color if each.rules.notify else "white",
                markeredgecolor="#222222" if is_on_front else color,
                alpha=0.9 if is_on_front else 0.35,
            )
        axes.plot(getattr(recorded.costs, x), getattr(recorded.costs, y), "*", color="#000000", markersize=16)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.set_xscale("symlog")
        axes.set_yscale("symlog")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
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
    figure.suptitle(f"{len(tried)} configurations; {sum(front)} that no other one beats are drawn large", fontsize=11)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
