"""What kill -9 does to a stream: every message of the source is in its output exactly once.

The drivers are started ahead of their turn, each while the one before it runs: a JVM takes seconds. The last has two
executors, each a JVM: one is killed, and when the copy goes on, the driver. Nobody kills the one that does the rest.

It is one copy from its first driver to its last, looked at twice: nine minutes of a slow machine are no hang, but look
like one to whoever waits for a test to end.

Each way to be killed comes once: by one query in the middle of a batch of another, and with an executor before it in
that of a third. RLAB_SPARK_KILLS=50 makes the same of a night, and `make crash-spark` a quarter of an hour.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from threading import Event

import pytest

from tests.spark.drivers.copy_job import DONE_S, LATE, TABLE, TOPIC, CopyJob
from tests.spark.drivers.running_job import BODY, RunningJob, assert_each_once, in_turn
from tests.spark.spark_cluster import ClusterProcesses

pytestmark = [pytest.mark.spark, pytest.mark.process]

KILLS = int(os.environ.get("RLAB_SPARK_KILLS", "2"))
ROWS = int(os.environ.get("RLAB_SPARK_ROWS", str(12_000 * KILLS)))
ROWS_PER_BATCH = int(os.environ.get("RLAB_SPARK_ROWS_PER_BATCH", "2000"))
EXECUTOR_KILLS = int(os.environ.get("RLAB_SPARK_EXECUTOR_KILLS", "1"))


@dataclass(frozen=True)
class Copy:
    """A copy that takes all of these drivers, one after the other.

    Attributes:
        rest: what the last of them runs.
    """

    job: CopyJob
    rest: CopyJob
    drivers: Iterator[RunningJob]
    rng: random.Random = field(default_factory=lambda: random.Random(6))

    def kill_next(self, query: str, *, executors: int = 0) -> None:
        """Let the next driver run until the middle of a batch of this query; its executors are killed before it is."""
        driver = next(self.drivers)
        for _ in range(executors):
            driver.wait_begun_again(query)
            driver.kill_executor(self.rng)
        driver.wait_begun_again(query)
        Event().wait(self.rng.uniform(0, 0.15))
        driver.kill()


@pytest.fixture(scope="module")
def copy(cluster: ClusterProcesses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    folder = tmp_path_factory.mktemp("copy")
    job = CopyJob(
        master="local[2]",
        name_server=cluster.address,
        source="source",
        target="target",
        folder=str(folder),
        rows_per_batch=ROWS_PER_BATCH,
    )
    with_late = replace(job, late="late")
    for topic, queues in (("source", 4), ("target", 3), ("late", 1)):
        cluster.create_topic(topic, queues)
    cluster.send_bodies("source", [BODY] * ROWS)
    cluster.send_bodies("late", [BODY] * 100)
    rest = replace(with_late, rows_per_batch=ROWS, found=str(folder / "found"))  # as the job, and in one batch
    jobs = [
        replace(with_late, dies_in_batch_0=True),
        *[job] * (KILLS - 2),
        replace(job, master="local-cluster[2,1,1024]"),
        rest,
    ]
    with in_turn(jobs, folder) as drivers:
        yield Copy(job, rest, drivers)


@pytest.fixture(scope="module")
def killed_copy(copy: Copy, cluster: ClusterProcesses) -> Copy:
    """It, with all drivers killed but the two last."""
    # One query kills the first: it began at the end of its topic, and what comes now is its.
    assert next(copy.drivers).process.wait(DONE_S) == -signal.SIGKILL
    assert copy.rest.batches(LATE) == (1, 0)
    cluster.send_bodies("late", [BODY] * 50)
    for number in range(KILLS - 2):
        copy.kill_next((TOPIC, TABLE)[number % 2])
    return copy


def test_what_a_stream_has_committed_to_parquet_is_there_once_while_its_drivers_are_killed(killed_copy: Copy) -> None:
    batches, rows = killed_copy.job.committed_table()
    assert batches > 0
    assert_each_once(rows, batches * ROWS_PER_BATCH)


def test_what_a_stream_writes_to_parquet_and_to_a_topic_is_there_exactly_once_whatever_of_it_is_killed(
    killed_copy: Copy,
) -> None:
    killed_copy.kill_next(TABLE, executors=EXECUTOR_KILLS)
    begun = {query: killed_copy.job.batches(query)[0] for query in (TABLE, TOPIC)}
    assert max(begun.values()) < ROWS // ROWS_PER_BATCH, "there was something left to do for who was killed"
    assert next(killed_copy.drivers).process.wait(DONE_S) == 0
    found = killed_copy.rest.read_found()
    for query in (TABLE, TOPIC):
        assert_each_once(found[query], ROWS)
    assert found[LATE] == [(0, 100 + n) for n in range(50)]
