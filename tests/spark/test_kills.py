"""What kill -9 does to a stream: every message of the source is in its output exactly once.

The drivers are started ahead of their turn, each while the one before it runs: a JVM takes seconds. The last has two
executors, each a JVM: one is killed, then one more, then the driver.

RLAB_SPARK_KILLS=50 makes the same of a night.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from tests.spark.copy_job import LATE, TABLE, TOPIC, CopyJob
from tests.spark.running_job import BODY, DONE_S, assert_each_once, copies_of, in_turn, table_of
from tests.spark.spark_cluster import ClusterProcesses, cluster_processes
from tests.tcp.rlab_process import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.process]

KILLS = int(os.environ.get("RLAB_SPARK_KILLS", "5"))
ROWS = int(os.environ.get("RLAB_SPARK_ROWS", str(8_000 * KILLS)))


def test_what_a_stream_writes_to_parquet_and_to_a_topic_is_there_exactly_once_whatever_of_it_is_killed(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: Callable[[int], str], tmp_path: Path
) -> None:
    job = CopyJob(
        master="local[2]",
        name_server=cluster.address,
        source=make_topic(4),
        target=make_topic(3),
        folder=str(tmp_path),
        rows_per_batch=2_000,
    )
    with_late = replace(job, late=make_topic(1))
    cluster.send_bodies(job.source, [BODY] * ROWS)
    cluster.send_bodies(with_late.late, [BODY] * 100)
    jobs = [
        replace(with_late, dies_in_batch_0=True),
        *[job] * (KILLS - 2),
        replace(job, master="local-cluster[2,1,1024]"),
    ]
    rng = random.Random(6)
    with in_turn(jobs, tmp_path) as processes:
        # One query kills them all: it began at the end of its topic, and what comes now is its.
        assert next(processes).process.wait(DONE_S) == -signal.SIGKILL
        assert with_late.batches(LATE) == (1, 0)
        cluster.send_bodies(with_late.late, [BODY] * 50)
        for number, process in enumerate(processes):
            query = (TOPIC, TABLE)[number % 2]
            if process.job.master != job.master:
                for _ in range(2):
                    process.wait_begun_anew(query)
                    process.kill_executor(rng)
            process.wait_begun_anew(query)
            Event().wait(rng.uniform(0, 0.15))
            process.kill()
    begun = {query: job.batches(query)[0] for query in (TABLE, TOPIC)}
    assert max(begun.values()) < ROWS // job.rows_per_batch, "there was something left to do for those that were killed"
    rest = replace(with_late, rows_per_batch=ROWS)  # as the job, and in one batch
    for running in rest.start(spark):
        assert running.awaitTermination(DONE_S)
    assert_each_once(table_of(spark, job), ROWS)
    assert_each_once(copies_of(spark, job), ROWS)
    late = spark.read.parquet(f"{with_late.output(LATE)}/*").collect()
    assert sorted(tuple(row) for row in late) == [(0, 100 + n) for n in range(50)]


def test_a_batch_goes_on_where_it_was_when_its_broker_is_killed_in_the_middle_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    halfway, go_on = tmp_path / "halfway", tmp_path / "go-on"

    def stops_halfway(batches):  # type: ignore[no-untyped-def]
        for batch in batches:
            if 5_000 in batch["offset"].to_pylist():
                halfway.touch()
                wait_until(go_on.exists)
            yield batch

    with cluster_processes(tmp_path) as own:
        own.create_topic("t", 1)
        own.send_bodies("t", [BODY] * 20_000)
        stream = spark.readStream.format("rlab").option("nameServer", own.address).option("subscribe", "t")
        frame = stream.option("startingOffsets", "earliest").load().select("offset")
        writer = frame.mapInArrow(stops_halfway, "offset bigint").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query = writer.start(str(tmp_path / TABLE))
        wait_until(lambda: halfway.exists() or not query.isActive)
        own.kill_broker()
        own.restart_broker()
        go_on.touch()
        assert query.awaitTermination(DONE_S)
    assert [one.numInputRows for one in query.recentProgress] == [20_000], "one batch"
    assert sorted(row.offset for row in spark.read.parquet(str(tmp_path / TABLE)).collect()) == list(range(20_000))
