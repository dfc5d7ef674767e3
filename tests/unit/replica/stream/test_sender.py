"""The master's half of the stream, with replicas that follow it over a simulated network."""

from __future__ import annotations

import errno

import pytest

from model.errors import NotEnoughReplicas, NotMaster
from model.record import FlushMode
from model.replica_limits import (
    LEASE_S,
    REPLICA_BEACON_S,
    REPLICA_FRAME_TIMEOUT_S,
    REPLICA_KEPT_BYTES,
    REPLICA_PAUSE_S,
    REPLICA_RECONNECT_S,
    REPLICA_REJOIN_S,
    REPLICA_SILENCE_S,
    REPLICA_START_S,
)
from model.replica_set import Acks
from replica.registers.memory import RegisterFaults
from replica.sets import with_options
from replica.stream.follower import FollowEnd
from replica.stream.phases import Phase
from tests.unit.broker.harness import FailingDisk
from tests.unit.replica.stream.harness import (
    Master,
    ReplicaOf,
    World,
    host_of,
    indexes_of,
    log_of,
    rows_of_table,
    simulated,
)


async def in_sync(world: World, *replica_ids: int) -> tuple[Master, list[ReplicaOf]]:
    """A master with something in its log and its table, and replicas in sync."""
    master = await world.start_master()
    master.write(b"first")
    master.put(1, b"one")
    replicas = [await world.start_replica(replica_id) for replica_id in replica_ids]
    await world.until(lambda: master.sender.row.in_sync == (1, *replica_ids))
    return master, replicas


async def settled(world: World, master: Master) -> None:
    await world.until(lambda: master.sender.is_idle)


@simulated
async def test_a_replica_that_joins_gets_the_log_and_the_tables_and_is_in_sync(world: World) -> None:
    master = await world.start_master()
    for number in range(200):
        master.write(bytes(1_000), b"%d" % number)
        master.put(number, b"v%d" % number)
    replica = await world.start_replica(2)
    took_s = await world.until(lambda: master.sender.row.in_sync == (1, 2))
    assert took_s < 1
    n = master.write(b"both have this")
    await world.until(lambda: master.committed >= n, 0.1)
    assert log_of(replica.directory) == log_of(world.directory(1))
    assert rows_of_table(replica.directory) == rows_of_table(world.directory(1))


@simulated
async def test_a_flush_is_answered_once_every_replica_in_sync_has_it(world: World) -> None:
    master, _ = await in_sync(world, 2, 3)
    with world.simulation.network.partition(host_of(1), host_of(3)):
        n = master.write(b"x")
        await world.sleep(0.5)
        assert master.committed == n - 1
    await world.until(lambda: master.committed >= n, 0.5)
    assert master.sender.row.in_sync == (1, 2, 3)


@simulated
async def test_a_master_alone_answers_at_once(world: World) -> None:
    master = await world.start_master()
    n = master.write(b"x")
    assert (master.committed, master.sender.is_idle) == (n, True)


@simulated
async def test_with_acks_of_the_master_alone_nothing_waits(world: World) -> None:
    master = await world.start_master(acks=Acks.MASTER)
    await world.start_replica(2)
    await world.until(lambda: master.sender.row.in_sync == (1, 2))
    with world.simulation.network.partition(host_of(1), host_of(2)):
        n = master.write(b"x")
        assert master.committed >= n
        await world.until(lambda: master.sender.row.in_sync == (1,), REPLICA_FRAME_TIMEOUT_S + 0.1)


@simulated
async def test_a_replica_that_is_killed_leaves_the_set_and_holds_answers_only_that_long(world: World) -> None:
    master, [replica] = await in_sync(world, 2)
    await replica.stop()
    n = master.write(b"x")
    assert await world.until(lambda: master.committed >= n) < REPLICA_RECONNECT_S + 0.1
    assert master.sender.row.in_sync == (1,)


@simulated
async def test_a_replica_whose_connection_broke_is_back_before_it_would_leave_the_set(world: World) -> None:
    master, [replica] = await in_sync(world, 2)
    before = master.sender.row.version
    world.simulation.network.cut(host_of(2), host_of(1))
    n = master.write(b"x")
    await world.until(lambda: master.committed >= n, REPLICA_RECONNECT_S)
    await world.sleep(1)
    assert master.sender.row.version == before
    assert replica.ends == [FollowEnd.MASTER_GONE]


@simulated
async def test_a_silent_replica_leaves_the_set_and_returns_by_itself(world: World) -> None:
    master, _ = await in_sync(world, 2)
    with world.simulation.network.stall(host_of(2)):
        n = master.write(b"x")
        held_s = await world.until(lambda: master.committed >= n)
        assert held_s < REPLICA_SILENCE_S + 0.1
    await world.until(lambda: master.sender.row.in_sync == (1, 2), 2 * REPLICA_REJOIN_S)


@simulated
async def test_without_its_replicas_and_the_register_a_master_stops_when_its_lease_ends_and_goes_on_when_one_is_back(
    world: World,
) -> None:
    faults = RegisterFaults()
    master = await world.start_master(faults=faults)
    await world.start_replica(2)
    await world.until(lambda: master.sender.row.in_sync == (1, 2))
    faults.down = True
    with world.simulation.network.stall(host_of(2)):
        n = master.write(b"x")
        stopped_s = await world.until(lambda: not master.sender.may_serve())
        assert LEASE_S - REPLICA_BEACON_S - 0.1 < stopped_s < LEASE_S + 0.1
        refused = master.sender.refusal()
        assert isinstance(refused, NotMaster)
        assert refused.master_address == ""
        assert master.committed < n
        await world.sleep(0.5)
        assert master.committed < n
    await world.until(master.sender.may_serve)
    await world.until(lambda: master.committed >= n)
    assert master.sender.refusal() is None
    assert master.sender.lease.lapses == 1


@simulated
async def test_a_master_without_acknowledgements_of_others_needs_their_lease_nevertheless(world: World) -> None:
    faults = RegisterFaults()
    master = await world.start_master(faults=faults, acks=Acks.MASTER)
    await world.start_replica(2)
    await world.until(lambda: master.sender.row.in_sync == (1, 2))
    faults.down = True
    with world.simulation.network.stall(host_of(2)):
        assert master.write(b"x") == master.committed
        await world.until(lambda: not master.sender.may_serve())
        n = master.write(b"y")
        assert master.committed < n
    await world.until(lambda: master.committed == n)


@simulated
async def test_a_slow_disk_of_a_replica_does_not_end_the_lease(world: World) -> None:
    master = await world.start_master(flush=FlushMode.SYNC)
    await world.start_replica(2)
    await world.until(lambda: master.sender.row.in_sync == (1, 2))
    world.simulation.loop.blocking_s = REPLICA_FRAME_TIMEOUT_S - 0.2
    n = master.write(b"x")
    await world.until(lambda: master.committed >= n)
    assert master.sender.row.in_sync == (1, 2)
    margin_s = master.sender.lease.margin_s
    assert margin_s is not None
    assert margin_s > LEASE_S / 2


@simulated
async def test_a_replica_with_a_full_disk_leaves_the_set_and_returns_with_room(world: World) -> None:
    master = await world.start_master()
    disk = FailingDisk()
    replica = await world.start_replica(2, disk)
    await world.until(lambda: master.sender.row.in_sync == (1, 2))
    disk.errno = errno.ENOSPC
    n = master.write(b"x")
    assert await world.until(lambda: master.committed >= n) < REPLICA_FRAME_TIMEOUT_S + 0.1
    assert "free space" in str(replica.ends[0])
    disk.errno = None
    await world.until(lambda: master.sender.row.in_sync == (1, 2), 2 * REPLICA_REJOIN_S)
    await settled(world, master)
    assert log_of(replica.directory) == log_of(world.directory(1))


@simulated
async def test_a_master_that_starts_waits_a_little_for_the_others_of_its_set(world: World) -> None:
    master, _ = await in_sync(world, 2)
    await world.stop_master()
    master = await world.start_master()
    n = master.write(b"of epoch 3")
    await world.until(lambda: master.committed >= n, REPLICA_START_S)
    assert master.sender.row.in_sync == (1, 2)


@simulated
async def test_a_master_that_starts_alone_removes_the_others_and_serves(world: World) -> None:
    master, [replica] = await in_sync(world, 2)
    await world.stop_master()
    await replica.stop()
    master = await world.start_master()
    assert master.committed == 0
    n = master.write(b"x")
    assert await world.until(lambda: master.committed >= n) < REPLICA_START_S + 0.1
    assert master.sender.row.in_sync == (1,)


@simulated
async def test_without_the_register_a_lost_replica_is_waited_for_until_it_answers_again(world: World) -> None:
    faults = RegisterFaults()
    master = await world.start_master(faults=faults)
    replica = await world.start_replica(2)
    await world.until(lambda: master.sender.row.in_sync == (1, 2))
    faults.down = True
    await replica.stop()
    n = master.write(b"x")
    await world.sleep(10)
    assert (master.committed, master.sender.waits_for) == (n - 1, (2,))
    faults.down = False
    await world.until(lambda: master.committed >= n, 1)
    assert master.sender.row.in_sync == (1,)


@simulated
async def test_with_too_few_replicas_in_sync_requests_are_refused(world: World) -> None:
    master, [replica] = await in_sync(world, 2)
    master.sender.saw(await world.change(lambda row: with_options(row, min_in_sync=2)))
    assert master.sender.refusal() is None
    await replica.stop()
    await world.until(lambda: isinstance(master.sender.refusal(), NotEnoughReplicas), 1)
    await world.start_replica(2)
    await world.until(lambda: master.sender.refusal() is None, 2 * REPLICA_REJOIN_S)


@simulated
async def test_a_deposed_master_answers_nothing_that_waits_and_refuses_the_rest(world: World) -> None:
    master, _ = await in_sync(world, 2)
    with world.simulation.network.partition(host_of(1), host_of(2)):
        n = master.write(b"x")
        row = await world.elect(2)
        await world.until(lambda: master.deposed, 1.5)
    [error] = master.ended
    assert (error.master_address, error.epoch) == (row.master_address, row.epoch)
    assert master.committed < n
    assert isinstance(master.sender.refusal(), NotMaster)
    assert (len(master.deposed), master.sender.next_deadline()) == (1, None)
    master.write(b"late")
    await world.sleep(1)
    assert master.committed < n


@simulated
async def test_a_handover_is_announced_and_refuses_requests(world: World) -> None:
    master, [replica] = await in_sync(world, 2)
    n = master.write(b"x")
    master.sender.refuse(NotMaster("it hands over"))
    assert isinstance(master.sender.refusal(), NotMaster)
    await master.sender.wait_committed(1.0)
    assert master.committed >= n
    assert master.sender.targets() == [2]
    row = await world.elect(2)
    master.sender.announce_handover(row)
    await world.until(lambda: FollowEnd.HANDED_OVER in replica.ends, 0.1)


@simulated
async def test_a_wait_for_acknowledgements_ends_in_time(world: World) -> None:
    master, _ = await in_sync(world, 2)
    with world.simulation.network.stall(host_of(2)):
        master.write(b"x")
        with pytest.raises(TimeoutError):
            await master.sender.wait_committed(0.5)


@simulated
async def test_the_progress_of_each_replica_is_shown(world: World) -> None:
    master, [replica] = await in_sync(world, 2)
    await settled(world, master)
    [second, third] = master.sender.progress()
    assert (second.replica_id, second.state, second.lag_bytes, second.lag_s, second.connected) == (
        *(2, "in sync", 0, 0.0, True),
    )
    assert (third.replica_id, third.state, third.connected) == (3, "away", False)
    assert replica.progress[-1].state == "following"
    assert replica.progress[-1].position == master.store.written_position


@simulated
async def test_a_replica_gets_the_index_of_each_finished_segment(world: World) -> None:
    master, [replica] = await in_sync(world, 2)
    for _ in range(300):
        master.write(bytes(1_000))
        await world.sleep(0.001)
    master.store.sync()
    await world.sleep(3)
    finished = indexes_of(world.directory(1))
    assert len(finished) >= 3
    assert finished.items() <= indexes_of(replica.directory).items()


@simulated
async def test_with_flush_sync_an_answer_waits_for_the_disk_of_the_replica(world: World) -> None:
    master = await world.start_master(flush=FlushMode.SYNC)
    disk = FailingDisk()
    replica = await world.start_replica(2, disk)
    await world.until(lambda: master.sender.row.in_sync == (1, 2))
    n = master.write(b"x")
    await world.until(lambda: master.committed >= n, 0.5)
    disk.sync_errno = errno.EIO
    n = master.write(b"y")
    assert await world.until(lambda: master.committed >= n) < REPLICA_FRAME_TIMEOUT_S + 0.1
    assert master.sender.row.in_sync == (1,)
    assert "sync of" in str(replica.ends[0])


@simulated
async def test_a_replica_that_is_too_many_changes_behind_gets_the_tables_again(world: World) -> None:
    master, [replica] = await in_sync(world, 2)
    kept = master.sender._sessions._kept
    most = 0
    with world.simulation.network.stall(host_of(2)):
        for number in range(40):
            master.put(number, bytes(1024 * 1024))
            most = max(most, kept.bytes_after(kept._oldest - 1))
    assert REPLICA_KEPT_BYTES - 2 * 1024 * 1024 < most <= REPLICA_KEPT_BYTES
    assert (len(kept), master.sender.progress()[0].state) == (0, "in sync")
    [session] = list(master.sender._sessions)
    assert session.replica.phase is Phase.CATCHING_UP
    await world.until(lambda: 2 in master.sender.row.in_sync and master.sender.is_idle, 30)
    assert rows_of_table(replica.directory) == rows_of_table(world.directory(1))


@simulated
async def test_a_flush_with_more_changes_than_a_frame_takes_is_sent_as_tables(world: World) -> None:
    master, [replica] = await in_sync(world, 2)
    for number in range(10):
        master.table.put(number, bytes(1024 * 1024))
    n = master.write(b"x")
    await world.until(lambda: master.committed >= n, REPLICA_FRAME_TIMEOUT_S)
    assert rows_of_table(replica.directory) == rows_of_table(world.directory(1))
    assert master.sender.row.in_sync == (1, 2)


@simulated
async def test_a_large_flush_is_sent_in_parts(world: World) -> None:
    master, [replica] = await in_sync(world, 2)
    for number in range(5):
        master.store.append(1, 0, bytes(1024 * 1024 + number), 0)
    master.table.put(7, b"with it")
    n = master.flush()
    await world.until(lambda: master.committed >= n, REPLICA_FRAME_TIMEOUT_S)
    assert log_of(replica.directory) == log_of(world.directory(1))
    assert rows_of_table(replica.directory) == rows_of_table(world.directory(1))


BACKLOG = 64
"""Writes of 60 kB, each a segment: together more than what the pauses of a loaded master let through in 0.1 s."""


@simulated
async def test_a_replica_copies_a_log_without_pauses_while_nothing_is_written(world: World) -> None:
    master = await world.start_master()
    for _ in range(BACKLOG):
        master.write(bytes(60_000))
    await world.start_replica(2)
    assert await world.until(lambda: master.sender.row.in_sync == (1, 2)) < BACKLOG * REPLICA_PAUSE_S


@simulated
async def test_a_replica_catches_up_in_pauses_while_messages_are_written_however_fast(world: World) -> None:
    master = await world.start_master()
    for _ in range(BACKLOG):
        master.write(bytes(60_000))
    await world.start_replica(2)
    began = world.simulation.loop.time()
    while master.sender.row.in_sync != (1, 2):
        master.write(bytes(60_000))  # two frames in each pause: with one it would never be there
        await world.sleep(REPLICA_PAUSE_S / 2)
        assert world.simulation.loop.time() - began < 1
    assert world.simulation.loop.time() - began > BACKLOG / 2 * REPLICA_PAUSE_S / 2
