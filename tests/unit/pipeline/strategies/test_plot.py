"""The picture of a comparison has both panels, also for one strategy that moves nothing."""

from __future__ import annotations

from pathlib import Path

from pipeline.strategies.job import Comparison, StrategyFigures
from pipeline.strategies.plot import plot_strategies


def test_a_picture_of_one_strategy_that_moves_nothing_can_be_drawn(tmp_path: Path) -> None:
    figures = StrategyFigures(
        strategy="AVG", moved_share=0.0, times_least=0.0, worst_times_least=0.5, spread=0, jain=1.0, elapsed_ms=1.0
    )
    path = tmp_path / "one.svg"
    plot_strategies([figures], {"AVG": [0.0, 0.5]}, Comparison(), path)
    text = path.read_text()
    assert text.startswith("<?xml")
    assert text.rstrip().endswith("</svg>")


def test_a_picture_of_more_members_than_queues_says_that_the_least_is_0(tmp_path: Path) -> None:
    figures = StrategyFigures(
        strategy="AVG", moved_share=0.2, times_least=None, worst_times_least=None, spread=1, jain=0.2, elapsed_ms=1.0
    )
    path = tmp_path / "none.svg"
    plot_strategies([figures], {"AVG": []}, Comparison(), path)
    assert "the minimum is 0" in path.read_text()
