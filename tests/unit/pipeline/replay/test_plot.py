"""The picture of a what-if is drawn, whatever is in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.replay.advice import counts
from pipeline.replay.costs import Costs
from pipeline.replay.job import TriedRules
from pipeline.replay.plot import choose_axis, plot_whatif
from pipeline.replay.rules import Handover
from tests.unit.pipeline.replay.test_replay import rules


def test_every_configuration_is_a_point(tmp_path: Path) -> None:
    recorded = TriedRules(rules(), Costs(10, 2.5, 0.0, 0.0, 4.0, 0.5), 9)
    tried = [
        recorded,
        TriedRules(
            replace(rules(), strategy="BALANCED_STICKY", handover=Handover.CUT), Costs(2, 1.0, 0.0, 7.0, 4.0, 0.5), 9
        ),
        TriedRules(replace(rules(), notify=False, handover=Handover.OVERLAP), Costs(0, 0.0, 0.0, 0.0, 0.0, 0.0), 1),
    ]
    plot_whatif(tried, [False, True, True], recorded, tmp_path / "whatif.png")
    assert (tmp_path / "whatif.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_has_the_counts_of_the_page(tmp_path: Path) -> None:
    one = TriedRules(rules(), Costs(10, 2.5, 0.0, 0.0, 4.0, 0.5), 9)
    tried, front = [one, one._replace(passes=8), one._replace(passes=7)], [True, True, False]
    plot_whatif(tried, front, one, tmp_path / "whatif.svg")
    # Matplotlib draws letters as paths, and writes each text as a comment beside them.
    assert f"<!-- {counts(tried, front)}, drawn large -->" in (tmp_path / "whatif.svg").read_text(encoding="utf-8")


def test_the_points_of_a_picture_fill_it_whatever_their_values_are() -> None:
    assert choose_axis([100, 101, 104]) == ("linear", 100 - 0.28, 104 + 0.28), "and do not crowd far from a zero"
    scale, low, high = choose_axis([2, 50, 4_000])
    assert (scale, low < 2, high > 4_000) == ("log", True, True)
    assert choose_axis([0, 3, 900])[:2] == ("symlog", 0)
    assert choose_axis([7, 7]) == ("linear", 6, 8)
