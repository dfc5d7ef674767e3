from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.runs.figures import OTHER, ReportedRun, tables_of
from pipeline.runs.page import MOST_GROUPS, page
from tests.unit.pipeline.runs.runs import made_runs


def renamed(run: ReportedRun, name: str) -> ReportedRun:
    [group] = run.report.groups
    return replace(run, report=replace(run.report, groups=[replace(group, totals=replace(group.totals, group=name))]))


def test_a_page_has_the_figures_the_course_and_a_link_to_each_run(tmp_path: Path) -> None:
    runs = made_runs(tmp_path, [{"moves": 4}, {"moves": 6}])
    runs[1] = replace(runs[1], name="b & c")
    text = page(runs, tables_of(runs), 5_000)
    assert "What rebalances cost in 2 runs" in text
    assert "<h2>Group g&lt;b&gt;</h2>" in text
    assert '<td class="n" data-head="mean">5</td>' in text
    assert '<a href="runs/b%20%26%20c/index.html">b &amp; c</a>' in text
    assert "Lag at the end of each window" in text
    assert "Of these runs events are missing, or clocks were wrong: seed-1, b &amp; c." in text
    assert "other mean" not in text


def test_runs_are_compared_with_others_side_by_side(tmp_path: Path) -> None:
    runs = [*made_runs(tmp_path, [{"moves": 4}, {"moves": 6}]), *made_runs(tmp_path, [{"moves": 10}] * 2, OTHER)]
    text = page(runs, tables_of(runs), 5_000)
    assert "g&lt;b&gt;, compared with 2 other runs." in text
    assert ">-50%<" in text
    assert 'href="other-runs/seed-1/index.html"' in text


def test_further_groups_are_named(tmp_path: Path) -> None:
    [run] = made_runs(tmp_path, [{}])
    runs = [renamed(run, f"g{number:02}") for number in range(MOST_GROUPS + 1)]
    assert f"Not shown: g{MOST_GROUPS}." in page(runs, tables_of(runs), 5_000)
    nothing = [replace(run, report=replace(run.report, groups=[]), windows=[])]
    assert "No group owned a queue" in page(nothing, tables_of(nothing), 5_000)
