"""The comparison of strategies on Spark is that of one process, however it is cut up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from cli.main import app
from pipeline.strategies.histories import live_through
from pipeline.strategies.job import Comparison, strategy_events, strategy_figures
from pipeline.strategies.plot import plot_strategies

pytestmark = pytest.mark.spark

COMPARISON = Comparison(queues=120, brokers=3, consumers=8, events=5, scenarios=3, seed=7)


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> Iterator[DataFrame]:
    """Those of `COMPARISON`, computed once."""
    computed = strategy_events(spark, COMPARISON).cache()
    yield computed
    computed.unpersist()


def test_the_job_finds_what_one_process_finds_in_any_number_of_partitions(
    spark: SparkSession, events: DataFrame
) -> None:
    found: dict[tuple[int, str], list[tuple[object, ...]]] = {
        (row.scenario, row.strategy): [] for row in events.select("scenario", "strategy").distinct().collect()
    }
    for row in strategy_events(spark, COMPARISON).coalesce(1).orderBy("event").collect():
        found[row.scenario, row.strategy].append((row.members, row.moved, row.least, row.spread, row.jain))
    expected = {
        (scenario, name): [
            tuple(event[1:]) for event in live_through(name, COMPARISON.queue_set, 8, 5, COMPARISON.seed + scenario)
        ]
        for scenario in range(3)
        for name in COMPARISON.strategies
    }
    assert found == expected


def test_the_figures_are_the_sums_of_the_events(events: DataFrame) -> None:
    rows = events.collect()
    figures = strategy_figures(events, 120)
    assert {each.strategy for each in figures} == set(COMPARISON.strategies)
    assert [each.times_least for each in figures] == sorted(each.times_least or 0.0 for each in figures)
    for each in figures:
        own = [row for row in rows if row.strategy == each.strategy]
        assert each.times_least == pytest.approx(sum(r.moved for r in own) / sum(r.least for r in own))
        assert each.moved_share == pytest.approx(sum(r.moved for r in own) / len(own) / 120)
        assert (each.spread, each.jain) == (max(r.spread for r in own), min(r.jain for r in own))


def test_among_more_members_than_queues_the_least_is_0_and_no_multiple_of_it_is_reported(spark: SparkSession) -> None:
    comparison = Comparison(queues=6, brokers=3, consumers=20, events=3, scenarios=2, seed=7)
    figures = strategy_figures(strategy_events(spark, comparison), 6)
    assert {(each.times_least, each.worst_times_least) for each in figures} == {(None, None)}
    assert [each.moved_share for each in figures] == sorted(each.moved_share for each in figures)


def test_the_picture_is_drawn(events: DataFrame, tmp_path: Path) -> None:
    figures = strategy_figures(events, 120)
    path = tmp_path / "strategies.png"
    plot_strategies(figures, {each.strategy: [each.times_least or 0.0] * 3 for each in figures}, COMPARISON, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


def test_the_command_refuses_what_cannot_be_compared() -> None:
    for arguments, why in (
        (["--queues", "3"], "queues must be 10"),
        (["--strategy", "NOPE"], "strategies must be some of AVG"),
        (["--events", "0"], "events must be at least 1"),
    ):
        result = CliRunner().invoke(app, ["strategies", *arguments])
        assert result.exit_code == 2
        assert why in result.stderr
