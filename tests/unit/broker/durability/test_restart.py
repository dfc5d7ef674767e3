"""What a broker keeps over a restart, and while its disk fails, of everything that ties its rooms together."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from broker.broker import Broker
from broker.config import RESTORE_GRACE_S
from broker.durability.background_sync import SYNC_INTERVAL_S
from model.events import EventKind
from model.quirks import Quirk
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from tests.unit.broker.harness import (
    FailingDisk,
    World,
    a_life,
    consumer,
    payload_of,
    records,
    simulated,
)


# --- restart ---------------------------------------------------------------------------------------------------------
async def restart(world: World, how: str, **options: object) -> Broker:
    """Stop the broker and start it again; or go on with a copy of its files as they are, as a kill leaves them."""
    if how == "kill":
        copy = Path(f"{world.data_dir} at the kill")
        shutil.copytree(world.data_dir, copy)
        await world.stop_broker()
        world.data_dir = copy
    else:
        await world.stop_broker()
    world.events.clear()
    broker = await world.start_broker(**options)
    await world.sleep(0.5)  # clients have to notice before they can connect again
    return broker


@pytest.mark.parametrize("how", ["stop", "kill"])
@simulated
async def test_a_restart_keeps_topics_messages_offsets_members_and_leases(world: World, how: str) -> None:
    a, b, token = await a_life(world)
    before = world.broker.groups.table.get("g")
    assert before is not None
    broker = await restart(world, how)
    config = broker.topics.table.existing("t").config
    assert (config.read_queue_nums, config.write_queue_nums) == (3, 2)
    assert [record.payload for record in records(await a.pull())] == [payload_of(b"%d" % n) for n in range(3)]
    assert await a.committed() == 2
    assert await a.members() == [a.client_id, b.client_id]
    assert await b.lock(0) == ([], [["t", 0, a.client_id]])
    assert await a.commit(3, token) == []
    after = broker.groups.table.get("g")
    assert after is not None
    assert after.created_ms == before.created_ms
    assert after.version >= before.version


@pytest.mark.parametrize("how", ["stop", "kill"])
@simulated
async def test_members_come_back_without_anyone_being_reported(world: World, how: str) -> None:
    a, b, token = await a_life(world)
    pushes = len(a.pushes)
    broker = await restart(world, how)
    for peer in (a, b):
        await peer.heartbeat(consumer())
    await world.sleep(RESTORE_GRACE_S + 1)
    assert await a.members() == [a.client_id, b.client_id]
    assert await a.token_of(0) == token
    assert len(a.pushes) == pushes
    assert world.of_kind(EventKind.MEMBER_JOIN, EventKind.MEMBER_LEAVE) == []
    assert broker.groups.table.next_deadline() is not None


@pytest.mark.parametrize("how", ["stop", "kill"])
@simulated
async def test_over_a_restart_the_same_process_keeps_its_leases_and_another_one_of_its_id_gets_none(
    world: World, how: str
) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await a.heartbeat(consumer(), run_id="1")
    token = await a.token_of(0)
    for _ in range(2):
        await restart(world, how)
        await a.heartbeat(consumer(), run_id="1")
        assert await a.token_of(0) == token
    await restart(world, how)
    twin = world.peer("twin")
    twin.client_id = a.client_id
    await twin.heartbeat(consumer(), run_id="2")
    assert await twin.token_of(0) > token


@simulated
async def test_a_member_that_does_not_come_back_is_replaced_after_the_grace(world: World) -> None:
    a, b, token = await a_life(world)
    await restart(world, "stop", restore_grace_s=5.0)
    await b.heartbeat(consumer())
    await b.lock(0)
    await world.sleep(4)
    assert await b.members() == [a.client_id, b.client_id]
    await world.sleep(1)
    assert await b.members() == [b.client_id]
    assert len(b.pushed(RequestCode.NOTIFY_QUEUES_RELEASED)) == 1
    assert await b.token_of(0) > token


@simulated
async def test_members_that_left_are_not_restored(world: World) -> None:
    a, b, _ = await a_life(world)
    await a.unregister("g")
    await restart(world, "kill")
    assert await b.members() == [b.client_id]
    await b.heartbeat(consumer())
    await b.token_of(0)


@simulated
async def test_the_connections_that_a_stopping_broker_closes_take_no_one_out(world: World) -> None:
    a, b, _ = await a_life(world)
    await world.stop_broker()
    assert world.of_kind(EventKind.MEMBER_LEAVE) == []
    assert a.client_id != b.client_id


@simulated
async def test_what_a_member_says_again_is_restored_too(world: World) -> None:
    a, _, _ = await a_life(world)
    await a.heartbeat(consumer(strategy="AVG_BY_CIRCLE", group_created_ms=7))
    broker = await restart(world, "kill")
    info = broker.groups.table.get("g")
    assert info is not None
    assert (info.members[a.client_id].data.strategy, info.created_ms) == ("AVG_BY_CIRCLE", 7)


@simulated
async def test_group_versions_and_tokens_grow_over_a_restart_that_lost_the_last_ones(world: World) -> None:
    a, _, _ = await a_life(world)
    young = Path(f"{world.data_dir} before")
    shutil.copytree(world.data_dir, young)
    for n in range(20):
        await world.peer(f"c{n}").heartbeat(consumer())
    token = await a.token_of(1)
    version = (await a.heartbeat(consumer()))["g"][0]
    await world.sleep(1)
    await world.stop_broker()
    world.data_dir = young
    await world.start_broker()
    await world.sleep(0.5)
    assert (await a.heartbeat(consumer()))["g"][0] > version
    assert await a.token_of(1) > token


@simulated
async def test_a_lease_in_its_grace_is_freed_by_the_next_run(world: World) -> None:
    quirks = frozenset({Quirk.LOCKS_SURVIVE_CLOSE})
    a, b, token = await a_life(world, quirks=quirks)
    await a.unregister("g")
    await restart(world, "stop", quirks=quirks)
    await b.heartbeat(consumer())
    assert await b.lock(0) == ([], [["t", 0, a.client_id]])
    await world.sleep(61)
    await b.heartbeat(consumer())
    assert await b.token_of(0) > token
    # Without the quirk nobody has to wait for what an earlier run with it left behind.
    await b.unregister("g")
    await restart(world, "stop")
    c = world.peer("c")
    await c.heartbeat(consumer())
    await c.token_of(0)


@simulated
async def test_a_broker_that_only_starts_and_stops_writes_nothing_new(world: World) -> None:
    await a_life(world)
    await restart(world, "stop")
    assert not world.broker.metadata._pending
    assert world.events[0].kind == EventKind.BROKER_UP


# --- a disk that fails -----------------------------------------------------------------------------------------------
@simulated
async def test_messages_are_made_durable_a_moment_after_they_are_written(world: World) -> None:
    broker = await world.start_broker()
    await world.peer("a").send()
    assert broker.store.synced_position < broker.store.written_position
    await world.sleep(2 * SYNC_INTERVAL_S)
    assert broker.store.synced_position == broker.store.written_position


def test_a_sync_that_fails_stops_the_sends_and_nothing_else_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @simulated
    async def scenario(world: World) -> None:
        disk = FailingDisk()
        await world.start_broker(files=disk, trace=True)
        a = world.peer("a")
        await a.send()
        disk.sync_errno = errno.EIO
        await world.sleep(5)
        answer = await a.begin(RequestCode.SEND_MESSAGE, {"topic": "t", "queue_id": 0, "tag_hash": 0}, b"x")
        assert (await answer).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert len(records(await a.pull())) == 1
        assert await a.commit(1) == []
        await a.heartbeat(consumer())
        await world.sleep(5)
        assert await a.members() == [a.client_id]

    scenario(tmp_path)
    said = [record.levelname for record in caplog.records if record.name == "broker.durability.background_sync"]
    assert said.count("ERROR") == 1
