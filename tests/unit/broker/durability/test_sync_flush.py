"""A broker with `flush = sync`, through its real handlers: what it answers when, and what a disk that fails does."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from broker.broker import Broker
from broker.durability.background_sync import SYNC_INTERVAL_S
from model.errors import FlushDiskTimeout, RlabError, ServiceNotAvailable, StorageFull
from model.record import FlushMode
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from tests.unit.broker.harness import ROUND_TRIP_S, FailingDisk, Peer, World, consumer, payload_of, records, simulated

SYNC_S = 2**-4
"""How long a sync takes here; exact in binary."""
SEND: dict[str, Any] = {"topic": "t", "queue_id": 0, "tag_hash": 0}


async def start(world: World, disk: FailingDisk | None = None) -> tuple[Broker, Peer]:
    """A broker with a topic and a member's connection, from now on with slow syncs."""
    broker = await world.start_broker(flush=FlushMode.SYNC, **({} if disk is None else {"files": disk}))
    peer = world.peer("a")
    await peer.put_topic()
    world.simulation.loop.blocking_s = SYNC_S
    return broker, peer


async def code_of(peer: Peer, **fields: Any) -> int:
    return (await (await peer.begin(RequestCode.SEND_MESSAGE, {**SEND, **fields}, payload_of(b"m")))).code


@simulated
async def test_a_lone_send_is_answered_after_one_sync_and_waits_for_no_timer(world: World) -> None:
    broker, a = await start(world)
    before = world.now
    await a.send()
    assert world.now - before == SYNC_S + ROUND_TRIP_S < SYNC_INTERVAL_S
    assert broker.store.synced_position == broker.store.written_position


@simulated
async def test_sends_that_come_during_a_sync_share_the_next_one(world: World) -> None:
    _, a = await start(world)
    first = await a.begin(RequestCode.SEND_MESSAGE, SEND, payload_of(b"0"))
    await world.sleep(SYNC_S / 2)
    before = world.now
    rest = [await a.begin(RequestCode.SEND_MESSAGE, SEND, payload_of(b"%d" % n)) for n in range(1, 64)]
    assert (await first).header["offset"] == 0
    assert [(await each).header["offset"] for each in rest] == [*range(1, 64)]
    assert world.now - before <= 2 * SYNC_S + ROUND_TRIP_S


@simulated
async def test_a_consumer_sees_a_message_only_once_it_is_durable(world: World) -> None:
    broker, a = await start(world)
    b = world.peer("b")
    held = await b.begin_pull(suspend_ms=5_000)
    sent = await a.begin(RequestCode.SEND_MESSAGE, SEND, payload_of(b"m"))
    await world.sleep(SYNC_S / 2)
    assert broker.store.written_position > broker.store.synced_position
    assert (await b.pull()).code == ResponseCode.PULL_NOT_FOUND
    assert broker.store.max_offset(broker.topics.table.existing("t").topic_id, 0) == 0
    assert not sent.done()
    assert len(records(await held)) == 1


@simulated
async def test_delayed_messages_and_send_backs_are_answered_after_a_sync_too(world: World) -> None:
    _, a = await start(world)
    before = world.now
    assert await code_of(a, delay_ms=1_000) == 0
    assert world.now - before == SYNC_S + ROUND_TRIP_S
    await a.send()
    before = world.now
    header = {"group": "g", "topic": "t", "queue_id": 0, "offset": 0, "delay_ms": 100, "max_attempts": 16}
    await a.call(RequestCode.CONSUMER_SEND_MSG_BACK, header)
    assert world.now - before == SYNC_S + ROUND_TRIP_S


@simulated
async def test_requests_that_write_no_message_begin_no_sync(world: World) -> None:
    disk = FailingDisk()
    _, a = await start(world, disk)
    await a.heartbeat(consumer())
    await a.send()
    disk.sync_errno = errno.EIO  # a sync from now on would make the store read-only
    assert await a.commit(1) == []
    await a.heartbeat(consumer())
    await a.put_topic("u")
    await world.sleep(1)
    disk.sync_errno = None
    assert await a.send() == 1


@simulated
async def test_what_waits_is_synced_and_answered_when_the_broker_stops(world: World) -> None:
    _, a = await start(world)
    waiting = [await a.begin(RequestCode.SEND_MESSAGE, SEND, payload_of(b"m")) for _ in range(3)]
    await world.sleep(SYNC_S / 2)
    await world.stop_broker()
    assert [(await each).header["offset"] for each in waiting] == [0, 1, 2]
    await world.start_broker()
    assert len(records(await world.peer("b").pull())) == 3


@simulated
async def test_after_a_failed_sync_nothing_is_acknowledged_while_pulls_and_commits_go_on(world: World) -> None:
    disk = FailingDisk()
    broker, a = await start(world, disk)
    await a.send()
    disk.sync_errno = errno.EIO
    waiting = [await a.begin(RequestCode.SEND_MESSAGE, SEND, payload_of(b"m")) for _ in range(2)]
    await world.sleep(SYNC_S / 2)
    waiting += [await a.begin(RequestCode.SEND_MESSAGE, SEND, payload_of(b"m")) for _ in range(2)]
    assert [(await each).code for each in waiting] == [ResponseCode.FLUSH_DISK_TIMEOUT] * 4
    assert FlushDiskTimeout.definite is False
    disk.sync_errno = None  # the system reports success for what it has forgotten
    assert await code_of(a) == ResponseCode.SERVICE_NOT_AVAILABLE
    assert await code_of(a, delay_ms=1_000) == ResponseCode.SERVICE_NOT_AVAILABLE
    with pytest.raises(ServiceNotAvailable, match="restart the broker"):
        await a.send()
    assert len(records(await a.pull())) == 1
    assert await a.commit(1) == []
    assert await a.committed() == 1
    await a.put_topic("u")
    await world.stop_broker()
    world.simulation.loop.blocking_s = 0.0
    broker = await world.start_broker(flush=FlushMode.SYNC)
    b = world.peer("b")
    end_offset = broker.store.max_offset(broker.topics.table.existing("t").topic_id, 0)
    assert end_offset >= 1
    assert await b.send() == end_offset


@pytest.mark.parametrize("flush", list(FlushMode))
@simulated
async def test_a_full_disk_refuses_sends_while_the_rest_goes_on_and_sends_resume_with_room(
    world: World, flush: FlushMode
) -> None:
    disk = FailingDisk()
    await world.start_broker(flush=flush, files=disk)
    a = world.peer("a")
    assert await a.send() == 0
    for number in (errno.ENOSPC, errno.EDQUOT):
        disk.errno = number
        with pytest.raises(StorageFull, match="free space") as refused:
            await a.send()
        assert refused.value.definite
        assert len(records(await a.pull())) == 1
        assert await a.commit(1) == []
        disk.errno = None
    assert await a.send() == 1


@pytest.mark.parametrize("flush", list(FlushMode))
@simulated
async def test_on_a_read_only_file_system_changes_are_refused_reads_go_on_and_it_goes_on_by_itself(
    world: World, flush: FlushMode, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FailingDisk()
    broker = await world.start_broker(flush=flush, files=disk)
    a = world.peer("a")
    await a.heartbeat(consumer("g"))
    assert [await a.send() for _ in range(2)] == [0, 1]
    disk.errno = errno.EROFS
    for _ in range(2):
        with pytest.raises(ServiceNotAvailable, match=r"Read-only.*sending works again as soon as") as no:
            await a.send()
        assert no.value.definite
        assert len(records(await a.pull())) == 2
        broker.barrier.metadata_changed()  # a turn that writes nothing proves nothing
    broker.metadata._db.execute("pragma query_only = on")  # what SQLite is told by the system
    with pytest.raises(ServiceNotAvailable, match=r"metadata.sqlite cannot be written now.*read-only"):
        await a.put_topic("new")
    assert [message for message in caplog.messages if "stored" in message] == [caplog.messages[0]]
    broker.metadata._db.execute("pragma query_only = off")
    disk.errno = None
    assert await a.send() == 2
    assert "sends are refused, reads go on" in caplog.messages[0]
    assert "are stored again" in caplog.messages[-1]
    await world.stop_broker()
    await world.start_broker(flush=flush, files=disk)
    assert len(records(await world.peer("b").pull())) == 3


@simulated
async def test_with_async_nothing_is_acknowledged_after_a_sync_in_the_background_failed(world: World) -> None:
    disk = FailingDisk()
    await world.start_broker(files=disk)
    a = world.peer("a")
    assert await a.send() == 0  # answered before the sync
    disk.sync_errno = errno.EIO
    await world.sleep(2 * SYNC_INTERVAL_S)
    disk.sync_errno = None
    for _ in range(2):
        with pytest.raises(RlabError) as refused:
            await a.send()
        assert refused.value.code is ResponseCode.SERVICE_NOT_AVAILABLE
        await world.sleep(2 * SYNC_INTERVAL_S)
    assert len(records(await a.pull())) == 1
    assert await a.commit(1) == []
