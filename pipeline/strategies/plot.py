"""Draws a comparison of strategies: moves against evenness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.strategies.job import Comparison, StrategyFigures

_LEFT = 0.4
"""Beginning of the axis of moves, which is logarithmic and has no 0."""


def plot_strategies(
    figures: Sequence[StrategyFigures],
    histories: Mapping[str, Sequence[float]],
    comparison: Comparison,
    path: Path,
) -> None:
    """Draw two panels to a `.png` or `.svg`: moves as a multiple of the fewest, and the largest difference of loads.

    `histories` has this multiple by strategy, for each history that has one; panels have the order of `figures`.
    """
    import matplotlib  # noqa: PLC0415 - slow to import, and only needed for a picture

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    names = [each.strategy for each in figures]
    places = range(len(names))
    figure, (moves, spread) = pyplot.subplots(1, 2, figsize=(11, 1.6 + 0.6 * len(names)), layout="constrained")
    figure.suptitle(
        f"{comparison.queues:,} queues, {comparison.consumers:,} consumers, {comparison.scenarios:,} histories of "
        f"{comparison.events:,} joins and leaves",
        fontsize=11,
    )
    moves.barh(places, [each.times_least or _LEFT for each in figures], color="#4477aa", height=0.55)
    for y, name in enumerate(names):
        moves.plot(histories[name], [y] * len(histories[name]), "|", color="#222222", markersize=9, alpha=0.6)
    for y, each in enumerate(figures):
        times = "the minimum is 0" if each.times_least is None else f"{each.times_least:,.1f} ×"
        moves.annotate(
            f" {times}  ({each.moved_share:.2%} of the queues)",
            (max([each.times_least or _LEFT, *histories[each.strategy]]), y),
            va="center",
            fontsize=9,
        )
    moves.set_xscale("log")
    moves.set_xlim(_LEFT, 40 * max([1.0, *(each.worst_times_least or 0.0 for each in figures)]))
    moves.set_xlabel("queues moved / fewest necessary moves")
    spread.barh(places, [each.spread for each in figures], color="#cc6677", height=0.55)
    for y, each in enumerate(figures):
        spread.annotate(f" {each.spread:,}  (Jain {each.jain:.3f})", (each.spread, y), va="center", fontsize=9)
    spread.set_xlim(0, 1.45 * max(1, *(each.spread for each in figures)))
    spread.set_xlabel("largest difference of two loads, in queues")
    for axes in (moves, spread):
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
    spread.set_yticks(places, [""] * len(names))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
