from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition

from model.message_queue import MessageQueue
from pipeline.source import ranges
from pipeline.source.columns import SCHEMA
from pipeline.source.offsets import Range
from pipeline.source.options import SourceOptions, parse_options
from pipeline.source.queue_reader import MessagesLost
from pipeline.source.ranges import (
    CORES_VARIABLE,
    JOINED_BYTES,
    JOINED_ROWS,
    SMALL_TASK_ROWS,
    UNKNOWN_CORES,
    QueueRanges,
    plan_tasks,
    read_ranges,
    sampled_bytes,
    session_cores,
)
from tests.unit.pipeline.fake_cluster import FakeClient, FakeCluster

QUEUE = MessageQueue("t", "a", 0)


def options(**more: str) -> SourceOptions:
    return parse_options({"nameServer": "names:1", "subscribe": "t", **more}, streaming=False)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cluster of 50 messages; returns the addresses of the connections that were closed."""
    cluster, found = FakeCluster(queues=1), list[str]()
    cluster.fill(50)

    class Client(FakeClient):
        def close(self) -> None:
            found.extend(self._connections)
            super().close()

    monkeypatch.setattr(ranges, "open_client", lambda options: Client(cluster, 3))
    return found


def test_queues_with_few_messages_share_a_task_unless_as_many_tasks_are_asked_for() -> None:
    ranges = [Range(QUEUE._replace(queue_id=n), 0, rows) for n, rows in enumerate((10, 0, SMALL_TASK_ROWS, 1, 1))]

    def rows(**more: str) -> list[list[int]]:
        tasks = [task for task in plan_tasks(ranges, options(**more)) if isinstance(task, QueueRanges)]
        return [[one.end - one.start for one in task.ranges] for task in tasks]

    assert rows() == [[10], [SMALL_TASK_ROWS, 1, 1]]
    assert rows(minPartitions="1") == [[10], [SMALL_TASK_ROWS], [1], [1]]
    assert rows(maxRecordsPerPartition="800") == [[10, 500], [500, 1, 1]]


def sizes(tasks: list[InputPartition]) -> list[int]:
    return [sum(one.end - one.start for one in task.ranges) for task in tasks if isinstance(task, QueueRanges)]


def test_many_queues_share_tasks_by_their_messages_and_by_their_bytes() -> None:
    many = [Range(QUEUE._replace(queue_id=n), 0, 1_000) for n in range(1_000)]
    assert sizes(plan_tasks(many, options())) == [JOINED_ROWS] * 20
    asked: list[int] = []

    def large(some: list[Range]) -> float:
        asked.append(len(some))
        return JOINED_BYTES / 4_000

    assert sizes(plan_tasks(many, options(), large)) == [4_000] * 250
    assert 1 <= asked[0] <= 8, "a few of them are looked at"
    # Fewer messages: there are tasks for some cores all the same.
    assert sorted(sizes(plan_tasks(many[:100], options()))) == [6_000] * 12 + [7_000] * 4


def test_few_messages_are_read_by_as_many_tasks_as_run_at_a_time() -> None:
    eight = [Range(QUEUE._replace(queue_id=n), 0, 3_125) for n in range(8)]
    assert sizes(plan_tasks(eight, options(), cores=2)) == [12_500] * 2
    assert sizes(plan_tasks(eight, options(), cores=1)) == [25_000]
    assert sizes(plan_tasks(eight, options(), cores=64)) == [3_125] * 8, "a queue is read in order by one task"
    assert sizes(plan_tasks(eight, options(minPartitions="8"), cores=2)) == [3_125] * 8
    assert sizes(plan_tasks(eight, options(maxRecordsPerPartition="7000"), cores=2)) == [6_250] * 4
    # Too few for two tasks.
    assert sizes(plan_tasks([one._replace(end=100) for one in eight], options(), cores=2)) == [800]
    # Many messages: small tasks, because a query may be slower than the read.
    assert sizes(plan_tasks([one._replace(end=125_000) for one in eight], options(), cores=2)) == [125_000] * 8


def test_a_session_passes_its_cores_to_the_planner_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CORES_VARIABLE, raising=False)
    assert session_cores() == UNKNOWN_CORES
    for text, cores in (("2", 2), ("0", 1), ("many", UNKNOWN_CORES), ("", UNKNOWN_CORES)):
        monkeypatch.setenv(CORES_VARIABLE, text)
        assert session_cores() == cores


@given(st.lists(st.integers(0, 5_000), max_size=60), st.integers(1, 20))
def test_there_are_no_more_tasks_than_allowed_and_they_have_every_message(rows: list[int], most: int) -> None:
    wanted = [Range(QUEUE._replace(queue_id=n), 5, 5 + size) for n, size in enumerate(rows)]
    tasks = plan_tasks(wanted, options(maxPartitions=str(most)))
    assert len(tasks) <= most
    pieces = [one for task in tasks if isinstance(task, QueueRanges) for one in task.ranges]
    assert pieces == [one for one in wanted if one.end > one.start]


def test_the_size_of_messages_is_that_of_some_and_unknown_if_none_can_be_read() -> None:
    cluster = FakeCluster(queues=2)
    cluster.fill(50)
    there = [Range(QUEUE._replace(queue_id=n), 10, 40) for n in (0, 1)]
    assert 40 < sampled_bytes(FakeClient(cluster, 3), options(), there) < 400
    assert sampled_bytes(FakeClient(cluster, 0), options(), [Range(QUEUE._replace(queue_id=9), 0, 5)]) == 0


def test_a_plan_without_ranges_reads_nothing(closed: list[str]) -> None:
    assert list(read_ranges(InputPartition(None), options(), SCHEMA)) == []


def test_a_range_is_read_as_arrow_batches(closed: list[str]) -> None:
    part = QueueRanges((Range(QUEUE, 10, 40),))
    (batch,) = read_ranges(part, options(), SCHEMA)
    assert batch.column("offset").to_pylist() == list(range(10, 40))
    assert closed == ["names:1", "a:1"]


def test_a_task_reads_each_of_its_ranges(closed: list[str]) -> None:
    part = QueueRanges((Range(QUEUE, 10, 20), Range(QUEUE, 30, 32)))
    found = [offset for batch in read_ranges(part, options(), SCHEMA) for offset in batch.column("offset").to_pylist()]
    assert found == [*range(10, 20), 30, 31]
    assert closed == ["names:1", "a:1"]


def test_the_collector_rests_while_a_range_is_read_and_connections_are_closed_when_no_one_wants_the_rest(
    closed: list[str],
) -> None:
    read: Iterator[object] = read_ranges(QueueRanges((Range(QUEUE, 0, 50),)), options(), SCHEMA)
    next(read)
    assert not gc.isenabled()
    read.close()  # type: ignore[attr-defined]
    assert gc.isenabled()
    assert closed == ["names:1", "a:1"]


def test_a_damaged_record_ends_a_read_unless_losses_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(queues=1)
    cluster.fill(20)
    cluster.damaged = {(QUEUE, 7)}
    monkeypatch.setattr(ranges, "open_client", lambda options: cluster.client())
    part = QueueRanges((Range(QUEUE, 5, 20),))
    with pytest.raises(MessagesLost, match=r"t@a:0: 1 of the messages from offset 5 to before 20 are damaged"):
        list(read_ranges(part, options(), SCHEMA))
    (batch,) = read_ranges(part, options(failOnDataLoss="false"), SCHEMA)
    assert batch.column("offset").to_pylist() == [5, 6, *range(8, 20)]
