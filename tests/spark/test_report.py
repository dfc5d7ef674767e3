"""A report of a real run: what the topic SYS_TRACE says is what the swarm itself counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.report.folder import PAGE, TABLES
from pipeline.report.job import write_report
from pipeline.trace.source import read_files, read_topic, record_topic, trace_events
from tests.spark.spark_cluster import ClusterProcesses
from tests.tcp.rlab_process import wait_until

pytestmark = pytest.mark.spark

SWARM = "--consumers 3 --producers 1 --rate 200 --churn 0.7 --duration 4 --topic reported --group reported --json"


def is_whole(spark: SparkSession, name_servers: str, group: str) -> bool:
    """Whether the trace of a group whose members have left has its end: brokers store theirs once a second."""
    events = trace_events(read_topic(spark, name_servers), group)
    n = {str(row.kind): int(row["count"]) for row in events.groupBy("kind").count().collect()}
    return n.get("MEMBER_LEAVE", 0) == n.get("MEMBER_JOIN", 0) > 0


def test_the_report_of_a_swarm_counts_what_the_swarm_counted(
    spark: SparkSession, cluster: ClusterProcesses, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "cli.main", "swarm", "--namesrv", cluster.address, *SWARM.split()]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    counted = json.loads(done.stdout)["in_all"]
    wait_until(lambda: is_whole(spark, cluster.address, "reported"))

    stream = record_topic(spark, cluster.address, tmp_path / "recorded", tmp_path / "checkpoint")
    stream.processAllAvailable()
    stream.stop()
    assert read_files(spark, [tmp_path / "recorded"]).count() == read_topic(spark, cluster.address).count()

    report = write_report(read_files(spark, [tmp_path / "recorded"]), tmp_path / "out", group="reported")
    [group] = report.groups
    assert {name: getattr(group.totals, name) for name in counted} == counted
    assert counted["moves"] > 16
    assert "Owners of queues" in (tmp_path / "out" / PAGE).read_text(encoding="utf-8")
    assert (tmp_path / "out" / TABLES / "nodes" / "_SUCCESS").exists()
