from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, GreaterThanOrEqual, IsNotNull

from model.absent_broker import AbsentBroker
from model.errors import ConfigError
from model.message_queue import MessageQueue
from model.topic_route import TopicConfig
from pipeline.data_source import RlabDataSource
from pipeline.source import reader as source
from pipeline.source.columns import SCHEMA
from pipeline.source.queue_reader import MessagesLost
from pipeline.source.ranges import QueueRanges
from pipeline.source.reader import resolve_offsets
from remoting.request_code import RequestCode
from tests.unit.pipeline.fake_cluster import FakeCluster, FakeQueue

OPTIONS = {"nameServer": "names:1", "subscribe": "t"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    made.fill(10)
    monkeypatch.setattr(source, "open_client", lambda options: made.client())
    return made


def reader(**more: str) -> DataSourceReader:
    return RlabDataSource({**OPTIONS, **more}).reader(schema=SCHEMA)


def planned(partitions: object) -> list[tuple[int, int, int]]:
    assert isinstance(partitions, list), "Spark refuses anything else"
    ranges = [one for part in partitions if isinstance(part, QueueRanges) for one in part.ranges]
    return [(one.queue.queue_id, one.start, one.end) for one in ranges]


def test_a_plan_has_a_range_of_each_queue_that_holds_something(cluster: FakeCluster) -> None:
    cluster.trim(next(iter(cluster.queues)), 4)
    assert planned(reader().partitions()) == [(0, 4, 10), (1, 0, 10)]
    cluster.trim(next(iter(cluster.queues)), 10)
    assert planned(reader().partitions()) == [(1, 0, 10)]


def test_an_empty_plan_is_a_list_too(cluster: FakeCluster) -> None:
    assert planned(reader(endingOffsets='{"t": {"a": {"0": 0, "1": 0}}}').partitions()) == []


def test_a_read_may_begin_behind_its_end(cluster: FakeCluster) -> None:
    begin, end = '{"t": {"a": {"0": 7, "1": 2}}}', '{"t": {"a": {"0": 5, "1": 4}}}'
    assert planned(reader(startingOffsets=begin, endingOffsets=end).partitions()) == [(1, 2, 4)]


def test_a_read_that_begins_behind_the_end_of_a_queue_is_a_loss(cluster: FakeCluster) -> None:
    begin = '{"t": {"a": {"0": 11}}}'
    with pytest.raises(MessagesLost, match="queue t@a:0 ends at 10, and offset 11 was requested"):
        reader(startingOffsets=begin).partitions()
    assert planned(reader(startingOffsets=begin, failOnDataLoss="false").partitions()) == [(1, 0, 10)]
    assert planned(reader(startingOffsets=begin.replace("11", "10")).partitions()) == [(1, 0, 10)]


def test_a_read_that_ends_behind_the_end_of_a_queue_is_not_a_loss_but_a_wrong_option(cluster: FakeCluster) -> None:
    end = '{"t": {"a": {"1": 11}}}'
    with pytest.raises(ConfigError, match="endingOffsets names offset 11 of queue t@a:1, which ends at 10"):
        reader(endingOffsets=end).partitions()
    assert planned(reader(endingOffsets=end.replace("11", "10")).partitions()) == [(0, 0, 10), (1, 0, 10)]
    assert planned(reader(endingOffsets=end, failOnDataLoss="false").partitions()) == [(0, 0, 10), (1, 0, 11)]


def test_a_time_that_is_found_behind_the_bounds_is_not_a_loss(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = cluster.answer

    def fill_first(address: str, code: RequestCode, header: Mapping[str, Any]) -> tuple[int, dict[str, Any], bytes]:
        if code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
            cluster.fill(5)
        return ask(address, code, header)

    monkeypatch.setattr(cluster, "answer", fill_first)
    found = reader(startingTimestamp="1000000", startingOffsetsByTimestampStrategy="latest")
    assert planned(found.partitions()) == []


def test_ranges_are_cut_as_the_options_say(cluster: FakeCluster) -> None:
    assert len(planned(reader(minPartitions="6").partitions())) == 6
    assert planned(reader(maxRecordsPerPartition="5").partitions()) == [(0, 0, 5), (0, 5, 10), (1, 0, 5), (1, 5, 10)]


def test_filters_make_the_read_smaller_before_executors_get_it(cluster: FakeCluster) -> None:
    found = reader(filterPushdown="true", tags="red || blue")
    kept = [GreaterThanOrEqual(("offset",), 8), IsNotNull(("tag",))]
    rest = found.pushFilters([EqualTo(("queue_id",), 1), EqualTo(("tag",), "red"), *kept])
    assert list(rest) == kept
    # Spark pickles the reader for its executors here, before it asks for the partitions.
    sent = pickle.loads(pickle.dumps(found))
    assert sent._options.tags == frozenset({"red"})
    assert planned(found.partitions()) == [(1, 8, 10)]


def test_a_tag_that_the_options_leave_out_is_not_read(cluster: FakeCluster) -> None:
    found = reader(filterPushdown="true", tags="blue")
    assert list(found.pushFilters([EqualTo(("tag",), "red")])) == []
    assert planned(found.partitions()) == []


def test_resolved_offsets_stay_where_they_were_when_messages_arrive(cluster: FakeCluster) -> None:
    resolved = resolve_offsets({**OPTIONS, "STARTINGTIMESTAMP": "3000", "tags": "red"})
    assert resolved["tags"] == "red"
    assert "STARTINGTIMESTAMP" not in resolved
    cluster.fill(5)
    assert planned(RlabDataSource(resolved).reader(schema=SCHEMA).partitions()) == [(0, 3, 10), (1, 3, 10)]


@pytest.mark.parametrize(
    "selection", [{"subscribe": "t"}, {"SubscribePattern": "t.*"}, {"assign": '{"t": {"a": [1, 0]}}'}]
)
def test_resolved_offsets_leave_out_what_appears_afterwards(cluster: FakeCluster, selection: dict[str, str]) -> None:
    resolved = resolve_offsets({"nameServer": "names:1", **selection})
    cluster.queues[MessageQueue("t", "a", 2)] = FakeQueue()
    cluster.queues[MessageQueue("t2", "a", 0)] = FakeQueue()
    cluster.fill(5)
    assert planned(RlabDataSource(resolved).reader(schema=SCHEMA).partitions()) == [(0, 0, 10), (1, 0, 10)]


def test_resolved_offsets_name_a_queue_whose_broker_went_away(cluster: FakeCluster) -> None:
    resolved = resolve_offsets(OPTIONS)
    cluster.down.add("a")
    cluster.brokers.append("b")
    cluster.queues[MessageQueue("t", "b", 0)] = FakeQueue()
    with pytest.raises(ConfigError, match="t@a:0, which does not exist, or whose broker is down"):
        RlabDataSource(resolved).reader(schema=SCHEMA).partitions()


def test_nothing_is_nothing_to_resolve(cluster: FakeCluster) -> None:
    with pytest.raises(ConfigError, match="select no queue"):
        resolve_offsets({"nameServer": "names:1", "subscribePattern": "other"})


def away(*topics: str) -> AbsentBroker:
    return AbsentBroker(
        cluster="c",
        broker_name="b",
        broker_id=0,
        address="b:1",
        away_s=6.0,
        reason="closed its connection",
        topics=tuple(TopicConfig(topic=name, read_queue_nums=2, write_queue_nums=2) for name in topics),
    )


def test_a_batch_does_not_take_the_living_half_of_a_topic_for_the_whole(cluster: FakeCluster) -> None:
    cluster.absent = [away("t", "u")]
    expected = r"away: 2 queues of t \(broker b at b:1 closed its connection 6 s ago\); set option failOnDataLoss"
    for options in ({}, {"subscribe": "", "subscribePattern": "t.*"}):
        chosen = {name: value for name, value in {**OPTIONS, **options}.items() if value}
        with pytest.raises(MessagesLost, match=expected):
            RlabDataSource(chosen).reader(schema=SCHEMA).partitions()
        with pytest.raises(MessagesLost):
            resolve_offsets(chosen)


def test_a_batch_that_may_lose_data_reads_what_is_there_and_logs_what_is_not(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.absent = [away("t")]
    assert planned(reader(failOnDataLoss="false").partitions()) == [(0, 0, 10), (1, 0, 10)]
    assert "the read skips queues that are away: 2 queues of t (broker b at b:1" in caplog.text


def test_what_is_away_of_other_topics_and_brokers_that_are_back_do_not_matter(cluster: FakeCluster) -> None:
    cluster.absent = [away("u"), replace(away("t"), broker_name="a")]
    assert planned(reader().partitions()) == [(0, 0, 10), (1, 0, 10)]


def test_an_old_name_server_cannot_report_what_is_away_and_that_is_logged(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.absent = None
    assert planned(reader().partitions()) == [(0, 0, 10), (1, 0, 10)]
    assert "name server names:1 cannot report absent brokers: too old" in caplog.text
