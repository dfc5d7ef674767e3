from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from model.errors import ConfigError, ConnectFailed
from model.message_queue import MessageQueue
from pipeline.source import stream as stream_source
from pipeline.source.columns import SCHEMA
from pipeline.source.offsets import from_json
from pipeline.source.options import parse_options
from pipeline.source.queue_reader import MessagesLost
from pipeline.source.ranges import QueueRanges
from pipeline.source.stream import StreamReader
from remoting.request_code import RequestCode
from tests.unit.pipeline.fake_cluster import FakeCluster, FakeQueue

FIRST, SECOND = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)
Offsets = dict[str, Any]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    monkeypatch.setattr(stream_source, "open_client", lambda options: made.client())
    return made


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def reader(clock: Clock | None = None, **options: str) -> StreamReader:
    base = {"nameServer": "names:1", "subscribe": "t", "metadataPollMs": "0"}
    return StreamReader(parse_options({**base, **options}, streaming=True), SCHEMA, clock or Clock())


def numbers(offsets: Offsets) -> list[int]:
    return list(from_json(offsets).values())


def latest(found: StreamReader, start: Offsets) -> Offsets:
    return found.latestOffset(start, found.getDefaultReadLimit())


def planned(found: StreamReader, start: Offsets, end: Offsets) -> list[tuple[int, int, int]]:
    ranges = [one for part in found.partitions(start, end) if isinstance(part, QueueRanges) for one in part.ranges]
    return [(one.queue.queue_id, one.start, one.end) for one in ranges]


def test_a_stream_from_the_latest_offset_begins_with_an_empty_batch(cluster: FakeCluster) -> None:
    cluster.fill(5)
    found = reader()
    start = found.initialOffset()
    cluster.fill(3)
    assert found.initialOffset() == start, "Spark asks twice"
    assert latest(found, start) == start, "it is in the checkpoint before anything is read"
    assert planned(found, start, start) == []
    assert planned(found, start, latest(found, start)) == [(0, 5, 8), (1, 5, 8)]


def test_a_first_batch_that_is_run_again_skips_nothing(cluster: FakeCluster) -> None:
    cluster.fill(5)
    crashed = reader()
    end = latest(crashed, crashed.initialOffset())
    cluster.fill(4)
    again = reader()
    # Only the end is in the checkpoint: Spark asks for the initial offset once more, and it lies further on.
    start = again.initialOffset()
    assert numbers(start) > numbers(end)
    assert planned(again, start, end) == []
    assert planned(again, end, latest(again, end)) == [(0, 5, 9), (1, 5, 9)]


def test_a_stream_from_a_fixed_place_reads_at_once(cluster: FakeCluster) -> None:
    cluster.fill(5)
    found = reader(startingOffsets="earliest")
    start = found.initialOffset()
    assert planned(found, start, latest(found, start)) == [(0, 0, 5), (1, 0, 5)]


def test_the_text_of_an_offset_does_not_change_while_nothing_happens(cluster: FakeCluster) -> None:
    for number in range(2, 12):
        cluster.queues[MessageQueue("t", "a", number)] = FakeQueue()
    cluster.fill(1)
    found = reader(startingOffsets="earliest")
    end = latest(found, found.initialOffset())
    assert repr(latest(found, end)) == repr(end) == repr(found.reportLatestOffset())
    assert list(end["t"]["a"]) == [*sorted(map(str, range(12))), "topic_id"]


def test_a_limit_is_shared_out_and_ignored_when_spark_wants_everything(cluster: FakeCluster) -> None:
    cluster.fill(50)
    found = reader(startingOffsets="earliest", maxOffsetsPerTrigger="20")
    assert found.getDefaultReadLimit() == ReadMaxRows(20)
    start = found.initialOffset()
    assert numbers(latest(found, start)) == [10, 10]
    assert numbers(found.latestOffset(start, ReadAllAvailable())) == [50, 50]


def test_a_batch_waits_for_enough_messages_but_not_for_ever(cluster: FakeCluster) -> None:
    cluster.fill(4)
    clock = Clock()
    found = reader(clock, startingOffsets="earliest", minOffsetsPerTrigger="20", maxTriggerDelay="10s")
    assert found.getDefaultReadLimit() == ReadMinRows(20)
    start = found.initialOffset()
    assert latest(found, start) == start
    clock.now = 9.9
    assert latest(found, start) == start
    clock.now = 10
    end = latest(found, start)
    assert numbers(end) == [4, 4]
    cluster.fill(4)
    assert latest(found, end) == end, "the wait begins anew"
    cluster.fill(8)
    assert numbers(latest(found, end)) == [16, 16]


def test_at_least_and_at_most_hold_together(cluster: FakeCluster) -> None:
    cluster.fill(4)
    found = reader(startingOffsets="earliest", minOffsetsPerTrigger="10", maxOffsetsPerTrigger="12")
    start = found.initialOffset()
    assert latest(found, start) == start
    cluster.fill(4)
    assert numbers(latest(found, start)) == [6, 6]


@pytest.mark.parametrize("limit", [ReadMaxRows(6), ReadAllAvailable()])
def test_available_now_ends_where_the_queues_ended_when_it_began(cluster: FakeCluster, limit: ReadLimit) -> None:
    cluster.fill(5)
    found = reader(startingOffsets="earliest", minOffsetsPerTrigger="1000")
    found.prepareForTriggerAvailableNow()
    cluster.fill(5)
    cluster.queues[MessageQueue("t", "a", 2)] = FakeQueue()
    at, rounds = found.initialOffset(), 0
    while (end := found.latestOffset(at, limit)) != at:
        at, rounds = end, rounds + 1
    assert numbers(at) == [5, 5, 0]
    assert rounds <= 2


def test_a_queue_that_appears_is_read_from_its_beginning(cluster: FakeCluster) -> None:
    cluster.fill(2)
    found = reader()
    start = found.initialOffset()
    latest(found, start)
    third = MessageQueue("t", "a", 2)
    cluster.queues[third] = FakeQueue()
    cluster.fill(4)
    cluster.trim(third, 1)
    end = latest(found, start)
    assert planned(found, start, end) == [(0, 2, 6), (1, 2, 6), (2, 1, 4)]


def test_a_queue_that_appears_without_its_oldest_messages_is_limited_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster("a", "b", queues=1)
    monkeypatch.setattr(stream_source, "open_client", lambda options: cluster.client())
    cluster.fill(1_010)
    away = MessageQueue("t", "b", 0)
    cluster.trim(away, 1_000)
    cluster.down.add("b")
    found = reader(startingOffsets="earliest", maxOffsetsPerTrigger="100")
    at = found.initialOffset()
    latest(found, at)
    cluster.down.clear()
    read: dict[MessageQueue, list[int]] = {FIRST: [], away: []}
    while (end := latest(found, at)) != at:
        assert from_json(end)[away] > 1_000, "a batch with an end before it could never be read on from"
        for part in found.partitions(at, end):
            assert isinstance(part, QueueRanges)
            for one in part.ranges:
                read[one.queue] += range(one.start, one.end)
        at = end
    assert read == {FIRST: list(range(1_010)), away: list(range(1_000, 1_010))}


def test_available_now_ends_no_queue_before_its_beginning(cluster: FakeCluster) -> None:
    cluster.fill(10)
    found = reader(startingOffsets='{"t": {"a": {"0": 0}}}')
    found.prepareForTriggerAvailableNow()
    cluster.fill(10)
    cluster.trim(SECOND, 15)
    assert numbers(latest(found, {"t": {"a": {"0": 0}}})) == [10, 15]


def test_a_queue_that_was_recreated_is_not_limited_to_a_place_that_it_does_not_have(cluster: FakeCluster) -> None:
    cluster.fill(5)
    found = reader(startingOffsets="earliest", failOnDataLoss="false", maxOffsetsPerTrigger="3")
    start = {"t": {"a": {"0": 5, "1": 5}}}
    cluster.queues[SECOND] = FakeQueue()
    cluster.put(FIRST, *cluster.queues[FIRST].messages)
    assert numbers(latest(found, start)) == [8, 0]


def test_a_queue_whose_broker_is_away_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster("a", "b", queues=1)
    monkeypatch.setattr(stream_source, "open_client", lambda options: cluster.client())
    cluster.fill(3)
    found = reader(startingOffsets="earliest")
    end = latest(found, found.initialOffset())
    cluster.down.add("b")
    cluster.fill(2)
    later = latest(found, end)
    assert numbers(later) == [5, 3]
    cluster.down.clear()
    assert numbers(latest(found, later)) == [5, 5]


def test_missing_queues_are_asked_about_all_at_once_and_no_more_often_than_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, clock = FakeCluster("a", "b", queues=20), Clock()
    monkeypatch.setattr(stream_source, "open_client", lambda options: cluster.client())
    cluster.fill(1)
    found = reader(clock, startingOffsets="earliest", metadataPollMs="100")
    end = latest(found, found.initialOffset())
    cluster.down.add("b")
    cluster.asked.clear()
    for turn in range(1, 101):
        clock.now = turn * 0.01
        assert latest(found, end) == end
    asked = [code for code, _ in cluster.asked]
    assert 0 < asked.count(RequestCode.GET_BROKER_CLUSTER_INFO) <= 10
    assert len(asked) <= 10 * (1 + 20 + 1)  # a route, the ends of the queues that are there, who is there


def test_queues_that_were_deleted_are_reported_once(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.fill(5)
    found = reader(startingOffsets="earliest", failOnDataLoss="false")
    end = latest(found, found.initialOffset())
    cluster.queues = {MessageQueue("other", "a", 0): FakeQueue()}
    for _ in range(5):
        assert latest(found, end) == end
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        "queue t@a:0 no longer exists",
        "queue t@a:1 no longer exists",
    ]
    cluster.asked.clear()
    latest(found, end)
    assert len(cluster.asked) == 1, "what was told needs no further question"


def test_a_name_server_that_does_not_say_who_is_there_does_not_end_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster("a", "b", queues=1)
    client = cluster.client()
    monkeypatch.setattr(stream_source, "open_client", lambda options: client)
    cluster.fill(3)
    found = reader(startingOffsets="earliest")
    end = latest(found, found.initialOffset())
    cluster.down.add("b")

    def masters() -> dict[str, str]:
        raise ConnectFailed("no name server answers")

    monkeypatch.setattr(client, "masters", masters)
    assert latest(found, end) == end


def test_a_cluster_without_a_broker_that_answers_is_an_error(cluster: FakeCluster) -> None:
    cluster.down.add("names")
    with pytest.raises(ConnectFailed, match="no name server answers"):
        reader().initialOffset()


def test_a_topic_that_does_not_exist_is_reported_at_the_start(cluster: FakeCluster) -> None:
    with pytest.raises(ConfigError, match="topic 'orders' does not exist"):
        reader(subscribe="orders").initialOffset()


@pytest.mark.parametrize(("make", "why"), [("deleted", "no longer exists"), ("anew", "ends at 2, and offset 5")])
def test_a_queue_that_was_deleted_or_recreated_is_a_loss(cluster: FakeCluster, make: str, why: str) -> None:
    cluster.fill(5)
    found, careless = reader(startingOffsets="earliest"), reader(startingOffsets="earliest", failOnDataLoss="false")
    end = latest(found, found.initialOffset())
    latest(careless, careless.initialOffset())
    del cluster.queues[SECOND]
    if make == "anew":
        cluster.queues[SECOND] = FakeQueue()
    cluster.fill(2)
    with pytest.raises(MessagesLost, match=f"queue t@a:1 .*{why}"):
        latest(found, end)
    later = latest(careless, end)
    assert planned(careless, end, later) == [(0, 5, 7)]
    if make == "anew":
        cluster.fill(2)
        assert planned(careless, later, latest(careless, later)) == [(0, 7, 9), (1, 2, 4)]


def test_a_topic_that_is_deleted_while_name_servers_still_have_its_route_is_a_loss(cluster: FakeCluster) -> None:
    other = MessageQueue("u", "a", 0)
    cluster.queues[other] = FakeQueue()
    cluster.fill(5)
    both = partial(reader, subscribe="t,u", startingOffsets="earliest")
    found, careless = both(), both(failOnDataLoss="false", maxOffsetsPerTrigger="100")
    end = latest(found, found.initialOffset())
    cluster.deleted.add("t")
    cluster.fill(2)
    with pytest.raises(MessagesLost, match="queue t@a:0 no longer exists"):
        latest(found, end)
    assert from_json(later := latest(careless, end)) == {**from_json(end), other: 7}
    careless.prepareForTriggerAvailableNow()
    assert latest(careless, later) == later
    assert list(from_json(latest(both(), {}))) == [other], "what was never read is no loss"


def test_a_batch_that_is_run_again_when_its_topic_is_gone_is_left_to_its_tasks(cluster: FakeCluster) -> None:
    """They skip what was deleted, or say that it is lost; the plan did neither, and the stream never started again."""
    cluster.fill(5)
    end = latest(crashed := reader(startingOffsets="earliest"), start := crashed.initialOffset())
    cluster.deleted.add("t")
    for again in (reader(), reader(failOnDataLoss="false")):
        assert planned(again, start, end) == planned(again, {}, end) == [(0, 0, 5), (1, 0, 5)]


def test_a_topic_that_was_recreated_and_is_longer_now_is_a_loss_or_is_read_from_its_beginning(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.fill(5)
    found = reader(startingOffsets="earliest")
    end = latest(found, found.initialOffset())
    begun = reader().initialOffset()
    cluster.queues = {FIRST: FakeQueue(), SECOND: FakeQueue()}
    cluster.topic_id = 2
    cluster.fill(9)
    # One that ran all the time, and two that begin with a checkpoint, the last one with that of an empty first batch.
    for strict, start in ((found, end), (reader(), end), (reader(), begun)):
        with pytest.raises(MessagesLost, match=r"t@a:0 from offset 5 on are gone: .* \(number 1, and now 2\)"):
            latest(strict, start)
    careless = reader(failOnDataLoss="false", maxOffsetsPerTrigger="8")
    later = latest(careless, end)
    assert latest(careless, end) == later, "asked again, which is not told again"
    assert planned(careless, end, later) == [(0, 0, 4), (1, 0, 4)]
    assert planned(reader(failOnDataLoss="false"), end, later) == [(0, 0, 4), (1, 0, 4)], "when it is run again"
    assert planned(careless, later, latest(careless, later)) == [(0, 4, 8), (1, 4, 8)]
    assert sum("was deleted and created again" in one.getMessage() for one in caplog.records) == 2


def test_brokers_and_checkpoints_that_do_not_report_the_numbers_of_topics_go_on_without(cluster: FakeCluster) -> None:
    cluster.fill(5)
    cluster.topic_id = None
    found = reader(startingOffsets="earliest")
    end = latest(found, found.initialOffset())
    assert end == {"t": {"a": {"0": 5, "1": 5}}}
    cluster.topic_id = 7
    cluster.fill(1)
    later = latest(found, end)
    assert later == {"t": {"a": {"0": 6, "1": 6, "topic_id": 7}}}
    assert planned(found, end, later) == [(0, 5, 6), (1, 5, 6)]


def test_a_limited_batch_begins_behind_what_is_gone_and_is_not_spent_on_it(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.fill(1_000)
    start = {"t": {"a": {"0": 10, "1": 10}}}
    cluster.trim(FIRST, 990)
    found = reader(failOnDataLoss="false", maxOffsetsPerTrigger="40")
    end = latest(found, start)
    [first, second] = planned(found, start, end)
    assert first[1] == 990
    assert (first[2] - first[1]) + (second[2] - second[1]) == 40
    assert [one.getMessage() for one in caplog.records] == [
        "queue t@a:0: skipping 980 deleted messages from offset 10 on"
    ]
    strict = reader(maxOffsetsPerTrigger="40")
    assert planned(strict, start, latest(strict, start)) == [(0, 10, 30), (1, 10, 30)], "its tasks raise the error"


def test_an_idle_stream_asks_the_cluster_ten_times_a_second_and_not_a_hundred(cluster: FakeCluster) -> None:
    clock = Clock()
    found = reader(clock, startingOffsets="earliest", metadataPollMs="100")
    start = found.initialOffset()
    cluster.asked.clear()
    for turn in range(100):
        clock.now = turn * 0.01
        latest(found, start)
    assert len(cluster.asked) == 10 * 3  # a route, and the ends of two queues


def test_a_large_range_is_cut_for_tasks(cluster: FakeCluster) -> None:
    cluster.fill(50)
    found = reader(startingOffsets="earliest", maxRecordsPerPartition="20")
    start = found.initialOffset()
    assert planned(found, start, latest(found, start))[:3] == [(0, 0, 16), (0, 16, 33), (0, 33, 50)]


def test_what_spark_sends_to_its_executors_can_be_pickled() -> None:
    found = StreamReader(parse_options({"nameServer": "n:1", "subscribe": "t"}, streaming=True), SCHEMA)
    assert isinstance(pickle.loads(pickle.dumps(found)), StreamReader)
    found.commit({})
    found.stop()
