"""What kill -9 does to a stream: every message of the source is in its output exactly once.

The drivers are started ahead of their turn, each while the one before it runs: a JVM takes seconds. The last has two
executors, each a JVM: one is killed, then one more, then the driver. Nobody kills the one that does the rest.

RLAB_SPARK_KILLS=50 makes the same of a night.
"""

from __future__ import annotations

import os
import random
import signal
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Event

import pytest

from tests.spark.drivers.copy_job import LATE, TABLE, TOPIC, CopyJob
from tests.spark.drivers.running_job import BODY, DONE_S, assert_each_once, in_turn
from tests.spark.spark_cluster import ClusterProcesses

pytestmark = [pytest.mark.spark, pytest.mark.process]

KILLS = int(os.environ.get("RLAB_SPARK_KILLS", "5"))
ROWS = int(os.environ.get("RLAB_SPARK_ROWS", str(8_000 * KILLS)))


def test_what_a_stream_writes_to_parquet_and_to_a_topic_is_there_exactly_once_whatever_of_it_is_killed(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    job = CopyJob(
        master="local[2]",
        name_server=cluster.address,
        source="source",
        target="target",
        folder=str(tmp_path),
        rows_per_batch=2_000,
    )
    with_late = replace(job, late="late")
    for topic, queues in (("source", 4), ("target", 3), ("late", 1)):
        cluster.create_topic(topic, queues)
    cluster.send_bodies("source", [BODY] * ROWS)
    cluster.send_bodies("late", [BODY] * 100)
    jobs = [
        replace(with_late, dies_in_batch_0=True),
        *[job] * (KILLS - 2),
        replace(job, master="local-cluster[2,1,1024]"),
    ]
    rest = replace(with_late, rows_per_batch=ROWS, found=str(tmp_path / "found"))  # as the job, and in one batch
    rng = random.Random(6)
    with in_turn([*jobs, rest], tmp_path) as processes:
        # One query kills them all: it began at the end of its topic, and what comes now is its.
        assert next(processes).process.wait(DONE_S) == -signal.SIGKILL
        assert with_late.batches(LATE) == (1, 0)
        cluster.send_bodies("late", [BODY] * 50)
        for number, process in enumerate(islice(processes, KILLS - 1)):
            query = (TOPIC, TABLE)[number % 2]
            if process.job.master != job.master:
                for _ in range(2):
                    process.wait_begun_anew(query)
                    process.kill_executor(rng)
            process.wait_begun_anew(query)
            Event().wait(rng.uniform(0, 0.15))
            process.kill()
        begun = {query: job.batches(query)[0] for query in (TABLE, TOPIC)}
        assert max(begun.values()) < ROWS // job.rows_per_batch, "there was something left to do for who was killed"
        assert next(processes).process.wait(DONE_S) == 0
    found = rest.read_found()
    for query in (TABLE, TOPIC):
        assert_each_once(found[query], ROWS)
    assert found[LATE] == [(0, 100 + n) for n in range(50)]
