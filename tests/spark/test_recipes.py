"""The programs of docs/spark-recipes.md do what the page says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from pyspark.sql import SparkSession

from client import Message
from tests.docs.pages import text_of
from tests.spark.spark_cluster import ClusterProcesses

pytestmark = [pytest.mark.spark, pytest.mark.process]

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
Recipe = Callable[..., dict[str, Any]]


@pytest.fixture
def recipe(cluster: ClusterProcesses) -> Recipe:
    """Runs the program below a heading, with other addresses, topics and so on in it; returns its names."""

    def run(heading: str, others: dict[str, str], **names: object) -> dict[str, Any]:
        code = text_of("docs/spark-recipes.md").split(f"\n## {heading}\n")[1].split("```python\n")[1].split("```")[0]
        # Of the folder of a checkpoint too: that of the JVM is not this process's.
        for text, other in {"127.0.0.1:9876": cluster.address, **others}.items():
            assert text in code
            code = code.replace(text, other)
        exec(code, names)
        return names

    return run


def test_dead_letters_are_added_to_a_table_once(
    spark: SparkSession, cluster: ClusterProcesses, recipe: Recipe, tmp_path: Path
) -> None:
    cluster.create_topic("%DLQ%billing", 1)
    try:
        for sent in (range(3), range(3, 5)):
            cluster.send_numbers("%DLQ%billing", sent)
            recipe("Dead letters into a table", {'"dead/checkpoint"': repr(str(tmp_path))}, spark=spark)
        found = spark.sql("SELECT consumer_group, body FROM dead_letters ORDER BY body").collect()
        assert [tuple(row) for row in found] == [("billing", str(number)) for number in range(5)]
    finally:
        spark.sql("DROP TABLE IF EXISTS dead_letters")
        cluster.delete_topic("%DLQ%billing")


def test_sessions_are_counted_and_continued_and_their_lag_is_a_gauge(
    spark: SparkSession,
    cluster: ClusterProcesses,
    recipe: Recipe,
    make_topic: Callable[[int], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    topic = make_topic(2)
    ports: list[int] = []
    names: dict[str, Any] = {}
    monkeypatch.setattr(prometheus_client, "start_http_server", ports.append)
    try:
        for _ in range(2):
            cluster.send([Message(topic, b"x", [f"k{number % 2}"]) for number in range(6)])
            others = {'"orders"': f'"{topic}"', '"sessions/checkpoint"': repr(str(tmp_path))}
            names = recipe("Sessions with state", others, spark=spark)
        found = spark.sql("SELECT key, max(messages) FROM sessions GROUP BY key, first").collect()
        assert sorted(tuple(row) for row in found) == [("k0", 6), ("k1", 6)]
    finally:
        spark.sql("DROP TABLE IF EXISTS sessions")
        spark.conf.unset(STATE_STORE)
    code = text_of("docs/spark-recipes.md").split("## Lag for Prometheus")[1].split("```python\n")[1].split("```")[0]
    exec(code, names)
    assert ports == [9100]


def test_a_session_of_connect_reads_a_topic(
    connect_url: str, cluster: ClusterProcesses, recipe: Recipe, make_topic: Callable[[int], str]
) -> None:
    topic = make_topic(2)
    cluster.send_numbers(topic, range(10))
    # That of pyspark.sql begins no second session in a process that has a JVM, as that of the tests.
    others = {
        "sc://127.0.0.1:15002": connect_url,
        "from pyspark.sql import": "from pyspark.sql.connect.session import",
        '"orders"': f'"{topic}"',
    }
    names = recipe("Spark Connect", others)
    try:
        assert names["orders"].count() == 10
    finally:
        names["spark"].stop()
