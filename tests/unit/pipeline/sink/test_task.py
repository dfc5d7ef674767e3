"""A task's rows reach their queues, or are staged under its attempt, in requests that a broker takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgpack
import pyarrow as pa
import pytest

from model.absent_broker import AbsentBroker
from model.errors import ConnectFailed, IllegalOperation, MessageIllegal, TopicNotExist
from model.limits import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES
from model.topic_route import TopicConfig
from pipeline.sink.options import parse_sink_options
from pipeline.sink.task import SinkTask, StageId
from remoting.request_code import RequestCode
from tests.unit.pipeline.fake_cluster import FakeCluster

STAGE = StageId("q", 7, 1, 99)
Bodies = Sequence[bytes]
OPTIONS = parse_sink_options({"nameServer": "h:1", "topic": "t"})


def write(
    cluster: FakeCluster, *batches: Bodies, stage: StageId | None = None, is_repeatable: bool = False
) -> SinkTask:
    task = SinkTask(cluster.client(), OPTIONS, stage, "0" * 16, lambda: 5.0, is_repeatable=is_repeatable)
    for bodies in batches:
        task.add(pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary())], names=["body"]))
    task.finish()
    return task


def body_of(payload: bytes) -> Any:
    unpacked: Any = msgpack.unpackb(payload)
    return unpacked[1]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_at_least_once_each_queue_gets_its_messages_in_order() -> None:
    cluster = FakeCluster("a", "b", queues=2)
    task = write(cluster, numbered(6), numbered(6))
    found = {(broker, header["queue_id"]): body for broker, _, header, body in cluster.written}
    assert len(cluster.written) == 4, "small batches of Spark's are gathered"
    assert [body_of(payload) for _, payload in found[("a", 0)]] == [b"0", b"4", b"2"]
    assert {code for _, code, _, _ in cluster.written} == {RequestCode.SEND_BATCH_MESSAGE}
    assert task.rows == {"a": 6, "b": 6}


def test_exactly_once_chunks_are_numbered_under_the_attempt_and_counted() -> None:
    cluster = FakeCluster("a", "b", queues=3)
    task = write(cluster, numbered(3 * MAX_BATCH_MESSAGES), stage=STAGE)
    of_broker: dict[str, list[Any]] = {"a": [], "b": []}
    for broker, code, header, body in cluster.written:
        assert code is RequestCode.SINK_STAGE
        assert header == {**STAGE._asdict(), "seq": header["seq"]}
        of_broker[broker].append((header["seq"], len(body)))
        assert {message[:3] for message in body} <= {("t", queue_id, 0) for queue_id in range(3)}
    for name, chunks in of_broker.items():
        assert [seq for seq, _ in chunks] == list(range(len(chunks)))
        assert sum(n for _, n in chunks) == task.rows[name]
        assert max(n for _, n in chunks) <= MAX_BATCH_MESSAGES
    assert sum(task.rows.values()) == 3 * MAX_BATCH_MESSAGES


def test_exactly_once_the_rows_of_a_queue_lie_together_in_a_chunk_in_their_order() -> None:
    cluster = FakeCluster("a", "b", queues=3)
    write(cluster, numbered(60), stage=STAGE)
    for *_, body in cluster.written:
        assert [queue_id for _, queue_id, _, _ in body] == sorted(queue_id for _, queue_id, _, _ in body)
        for queue_id in range(3):
            of_queue = [int(body_of(payload)) for _, to, _, payload in body if to == queue_id]
            assert of_queue == sorted(of_queue) != []


def test_large_messages_go_in_requests_of_their_own() -> None:
    cluster = FakeCluster("a", queues=1)
    write(cluster, [b"x" * 400_000] * 5 + [b"y" * 3_000_000] * 2)
    sizes = [[len(payload) for _, payload in body] for *_, body in cluster.written]
    assert [len(one) for one in sizes] == [2, 2, 1, 1, 1]
    assert all(len(one) == 1 or sum(one) <= MAX_BATCH_BYTES for one in sizes)


def test_a_broker_that_restarts_is_waited_for_and_one_that_stays_away_is_an_error() -> None:
    cluster = FakeCluster("a")
    waits, cluster.down = cluster.waits, {"a"}

    class Restarting(list[float]):
        def append(self, seconds: float) -> None:
            super().append(seconds)
            cluster.down.clear()

    cluster.waits = Restarting()
    assert write(cluster, numbered(3)).rows == {"a": 3}
    cluster.down, cluster.waits = {"a"}, waits
    with pytest.raises(ConnectFailed, match="topic 't' has no queue that can be written"):
        write(cluster, numbered(3))
    assert waits == [0.25, 0.5, 1.0]


def write_to(cluster: FakeCluster, topic: str, options: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write a row whose column names this topic; option topic is used in its place."""
    parsed = parse_sink_options({"nameServer": "h:1", **options})
    batch = pa.RecordBatch.from_pydict({"body": pa.array([b"x"], pa.binary()), "topic": [topic]})
    SinkTask(cluster.client(), parsed, None, "0" * 16, lambda: 5.0).add(batch)


def test_a_topic_that_no_broker_has_is_refused_at_once_and_by_the_name_of_its_source() -> None:
    cluster = FakeCluster("a")
    with pytest.raises(TopicNotExist, match="column topic names, in a row, topic 'nowhere', which does not exist"):
        write_to(cluster, "nowhere")
    with pytest.raises(TopicNotExist, match="option topic names topic 'gone', which does not exist"):
        write_to(cluster, "t", {"topic": "gone"})
    assert (cluster.waits, cluster.written) == ([], [])


def test_a_topic_of_a_broker_that_is_away_without_unregistering_is_waited_for() -> None:
    cluster = FakeCluster("a", "b")
    cluster.absent = [
        AbsentBroker(
            cluster="c",
            broker_name="z",
            broker_id=0,
            address="z:1",
            away_s=1.0,
            reason="was silent",
            topics=(TopicConfig(topic="far", read_queue_nums=1, write_queue_nums=1),),
        )
    ]
    with pytest.raises(ConnectFailed, match="topic 'far' has no queue that can be written"):
        write_to(cluster, "far")
    assert cluster.waits == [0.25, 0.5, 1.0]


def test_nothing_of_a_batch_with_a_bad_row_is_sent() -> None:
    cluster = FakeCluster("a")
    with pytest.raises(MessageIllegal):
        write(cluster, [b"x", b""])
    assert cluster.written == []


def test_no_rows_need_no_broker() -> None:
    cluster = FakeCluster("a")
    assert write(cluster, []).rows == {}
    assert cluster.asked == []


def test_a_batch_that_may_be_repeated_goes_to_the_brokers_of_its_first_run() -> None:
    first, again = FakeCluster("a", "b"), FakeCluster("a", "b", "c")
    rows = numbered(50)
    of_first = brokers_of_bodies(first, write(first, rows, stage=STAGE, is_repeatable=True))
    assert first.broker_sets == {"a": ["a", "b"], "b": ["a", "b"]}
    again.broker_sets = {"a": ["a", "b"], "b": ["a", "b"]}
    assert brokers_of_bodies(again, write(again, rows[25:], rows[:25], stage=STAGE, is_repeatable=True)) == of_first
    assert "c" not in again.broker_sets


def test_a_batch_waits_for_a_broker_of_its_first_run() -> None:
    cluster = FakeCluster("a", "b")
    cluster.down, cluster.broker_sets = {"b"}, {"a": ["a", "b"]}
    with pytest.raises(ConnectFailed, match="broker 'b' is not registered"):
        write(cluster, numbered(9), stage=STAGE, is_repeatable=True)
    assert cluster.written == []


def test_brokers_that_do_not_agree_are_an_error_and_not_asked_for_ever() -> None:
    cluster = FakeCluster("a", "b")
    cluster.broker_sets = {"a": ["b"], "b": ["a"]}
    with pytest.raises(IllegalOperation, match="brokers do not agree on the broker set of batch 7"):
        write(cluster, numbered(9), stage=STAGE, is_repeatable=True)


def brokers_of_bodies(cluster: FakeCluster, task: SinkTask) -> dict[bytes, str]:
    assert len(task.rows) == 2
    return {body_of(message[3]): broker for broker, _, _, body in cluster.written for message in body}


def test_a_row_with_a_delay_goes_in_a_request_of_its_own_and_not_exactly_once() -> None:
    cluster = FakeCluster(queues=1)
    columns = {"body": pa.array([b"now", b"later"], pa.binary()), "delay": pa.array([None, 60_000], pa.int64())}
    batch = pa.RecordBatch.from_pydict(columns)
    task = SinkTask(cluster.client(), OPTIONS, None, "0" * 16, lambda: 5.0)
    task.add(batch)
    task.finish()
    (_, later, header, payload), (_, now, _, messages) = cluster.written
    assert (later, now) == (RequestCode.SEND_MESSAGE, RequestCode.SEND_BATCH_MESSAGE)
    assert header == {"topic": "t", "queue_id": 0, "tag_hash": 0, "delay_ms": 60_000}
    assert (payload[1], [body_of(one) for _, one in messages], task.rows) == (b"later", [b"now"], {"a": 2})
    with pytest.raises(MessageIllegal, match="with exactlyOnce all rows of a batch are published together"):
        SinkTask(cluster.client(), OPTIONS, STAGE, "0" * 16, lambda: 5.0).add(batch)
