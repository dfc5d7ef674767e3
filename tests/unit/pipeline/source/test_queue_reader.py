from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.decode import decode_messages
from model.errors import ConnectFailed, ConnectionLost, NetworkError
from model.message import Message
from model.message_queue import MessageQueue
from pipeline.source.offsets import Range
from pipeline.source.options import parse_options
from pipeline.source.queue_reader import MessagesLost, QueueReader
from tests.unit.pipeline.fake_cluster import FakeCluster

QUEUE = MessageQueue("t", "a", 0)


def reader(
    cluster: FakeCluster,
    start: int,
    end: int,
    *,
    batch: int = 10,
    tags: frozenset[str] | None = None,
    fail_on_data_loss: bool = True,
) -> QueueReader:
    options = parse_options({"nameServer": "n:1", "subscribe": "t", "groupId": "g"}, streaming=False)
    options = replace(options, pull_batch=batch, tags=tags, fail_on_data_loss=fail_on_data_loss)
    return QueueReader(cluster.client(), Range(QUEUE, start, end), options)


def offsets(found: QueueReader) -> list[int]:
    return [message.offset for pulled in found.pulls() for message in decode_messages(QUEUE, pulled.body)]


@given(count=st.integers(1, 60), batch=st.integers(1, 20), data=st.data())
def test_a_range_is_read_whole_and_no_further(count: int, batch: int, data: st.DataObject) -> None:
    cluster = FakeCluster()
    cluster.fill(count)
    start = data.draw(st.integers(0, count))
    end = data.draw(st.integers(start, count))
    assert offsets(reader(cluster, start, end, batch=batch)) == list(range(start, end))
    assert len(cluster.pulls()) == -(-(end - start) // batch), "no pull that is not needed"


def test_the_next_pull_is_sent_before_the_last_one_is_handed_out() -> None:
    cluster = FakeCluster()
    cluster.fill(30)
    pulls = reader(cluster, 0, 30).pulls()
    next(pulls)
    assert [pull["offset"] for pull in cluster.pulls()] == [0, 10]


def test_a_read_neither_waits_at_the_broker_nor_speaks_as_a_member() -> None:
    cluster = FakeCluster()
    cluster.fill(3)
    offsets(reader(cluster, 0, 3))
    (pull,) = cluster.pulls()
    assert pull == {"group": "g", "topic": "t", "queue_id": 0, "offset": 0, "max_n": 3, "suspend_ms": 0}


def test_tags_are_skipped_by_the_broker_up_to_the_end_of_the_range() -> None:
    cluster = FakeCluster()
    cluster.put(QUEUE, *(Message("t", b"x", tags="red" if n in (3, 40) else "blue") for n in range(100)))
    assert offsets(reader(cluster, 0, 60, tags=frozenset({"red"}))) == [3, 40]
    assert offsets(reader(cluster, 4, 40, tags=frozenset({"green"}))) == []


def test_a_connection_that_breaks_is_opened_again_and_nothing_comes_twice() -> None:
    cluster = FakeCluster()
    cluster.fill(30)
    found, read = reader(cluster, 0, 30), []
    for number, pulled in enumerate(found.pulls()):
        read += [message.offset for message in decode_messages(QUEUE, pulled.body)]
        cluster.failures = 3 if number == 1 else 0
    assert read == list(range(30))
    assert cluster.waits == [0.25, 0.5, 1.0]
    assert cluster.connected.count("a:1") == 4


def test_a_range_is_read_on_at_the_next_master_of_a_set() -> None:
    cluster = FakeCluster()
    cluster.fill(30)
    pulls = reader(cluster, 0, 30).pulls()
    first = decode_messages(QUEUE, next(pulls).body)
    cluster.moved["a"] = 2
    rest = [message for pulled in pulls for message in decode_messages(QUEUE, pulled.body)]
    assert [message.offset for message in [*first, *rest]] == list(range(30))


def test_a_broker_that_stays_away_is_an_error_after_the_last_attempt() -> None:
    cluster = FakeCluster()
    cluster.fill(3)
    cluster.failures = 100
    with pytest.raises(ConnectionLost):
        offsets(reader(cluster, 0, 3))
    assert len(cluster.waits) == 3
    cluster.down.add("a")
    with pytest.raises(ConnectFailed, match="'a' is not registered"):
        offsets(reader(cluster, 0, 3))


def test_a_failure_while_sending_ahead_does_not_cost_what_arrived() -> None:
    cluster = FakeCluster()
    cluster.fill(20)
    found = reader(cluster, 0, 20)
    pulls = found.pulls()
    next(pulls)
    cluster.down.add("a")
    with pytest.raises(NetworkError):
        next(pulls)
    assert found.skipped == 0


def test_messages_that_were_deleted_are_an_error_that_names_queue_place_and_what_is_left() -> None:
    cluster = FakeCluster()
    cluster.fill(30)
    cluster.trim(QUEUE, 12)
    with pytest.raises(MessagesLost, match=r"queue t@a:0 .*offset 5 was requested, and the broker has 12 to before 30"):
        offsets(reader(cluster, 5, 30))


def test_messages_that_were_deleted_are_skipped_counted_and_reported_when_that_is_wanted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster()
    cluster.fill(30)
    cluster.trim(QUEUE, 12)
    found = reader(cluster, 5, 30, fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING):
        assert offsets(found) == list(range(12, 30))
    assert found.skipped == 7
    assert "skipping 7 messages" in caplog.text


@pytest.mark.parametrize(("begin", "end"), [(40, 50), (0, 3)])
def test_a_range_of_which_nothing_is_left_is_skipped_whole(begin: int, end: int) -> None:
    cluster = FakeCluster()
    cluster.fill(end)
    cluster.trim(QUEUE, begin)
    found = reader(cluster, 5, 30, fail_on_data_loss=False)
    assert offsets(found) == []
    assert found.skipped == 25
    with pytest.raises(MessagesLost):
        offsets(reader(cluster, 5, 30))


def test_a_queue_that_ends_too_early_is_a_loss_although_its_beginning_is_there() -> None:
    cluster = FakeCluster()
    cluster.fill(8)
    found = reader(cluster, 5, 30, fail_on_data_loss=False)
    assert offsets(found) == [5, 6, 7]
    assert found.skipped == 22
    with pytest.raises(MessagesLost, match="offset 8 was requested"):
        offsets(reader(cluster, 5, 30))


def test_pulls_join_without_a_gap_and_a_damaged_stretch_is_an_empty_one() -> None:
    cluster = FakeCluster()
    cluster.fill(30)
    cluster.damaged = {(QUEUE, offset) for offset in range(10, 20)}
    found = [(len(decode_messages(QUEUE, one.body)), one.start, one.end) for one in reader(cluster, 5, 30).pulls()]
    assert found == [(5, 5, 15), (5, 15, 25), (5, 25, 30)]
    cluster.damaged |= {(QUEUE, offset) for offset in range(5, 10)}
    found = [(len(decode_messages(QUEUE, one.body)), one.start, one.end) for one in reader(cluster, 5, 30).pulls()]
    assert found == [(0, 5, 15), (5, 15, 25), (5, 25, 30)]


def test_a_topic_that_was_deleted_is_a_loss() -> None:
    cluster = FakeCluster()
    del cluster.queues[QUEUE]
    with pytest.raises(MessagesLost, match="t@a:0"):
        offsets(reader(cluster, 0, 4))
    found = reader(cluster, 0, 4, fail_on_data_loss=False)
    assert offsets(found) == []
    assert found.skipped == 4
