from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.report.compare import compare_runs, format_change
from pipeline.report.data import read_report
from tests.unit.pipeline.report.report_tables import write


@pytest.mark.parametrize(
    ("before", "now", "reported"),
    [
        (10, 15, "+50%"),
        (10, 5, "-50%"),
        (0, 3, "new"),
        (4, 4, "the same"),
        (0, 0, "the same"),
        (None, 3, ""),
        (3, None, ""),
    ],
)
def test_a_change_is_reported_in_per_cent_of_the_other_run(
    before: float | None, now: float | None, reported: str
) -> None:
    assert format_change(before, now) == reported


def test_groups_of_both_runs_are_compared_and_others_named(tmp_path: Path) -> None:
    report = read_report(write(tmp_path / "now"))
    [group] = report.groups
    slower = replace(group, totals=replace(group.totals, pause_max_ms=600.0))
    other = read_report(write(tmp_path / "other", group="h<i>")).groups[0]

    text = compare_runs(report, replace(report, groups=[slower, other]))

    assert "<td>longest pause</td>" in text
    assert ">600 ms<" in text
    assert ">-50%<" in text
    assert "Only in the other run: h&lt;i&gt;." in text
    assert "No group is in both runs" in compare_runs(report, replace(report, groups=[other]))
