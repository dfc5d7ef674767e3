from __future__ import annotations

import pytest

from model.errors import ConfigError
from model.message_queue import MessageQueue
from pipeline.source.offsets import Bounds
from pipeline.source.options import parse_options
from pipeline.source.planner import Planner
from tests.unit.pipeline.fake_cluster import FakeCluster, FakeQueue


def planner(cluster: FakeCluster, **options: str) -> Planner:
    base = {"nameServer": "names:1"}
    return Planner(cluster.client(), parse_options({**base, **options}, streaming=False))


def names(queues: list[MessageQueue]) -> list[str]:
    return [str(queue) for queue in queues]


def test_the_queues_of_named_topics_are_those_of_all_their_brokers() -> None:
    cluster = FakeCluster("b", "a")
    cluster.queues[MessageQueue("u", "a", 0)] = FakeQueue()
    assert names(planner(cluster, subscribe="t").queues(all_must_exist=True)) == ["t@a:0", "t@a:1", "t@b:0", "t@b:1"]
    assert len(planner(cluster, subscribe="u, t").queues(all_must_exist=True)) == 5


def test_a_topic_that_is_not_there_is_named_beside_those_that_are() -> None:
    cluster = FakeCluster()
    cluster.queues[MessageQueue("%RETRY%g", "a", 0)] = FakeQueue()
    found = planner(cluster, subscribe="orders")
    with pytest.raises(ConfigError, match=r"topic 'orders' does not exist.*there are t$"):
        found.queues(all_must_exist=True)
    assert found.queues(all_must_exist=False) == []


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (".*", ["orders", "orders2", "t"]),
        ("orders", ["orders"]),
        ("orders.?", ["orders", "orders2"]),
        ("%DLQ%.*", ["%DLQ%g"]),
        ("SYS.*", []),
        ("none", []),
    ],
)
def test_a_pattern_matches_whole_names_and_leaves_out_what_the_cluster_keeps_for_itself(
    pattern: str, expected: list[str]
) -> None:
    cluster = FakeCluster()
    for topic in ("orders", "orders2", "%DLQ%g", "%RETRY%g", "SYS_TRACE", "TBW102"):
        cluster.queues[MessageQueue(topic, "a", 0)] = FakeQueue()
    found = planner(cluster, subscribePattern=pattern).queues(all_must_exist=True)
    assert sorted({queue.topic for queue in found}) == expected


def test_assigned_queues_have_to_exist_at_first_and_may_be_away_later() -> None:
    cluster = FakeCluster()
    found = planner(cluster, assign='{"t": {"a": [1], "b": [0]}}')
    with pytest.raises(ConfigError, match="assign names t@b:0, which does not exist"):
        found.queues(all_must_exist=True)
    assert names(found.queues(all_must_exist=False)) == ["t@a:1"]


def test_the_positions_of_many_queues_are_asked_at_once() -> None:
    cluster = FakeCluster("a", "b", queues=600)
    cluster.fill(2)
    cluster.trim(MessageQueue("t", "b", 7), 1)
    found = planner(cluster, subscribe="t")
    bounds = found.bounds(found.queues(all_must_exist=True))
    assert len(bounds) == 1_200
    assert bounds[MessageQueue("t", "b", 7)] == Bounds(1, 2)
    assert cluster.connected == ["names:1", "a:1", "b:1"]


def test_positions_are_numbers_earliest_or_latest() -> None:
    first, second, third = (MessageQueue("t", "a", number) for number in range(3))
    bounds = dict.fromkeys((first, second, third), Bounds(5, 9))
    found = planner(FakeCluster(), subscribe="t", endingOffsets='{"t": {"a": {"0": 7, "1": -1}}}')
    end = parse_options(
        {"nameServer": "a:1", "subscribe": "t", "endingOffsets": '{"t": {"a": {"0": 7, "1": -1}}}'}, streaming=False
    ).end
    assert found.resolve(end, bounds, "endingOffsets") == {first: 7, second: 9, third: 9}
    start = parse_options(
        {"nameServer": "a:1", "subscribe": "t", "startingOffsets": '{"t": {"a": {"0": 7, "1": -2}}}'}, streaming=False
    ).start
    assert found.resolve(start, bounds, "startingOffsets") == {first: 7, second: 5, third: 5}
    with pytest.raises(ConfigError, match="startingOffsets names t@a:0, which is not among the 0 queues"):
        found.resolve(start, {}, "startingOffsets")


def test_a_timestamp_is_the_first_message_stored_since() -> None:
    cluster = FakeCluster(queues=1)
    cluster.fill(10)  # stored at second 0, 1, 2, ...
    queue = MessageQueue("t", "a", 0)
    options = {"nameServer": "names:1", "subscribe": "t"}
    found, bounds = planner(cluster, subscribe="t"), {queue: Bounds(0, 10)}

    def start(**more: str) -> dict[MessageQueue, int]:
        position = parse_options({**options, **more}, streaming=False).start
        return found.resolve(position, bounds, "startingOffsets")

    assert start(startingTimestamp="4000") == {queue: 4}
    with pytest.raises(ConfigError, match="t@a:0 has no message stored at or after 60000"):
        start(startingTimestamp="60000")
    assert start(startingTimestamp="60000", startingOffsetsByTimestampStrategy="latest") == {queue: 10}
    of_queue = {"startingOffsetsByTimestamp": '{"t": {"a": {"0": 7000}}}'}
    assert start(**of_queue) == start(**of_queue, startingTimestamp="4000") == {queue: 7}
    with pytest.raises(ConfigError, match="option startingOffsetsByTimestamp: t@a:0 has no message stored at or after"):
        start(startingOffsetsByTimestamp='{"t": {"a": {"0": 60000}}}')
    with pytest.raises(ConfigError, match="option startingOffsetsByTimestamp names t@a:9, which is not among the 1"):
        start(startingOffsetsByTimestamp='{"t": {"a": {"9": 7}}}')
    ending = parse_options({**options, "endingOffsetsByTimestamp": '{"t": {"a": {"0": 8000}}}'}, streaming=False).end
    assert found.resolve(ending, bounds, "endingOffsets") == {queue: 8}
    end = parse_options({**options, "endingTimestamp": "60000"}, streaming=False).end
    assert found.resolve(end, bounds, "endingOffsets") == {queue: 10}


def test_a_read_begins_where_a_group_has_committed_and_elsewhere_as_the_other_options_say() -> None:
    cluster = FakeCluster(queues=3)
    cluster.fill(10)
    first, second, third = sorted(cluster.queues)
    cluster.committed = {("billing", first): 4, ("billing", second): 0}
    options = {"nameServer": "names:1", "subscribe": "t"}
    found, bounds = planner(cluster, subscribe="t"), dict.fromkeys(cluster.queues, Bounds(0, 10))

    def start(**more: str) -> dict[MessageQueue, int]:
        position = parse_options({**options, **more}, streaming=True).start
        return found.resolve(position, bounds, "startingOffsets")

    assert start(startingGroup="billing") == {first: 4, second: 0, third: 10}
    assert start(startingGroup="billing", startingTimestamp="7000") == {first: 4, second: 0, third: 7}
    with pytest.raises(ConfigError, match="option startingGroup: group 'biling' has committed no offset"):
        start(startingGroup="biling")
