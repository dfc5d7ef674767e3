"""The replica's half of the stream: who may follow, where its log is cut, and how it survives restarts."""

from __future__ import annotations

import pytest

from model.errors import IllegalOperation, RlabError
from model.replica_limits import LOG_CHECK_PAUSE_S, REGISTER_POLL_S
from replica.directory import ReplicaIdentity
from replica.sets import forgotten, started
from replica.stream.follower import FollowEnd
from tests.unit.replica.stream.harness import (
    Master,
    ReplicaOf,
    World,
    address_of,
    host_of,
    log_of,
    rows_of_table,
    simulated,
)


async def in_sync(world: World, master: Master, *replica_ids: int) -> list[ReplicaOf]:
    replicas = [await world.start_replica(replica_id) for replica_id in replica_ids]
    await world.until(lambda: set(replica_ids) <= set(master.sender.row.in_sync))
    return replicas


async def settled(world: World, master: Master) -> None:
    await world.until(lambda: master.sender.is_idle)


def assert_equal_copies(world: World, *replica_ids: int) -> None:
    for replica_id in replica_ids:
        assert log_of(world.directory(replica_id)) == log_of(world.directory(1))
        assert rows_of_table(world.directory(replica_id)) == rows_of_table(world.directory(1))


@simulated
async def test_a_replica_that_was_away_goes_on_where_its_log_ends(world: World) -> None:
    master = await world.start_master()
    master.put(0, b"")
    [replica] = await in_sync(world, master, 2)
    master.write(b"x")
    await settled(world, master)
    await replica.stop()
    for number in range(150):
        master.write(bytes(1_000))
        master.put(number % 7, b"%d" % number)
    before = world.simulation.network.statistics().bytes_sent
    [replica] = await in_sync(world, master, 2)
    await settled(world, master)
    assert_equal_copies(world, 2)
    assert world.simulation.network.statistics().bytes_sent - before < 300_000
    assert all(each.cut_from is None for each in replica.progress)


@simulated
async def test_a_replica_cuts_the_tail_that_the_new_master_does_not_have(world: World) -> None:
    master = await world.start_master()
    master.put(0, b"")
    [second] = await in_sync(world, master, 2)
    master.write(b"both")
    await settled(world, master)
    with world.simulation.network.partition(host_of(1), host_of(2)):
        master.write(b"only the first", topic_id=9)
        master.put(0, b"only the first")
        await world.elect(2)
        await second.stop()
        await world.stop_master(1)
    master = await world.start_master(2)
    master.write(b"of the second")
    [first] = await in_sync(world, master, 1)
    await settled(world, master)
    assert_equal_copies(world, 2)
    [cut] = [each for each in first.progress if each.cut_from is not None]
    assert cut.position < (cut.cut_from or 0)
    assert cut.salvaged
    assert any((world.directory(1) / "salvage").rglob("*"))


@simulated
async def test_a_cut_behind_the_commit_point_keeps_nothing(world: World) -> None:
    master = await world.start_master()
    [second] = await in_sync(world, master, 2)
    master.write(b"both")
    await settled(world, master)
    position = master.store.written_position
    await second.stop()
    await world.until(lambda: master.sender.row.in_sync == (1,))
    master.write(b"only the first")
    await world.stop_master(1)
    await world.elect(2)
    await world.start_master(2)
    first = await world.start_replica(1)
    first.committed_position = position
    await world.until(lambda: any(each.cut_from is not None for each in first.progress))
    assert not any(each.salvaged for each in first.progress)


@simulated
async def test_a_log_with_nothing_in_common_is_copied_as_a_whole(world: World) -> None:
    master = await world.start_master()
    master.put(0, b"")
    [replica] = await in_sync(world, master, 2)
    await settled(world, master)
    await replica.stop()
    for _ in range(300):
        master.write(bytes(1_000))
    master.store.sync()
    master.store.trim(master.store.newest_base_position)  # retention has removed everything that the replica has
    assert master.store.min_position > 0
    [replica] = await in_sync(world, master, 2)
    await settled(world, master)
    assert_equal_copies(world, 2)
    [cut] = [each for each in replica.progress if each.cut_from is not None]
    assert cut.position == master.store.min_position


@simulated
async def test_a_replica_removes_the_segments_that_the_master_has_removed(world: World) -> None:
    master = await world.start_master()
    master.put(0, b"")
    await in_sync(world, master, 2)
    for _ in range(300):
        master.write(bytes(1_000))
    await settled(world, master)
    master.store.sync()
    master.store.trim(master.store.newest_base_position)
    await world.sleep(0.5)  # a beacon brings it
    assert_equal_copies(world, 2)


@simulated
async def test_a_replica_that_is_killed_while_it_catches_up_or_loads_the_tables_begins_again(world: World) -> None:
    master = await world.start_master()
    for number in range(3_000):
        master.table.put(number, bytes(1_000))
        master.store.append(1, 0, bytes(2_000), 0)
    master.flush()
    states = set()
    for wait_s in (0.02, 0.03, 0.05, 0.08, 0.12, 0.2):
        replica = await world.start_replica(2)
        await world.sleep(wait_s)
        states.add(replica.progress[-1].state if replica.progress else "none")
        await replica.stop()
    assert states >= {"catching up"}
    await in_sync(world, master, 2)
    master.put(1, b"new")
    await settled(world, master)
    assert_equal_copies(world, 2)


async def refused(world: World, replica: ReplicaOf) -> str:
    """The text with which the master refuses a replica."""
    await world.until(lambda: any(isinstance(end, RlabError) for end in replica.ends), 3)
    [error, *_] = [end for end in replica.ends if isinstance(end, RlabError)]
    assert isinstance(error, IllegalOperation)
    await replica.stop()
    return str(error)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"set_id": 8}, "replica 2 belongs to set 8, and b here is set 7"),
        ({"register_id": 4}, "knows set b from register 4, and this master from register 9"),
        ({"replica_id": 5}, "set b has no replica 5 beside its master, only 2, 3"),
        ({"replica_id": 1}, "set b has no replica 1 beside its master"),
        ({"incarnation": 7}, "has started 1 time, and this is the process of start 7"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_stranger_is_refused_by_name(tmp_path: object, changed: dict[str, int], text: str) -> None:
    @simulated
    async def run(world: World) -> None:
        await world.start_master()
        replica = await world.start_replica(2)
        fields = {name: getattr(replica.identity, name) for name in ReplicaIdentity.__slots__}
        replica.identity = ReplicaIdentity(**{**fields, **changed})
        assert text in await refused(world, replica)

    run(tmp_path)


@simulated
async def test_an_older_process_of_a_replica_is_refused_and_a_forgotten_one(world: World) -> None:
    master = await world.start_master()
    [older] = await in_sync(world, master, 2)
    await world.change(lambda row: started(row, 2, address_of(2)))
    await world.sleep(REGISTER_POLL_S + 0.1)
    world.simulation.network.cut(host_of(2), host_of(1))
    assert "two processes use one replica id" in await refused(world, older)
    await world.until(lambda: master.sender.row.in_sync == (1,))
    replica = await world.start_replica(3)
    await world.until(lambda: 3 in master.sender.row.in_sync)
    await replica.stop()
    await world.until(lambda: master.sender.row.in_sync == (1,))
    await world.change(lambda row: forgotten(row, 3))
    replica.ends.clear()
    world.tasks.start_soon(replica.again().run)
    assert "set b has no replica 3" in await refused(world, replica)


@simulated
async def test_a_second_process_waits_while_the_first_one_is_connected(world: World) -> None:
    master = await world.start_master()
    [first] = await in_sync(world, master, 2)
    row = await world.change(lambda row: started(row, 2, address_of(2)))
    member = row.member(2)
    assert member is not None
    second = world.second_process(2, member.incarnation)
    world.tasks.start_soon(second.run)
    await world.sleep(1)
    assert set(second.ends) == {FollowEnd.MASTER_GONE}
    assert first.ends == []
    await first.stop()
    await world.until(lambda: bool(second.progress))


@simulated
async def test_a_replica_does_not_follow_a_master_of_an_older_epoch_than_its_row(world: World) -> None:
    master = await world.start_master()
    [replica] = await in_sync(world, master, 2)
    row = await world.row()
    world.believed = row = world.later(row)
    world.simulation.network.cut(host_of(2), host_of(1))
    await world.until(lambda: len(replica.ends) > 1)
    assert isinstance(replica.ends[1], IllegalOperation)
    assert f"has seen epoch {row.epoch} of set b" in str(replica.ends[1])


@simulated
async def test_garbage_from_a_master_ends_the_stream_and_it_begins_again(world: World) -> None:
    master = await world.start_master()
    master.put(0, b"")
    [replica] = await in_sync(world, master, 2)
    [session] = list(master.sender._sessions)
    encode = session._send_log

    def with_a_gap(n: int, position: int, base: int, log: bytes, changes: bytes) -> None:
        encode(n, position + 1, base, log, changes)

    session._send_log = with_a_gap  # type: ignore[method-assign]
    master.write(b"x")
    await world.until(lambda: replica.ends == [FollowEnd.MASTER_GONE])
    await settled(world, master)
    assert_equal_copies(world, 2)


@simulated
async def test_a_first_copy_that_is_interrupted_goes_on_where_it_was(world: World) -> None:
    master = await world.start_master()
    for number in range(2_000):
        master.write(bytes(1_000), b"%d" % number)
    replica = await world.start_replica(2)
    await world.until(lambda: len(replica.progress) > 3)
    position = replica.progress[-1].position
    world.simulation.network.cut(host_of(2), host_of(1))
    await world.until(lambda: 2 in master.sender.row.in_sync)
    assert min(each.position for each in replica.progress[-3:]) > position
    assert not any(each.cut_from for each in replica.progress)
    await settled(world, master)
    assert log_of(world.directory(2)) == log_of(world.directory(1))


@simulated
async def test_damage_of_a_copy_is_replaced_by_the_bytes_of_the_master(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replica.stream.fetching.LOG_CHECK_FIRST_S", 5.0)  # an hour has many beacons
    master = await world.start_master()
    master.put(0, b"")
    [replica] = await in_sync(world, master, 2)
    for _ in range(200):
        master.write(bytes(1_000))
        await world.sleep(0.001)
    await settled(world, master)
    master.store.sync()
    first, *_ = sorted(replica.directory.glob("*.log"))
    with first.open("r+b") as file:
        file.seek(5_000)
        file.write(b"rotten")
    assert log_of(world.directory(2)) != log_of(world.directory(1))
    await world.sleep(5 + 10 * LOG_CHECK_PAUSE_S)
    assert_equal_copies(world, 2)
    assert 2 in master.sender.row.in_sync
