"""What kill -9 does to a stream: every message of the source is in its output exactly once.

RLAB_SPARK_KILLS=50 RLAB_SPARK_ROWS=2000000 makes the same of a night.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from tests.spark.copy_job import LATE, TABLE, TOPIC, CopyJob
from tests.spark.spark_cluster import ClusterProcesses, cluster_processes
from tests.tcp.rlab_process import ROOT, environment, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.process]

KILLS = int(os.environ.get("RLAB_SPARK_KILLS", "5"))
ROWS = int(os.environ.get("RLAB_SPARK_ROWS", "60000"))
BATCHES = 30
EXECUTOR_KILLS = 2
DONE_S = 300
BODY = b"x" * 100

Identity = tuple[str, str, int, int]


class RunningJob:
    """A `CopyJob` in a process group of its own: the driver, its JVM, and the executors' JVMs."""

    def __init__(self, job: CopyJob, errors: Path) -> None:
        self.job, self._errors = job, errors
        with errors.open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.copy_job", json.dumps(asdict(job))],
                stderr=stderr,
                cwd=ROOT,
                env=environment(TMPDIR=str(errors.parent)),
                start_new_session=True,
            )

    def wait_begun(self, query: str, done: int) -> None:
        """Wait until so many batches of a query are done and another one has begun."""
        wait_until(lambda: self._has_ended() or self._is_within_batch(query, done), DONE_S)
        assert not self._has_ended(), f"it was to be killed, and has ended: {self._errors.read_text()}"

    def wait_done(self) -> None:
        assert self.process.wait(DONE_S) == 0, self._errors.read_text()

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_executor(self, rng: random.Random) -> None:
        os.kill(rng.choice(executors(self.process.pid)), signal.SIGKILL)

    def _has_ended(self) -> bool:
        return self.process.poll() is not None

    def _is_within_batch(self, query: str, done: int) -> bool:
        begun, finished = self.job.batches(query)
        return begun > finished >= done


@contextmanager
def running(job: CopyJob, tmp_path: Path) -> Iterator[RunningJob]:
    started = RunningJob(job, tmp_path / f"stderr-{os.urandom(4).hex()}")
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.kill()


def executors(group: int) -> list[int]:
    """Process ids of the executors' JVMs in a process group."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,pgid=,args="], check=True, capture_output=True, text=True
    ).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    return [int(pid) for pid, pgid, args in rows if int(pgid) == group and "CoarseGrainedExecutorBackend --" in args]


def assert_each_once(found: list[Identity], rows: int) -> None:
    ends: dict[tuple[str, str, int], int] = {}
    for topic, broker, queue_id, offset in found:
        queue = (topic, broker, queue_id)
        ends[queue] = max(ends.get(queue, 0), offset + 1)
    assert (len(found), len(set(found)), sum(ends.values())) == (rows, rows, rows)


def table_of(spark: SparkSession, job: CopyJob) -> list[Identity]:
    rows = spark.read.parquet(job.output(TABLE)).select("topic", "broker", "queue_id", "offset").collect()
    return [(row.topic, row.broker, row.queue_id, row.offset) for row in rows]


def copies_of(spark: SparkSession, job: CopyJob) -> list[Identity]:
    copied = spark.read.format("rlab").option("nameServer", job.name_server).option("subscribe", job.target).load()
    parts = [row.body.split(b":") for row in copied.select("body").collect()]
    return [(topic.decode(), broker.decode(), int(queue_id), int(offset)) for topic, broker, queue_id, offset in parts]


def test_what_a_killed_stream_writes_to_parquet_and_to_a_topic_is_there_exactly_once(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: Callable[[int], str], tmp_path: Path
) -> None:
    job = CopyJob(
        master="local[2]",
        name_server=cluster.address,
        source=make_topic(4),
        target=make_topic(3),
        late=make_topic(1),
        folder=str(tmp_path),
        rows_per_batch=ROWS // BATCHES,
    )
    rng = random.Random(6)
    cluster.send_bodies(job.source, [BODY] * ROWS)
    cluster.send_bodies(job.late, [BODY] * 100)
    for number in range(KILLS):
        with running(replace(job, dies_in_batch_0=number == 0), tmp_path) as process:
            if number == 0:
                # One query kills them all: it began at the end of its topic, and what comes now is its.
                assert process.process.wait(DONE_S) == -signal.SIGKILL
                assert job.batches(LATE) == (1, 0)
                cluster.send_bodies(job.late, [BODY] * 50)
                continue
            query = min(TABLE, TOPIC, key=lambda query: job.batches(query)[1])
            process.wait_begun(query, job.batches(query)[1] + 2)
            Event().wait(rng.uniform(0, 0.15))
            process.kill()
    with running(job, tmp_path) as process:
        process.wait_done()
    assert_each_once(table_of(spark, job), ROWS)
    assert_each_once(copies_of(spark, job), ROWS)
    late = spark.read.parquet(f"{job.output(LATE)}/*")
    assert sorted(tuple(row) for row in late.collect()) == [(0, 100 + n) for n in range(50)]


def test_killed_executors_are_replaced_and_nothing_is_missing_or_there_twice(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: Callable[[int], str], tmp_path: Path
) -> None:
    job = CopyJob(
        master="local-cluster[2,1,1024]",
        name_server=cluster.address,
        source=make_topic(4),
        target=make_topic(3),
        folder=str(tmp_path),
        rows_per_batch=ROWS // BATCHES,
    )
    rng = random.Random(6)
    cluster.send_bodies(job.source, [BODY] * ROWS)
    with running(job, tmp_path) as process:
        for number in range(EXECUTOR_KILLS):
            query = (TABLE, TOPIC)[number % 2]
            process.wait_begun(query, job.batches(query)[1] + 2)
            process.kill_executor(rng)
        process.wait_done()
    assert_each_once(table_of(spark, job), ROWS)
    assert_each_once(copies_of(spark, job), ROWS)


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
