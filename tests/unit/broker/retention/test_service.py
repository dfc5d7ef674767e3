"""What a running broker deletes and keeps, and what it says about it."""

from __future__ import annotations

import errno
import logging
import os
from typing import Any

import pytest

from broker.broker import Broker
from broker.durability.metadata import Table
from broker.retention.plan import RetentionOptions
from broker.store.disk.options import StoreOptions
from model.events import EventKind
from model.heartbeat import ConsumeFrom
from model.limits import MAX_SEGMENTS_PER_TRIM, RETENTION_INTERVAL_S
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from tests.unit.broker.harness import FailingDisk, Peer, World, ask, consumer, payload_of, records, simulated
from tests.unit.broker.transactions.test_service import half

SEGMENT_BYTES = 1_000
HOUR_MS = 3600 * 1000
BODY = b"x" * 100
READER: dict[str, Any] = {"consume_from": ConsumeFrom.FIRST_OFFSET, "session_timeout_s": 3600.0}


async def started(world: World, **limits: int | None) -> Broker:
    """A broker with segments of about five messages behind the names of its topics, and these limits only."""
    retention = RetentionOptions(**{"retain_ms": None, **limits})
    return await world.start_broker(store=StoreOptions(segment_bytes=SEGMENT_BYTES), retention=retention)


async def filled(world: World, count: int = 30) -> Peer:
    peer = world.peer("a")
    await peer.put_topic(read=1)
    await send(peer, count)
    return peer


async def send(peer: Peer, count: int) -> None:
    for _ in range(count):
        await peer.send(body=BODY)


async def send_later(peer: Peer, delay_ms: int, topic: str = "t", body: bytes = b"later") -> None:
    header = {"topic": topic, "queue_id": 0, "tag_hash": 0, "delay_ms": delay_ms}
    await peer.call(RequestCode.SEND_MESSAGE, header, payload_of(body))


def low(broker: Broker, topic: str = "t") -> int:
    return broker.store.min_offset(broker.topics.table.existing(topic).topic_id, 0)


async def pull_moved(peer: Peer, offset: int, **fields: Any) -> tuple[int, int]:
    answer = await peer.pull(offset=offset, **fields)
    return answer.code, answer.header["next_offset"]


@simulated
async def test_what_is_older_than_its_time_is_deleted_and_said(world: World, caplog: pytest.LogCaptureFixture) -> None:
    broker = await started(world, retain_ms=HOUR_MS)
    peer = await filled(world, 32)
    await world.sleep(1800)
    assert low(broker) == 0
    await world.sleep(1900)
    with caplog.at_level(logging.INFO):
        await world.sleep(RETENTION_INTERVAL_S)
    deleted = low(broker)
    assert 20 < deleted < 32  # what is in the segment being written stays
    [event] = world.of_kind(EventKind.MESSAGES_DELETED)
    assert (event.broker, event.n, event.detail) == ("broker-a", deleted, "age")
    [first, *_] = records(await peer.pull(offset=deleted))
    assert first.queue_offset == deleted


@pytest.mark.parametrize("restart", [False, True])
@simulated
async def test_a_clock_that_jumps_ahead_deletes_nothing_before_its_time(
    world: World, caplog: pytest.LogCaptureFixture, restart: bool
) -> None:
    ahead_ms = 0.0
    options: dict[str, Any] = {
        "clock_ms": lambda: world.simulation.clock_ms() + ahead_ms,
        # Not SEGMENT_BYTES: the last message would end its segment, and nothing of the topic be left in an open one.
        "store": StoreOptions(segment_bytes=SEGMENT_BYTES + 100),
        "retention": RetentionOptions(retain_ms=HOUR_MS),
    }
    broker = await world.start_broker(**options)
    peer = await filled(world, 32)
    await world.sleep(60)
    if restart:
        await world.stop_broker()
    ahead_ms = 90 * 24 * HOUR_MS
    if restart:
        broker = await world.start_broker(**options)
    await world.sleep(1800)
    await send(peer, 32)
    assert low(broker) == 0
    assert "the clock shows 2160.0 hours more than it should" in caplog.text
    await world.sleep(1800)
    assert 20 < low(broker) <= 32, "an hour old, on either clock"
    await world.sleep(1800 + RETENTION_INTERVAL_S)
    assert 50 < low(broker) < 64


@simulated
async def test_a_log_that_is_too_long_is_cut_as_soon_as_a_segment_is_finished(world: World) -> None:
    broker = await started(world, retain_bytes=4 * SEGMENT_BYTES)
    await filled(world, 100)
    await world.sleep(2.5)  # two looks: so many segments are not removed at once
    span = broker.store.spans()
    assert span[-1].end_position - span[0].base_position <= 4 * SEGMENT_BYTES
    assert {event.detail for event in world.of_kind(EventKind.MESSAGES_DELETED)} == {"size"}


@simulated
async def test_a_group_that_has_still_to_read_holds_back_what_it_needs_and_that_is_said_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await started(world, retain_ms=1)
    peer = await filled(world)
    await peer.heartbeat(consumer("g", **READER))
    await peer.commit(10)
    with caplog.at_level(logging.WARNING):
        await world.sleep(50)
    assert 0 < low(broker) <= 10
    assert records(await peer.pull(offset=10))[0].queue_offset == 10
    [warning] = caplog.messages
    assert "group 'g' has still to read topic 't' from offset 10 on, and holds back" in warning
    assert "rlab group delete g" in warning
    await peer.commit(30)
    await world.sleep(RETENTION_INTERVAL_S + 1)
    assert low(broker) > 20
    assert {event.detail for event in world.of_kind(EventKind.MESSAGES_DELETED)} == {"age"}


@simulated
async def test_beyond_the_hard_limit_the_group_is_notified_where_it_goes_on_and_what_it_missed(world: World) -> None:
    broker = await started(world, retain_ms=1, retain_bytes_max=3 * SEGMENT_BYTES)
    peer = await filled(world, 10)
    await peer.heartbeat(consumer("g", **READER))
    await peer.commit(1)
    await world.sleep(20)
    assert low(broker) == 0
    await send(peer, 60)
    await world.sleep(20)
    moved_to = low(broker)
    assert 40 < moved_to < 70
    for _ in range(3):
        assert await pull_moved(peer, 1, client_id="c1") == (ResponseCode.PULL_OFFSET_MOVED, moved_to)
    [event] = world.of_kind(EventKind.OFFSET_MOVED)
    assert (event.group, event.topic, event.queue_id, event.client) == ("g", "t", 0, "c1")
    assert (event.offset, event.n, event.detail) == (moved_to, moved_to - 1, "deleted")
    deletions = world.of_kind(EventKind.MESSAGES_DELETED)
    assert event.cause == deletions[-1].cause
    assert deletions[-1].detail == "hard limit"
    assert sum(each.n for each in deletions) == moved_to


@simulated
async def test_a_message_that_waits_for_its_time_outlives_even_the_hard_limit(world: World) -> None:
    broker = await started(world, retain_ms=1, retain_bytes_max=2 * SEGMENT_BYTES)
    peer = world.peer("a")
    await peer.put_topic(read=1)
    await send_later(peer, 100_000)
    await send(peer, 60)
    await world.sleep(50)
    assert low(broker) > 50, "its copy at the end of the log waits, and nothing keeps what was behind it"
    await send(peer, 60)
    await world.sleep(40)
    assert low(broker) > 100, "and a copy is copied again"
    await world.stop_broker()
    broker = await started(world, retain_ms=1, retain_bytes_max=2 * SEGMENT_BYTES)
    await world.sleep_until(101)
    [delivered] = records(await peer.pull(offset=120))
    assert delivered.payload == payload_of(b"later")
    assert len(broker.delays) == 0


FORTY_DAYS_MS = 40 * 24 * HOUR_MS


@simulated
async def test_a_message_delayed_by_forty_days_is_named_as_the_holder_and_goes_with_its_topic(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await started(world, retain_ms=1)
    peer = world.peer("a")
    await peer.put_topic("bills", read=1)
    await send_later(peer, FORTY_DAYS_MS, "bills")
    await filled(world)
    await peer.heartbeat(consumer("g", **READER))
    await peer.commit(10)
    with caplog.at_level(logging.WARNING):
        await world.sleep(60)
    assert low(broker) == 0
    [warning] = caplog.messages
    assert "a message for topic 'bills' that is delayed until 2024-02-10 00:00:00 UTC holds back" in warning
    info = await ask(peer, RequestCode.GET_BROKER_RUNTIME_INFO)
    assert info["log_held_bytes"] > SEGMENT_BYTES
    assert info["log_held_by"] in warning
    caplog.clear()
    await peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "bills"})
    await world.sleep(60)
    assert 0 < low(broker) <= 10
    dropped, of_group = caplog.messages
    assert "1 delayed messages for topic 'bills' are dropped: the topic was deleted" in dropped
    assert "group 'g' has still to read topic 't' from offset 10 on, and holds back" in of_group
    await peer.commit(30)
    await world.sleep(RETENTION_INTERVAL_S + 1)
    assert (await ask(peer, RequestCode.GET_BROKER_RUNTIME_INFO)).get("log_held_by") is None


@simulated
async def test_delayed_messages_of_a_deleted_topic_do_not_come_to_one_that_is_recreated_under_its_name(
    world: World,
) -> None:
    await started(world)
    peer = world.peer("a")
    for broker_run in range(2):
        await peer.put_topic(read=1)
        await send_later(peer, 60_000, body=b"%d" % broker_run)
        if broker_run == 0:
            await peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    await world.stop_broker()
    broker = await started(world)
    assert len(broker.delays) == 1
    await world.sleep(61)
    assert [record.payload for record in records(await peer.pull())] == [payload_of(b"1")]


@simulated
async def test_what_was_delayed_for_a_topic_that_was_deleted_just_before_a_crash_goes_at_the_start(
    world: World,
) -> None:
    broker = await started(world)
    peer = world.peer("a")
    await peer.put_topic(read=1)
    await send_later(peer, FORTY_DAYS_MS)
    broker.topics.table.delete("t")  # as if the mark had not reached the log
    Table(broker.metadata, "topics", replicated=True).delete("t")
    await world.stop_broker()
    broker = await started(world)
    await world.sleep(1)
    assert len(broker.delays) == 0


@simulated
async def test_a_log_that_is_full_of_delayed_messages_is_not_copied_again_and_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await started(world, retain_bytes_max=2 * SEGMENT_BYTES)
    peer = world.peer("a")
    await peer.put_topic(read=1)
    for _ in range(60):
        await send_later(peer, FORTY_DAYS_MS)
    await world.sleep(60)
    written = broker.store.written_position
    await world.sleep(600)
    assert broker.store.written_position == written
    assert len(broker.delays) == 60
    assert "a message for topic 't' that is delayed until" in caplog.text


@simulated
async def test_copies_that_find_no_room_leave_the_messages_that_wait_as_they_are(world: World) -> None:
    disk = FailingDisk()
    store = StoreOptions(segment_bytes=SEGMENT_BYTES)
    limits = RetentionOptions(retain_ms=1, retain_bytes_max=2 * SEGMENT_BYTES)
    broker = await world.start_broker(store=store, retention=limits, files=disk)
    peer = world.peer("a")
    await peer.put_topic(read=1)
    await send_later(peer, 60_000)
    await send(peer, 60)
    disk.errno = errno.EIO
    await world.sleep(50)
    assert (low(broker), len(broker.delays)) == (0, 1)
    await world.sleep(20)
    disk.errno = None
    await world.sleep(5)
    assert [record.payload for record in records(await peer.pull(offset=60))] == [payload_of(b"later")]
    assert len(broker.delays) == 0


@simulated
async def test_an_open_transaction_is_named_as_the_holder_with_its_producer_group(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await started(world, retain_ms=1)
    peer = world.peer("a")
    await peer.put_topic("bills", read=1)
    await half(peer, "one", topic="bills", group="pays")
    await filled(world)
    await world.sleep(30)
    assert low(broker) == 0
    assert (
        "a half message of producer group 'pays' for topic 'bills', whose transaction is open, holds back"
        in caplog.text
    )


@simulated
async def test_after_a_restart_nothing_that_was_deleted_is_back_and_a_group_still_holds_its_part(world: World) -> None:
    await started(world, retain_ms=1)
    peer = await filled(world)
    await peer.heartbeat(consumer("g", **READER))
    await peer.commit(10)
    await world.sleep(15)
    before = low(world.broker)
    await world.stop_broker()
    broker = await started(world, retain_ms=1)
    assert low(broker) == before > 0
    await world.sleep(60)
    assert low(broker) == before
    assert records(await peer.pull(offset=10))[0].queue_offset == 10


@simulated
async def test_an_index_that_cannot_be_read_deletes_nothing_that_may_be_needed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FailingDisk()
    store = StoreOptions(segment_bytes=SEGMENT_BYTES, index_cache_bytes=0)
    broker = await world.start_broker(files=disk, store=store, retention=RetentionOptions(retain_ms=1))
    peer = await filled(world)
    await peer.heartbeat(consumer("g", **READER))
    await peer.commit(10)
    disk.read_errno = errno.EIO
    await world.sleep(15)
    assert low(broker) == 0
    assert "needed offsets could not be read: cannot read" in caplog.text
    disk.read_errno = None
    await world.sleep(RETENTION_INTERVAL_S)
    assert low(broker) > 0


@simulated
async def test_a_backlog_of_old_files_goes_in_small_steps_and_no_descriptor_stays_open(world: World) -> None:
    broker = await started(world, retain_ms=HOUR_MS)
    await filled(world, 300)
    count = len(broker.store.spans())
    assert count > 2 * MAX_SEGMENTS_PER_TRIM
    open_before = len(os.listdir("/proc/self/fd"))
    await world.sleep(3600 + 2 * RETENTION_INTERVAL_S)
    assert len(broker.store.spans()) == 1
    assert len(world.of_kind(EventKind.MESSAGES_DELETED)) == -(-(count - 1) // MAX_SEGMENTS_PER_TRIM)
    assert len(os.listdir("/proc/self/fd")) <= open_before
