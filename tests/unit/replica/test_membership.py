"""A replica's place in its set: made, joined, taken up again, refused; with a register whose answers are lost."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from broker.config import BrokerConfig
from model.errors import RegisterUnavailable
from model.replica_set import Acks, Replica, ReplicaSet
from remoting.tasks import background_tasks
from replica.config import ReplicaConfig
from replica.directory import NotAReplica, NotOfThisRegister, NotOfThisSet, OldReplica, read_identity
from replica.membership import Membership
from replica.registers.memory import MemoryRegister, RegisterFaults
from replica.sets import LeaseInUse, ReplicaNotInSync, handed_over, in_sync_with
from testbed.simulation.cluster.servers import UnsyncedFiles
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.broker.store.follower.follower_helpers import open_master
from tests.unit.broker.store.store_helpers import fill

FILES = UnsyncedFiles()


def member(directory: Path, register: MemoryRegister, address: str = "h1:1", **options: Any) -> Membership:
    """The membership of one replica that has not begun."""
    broker = BrokerConfig(name="broker-a", data_dir=directory, files=FILES, rng=Random(str(directory)))
    return Membership(ReplicaConfig(broker=broker, register=register, **options), address)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario in virtual time."""

    async def main(_: Simulation) -> None:
        await scenario()

    run_simulation(main)


def replica_of(membership: Membership, replica_id: int) -> Replica:
    """A member as the newest row has it."""
    found = membership.row.member(replica_id)
    assert found is not None
    return found


async def made(directory: Path, register: MemoryRegister) -> Membership:
    """A set with one replica, which has begun."""
    first = member(directory, register, makes=True, copies=2)
    await first.begin()
    return first


def test_the_first_replica_makes_the_set_and_is_its_master(tmp_path: Path) -> None:
    async def scenario() -> None:
        register = MemoryRegister(register_id=9)
        first = member(tmp_path, register, makes=True, copies=3, acks=Acks.MASTER, min_in_sync=2)
        await first.begin()
        row = await register.read("broker-a")
        assert row == first.row
        assert (row.copies, row.acks, row.min_in_sync, row.epoch) == (3, Acks.MASTER, 2, 1)
        assert first.is_master
        assert first.replica_id == 1
        identity = read_identity(tmp_path, FILES)
        assert identity == first.identity
        assert identity is not None
        assert (identity.set_id, identity.register_id, identity.incarnation) == (row.set_id, 9, 1)

    run(scenario)


def test_each_start_of_a_master_begins_an_epoch_and_keeps_options_that_are_not_given(tmp_path: Path) -> None:
    async def scenario() -> None:
        register = MemoryRegister()
        await made(tmp_path, register)
        again = member(tmp_path, register, makes=True)
        await again.begin()
        assert (again.row.epoch, again.row.copies, again.identity.incarnation) == (2, 2, 2)
        assert replica_of(again, 1).incarnation == 2

    run(scenario)


def test_options_that_are_given_at_a_later_start_change_the_set(tmp_path: Path) -> None:
    async def scenario() -> None:
        register = MemoryRegister()
        await made(tmp_path, register)
        again = member(tmp_path, register, makes=True, copies=3, min_in_sync=2)
        await again.begin()
        assert (again.row.copies, again.row.min_in_sync, again.row.acks) == (3, 2, Acks.ALL)

    run(scenario)


def test_an_empty_directory_joins_and_keeps_its_id_over_starts_and_moves(tmp_path: Path) -> None:
    async def scenario() -> None:
        register = MemoryRegister()
        await made(tmp_path / "1", register)
        second = member(tmp_path / "2", register, "h2:1")
        await second.begin()
        assert second.replica_id == 2
        assert not second.is_master
        assert replica_of(second, 2).incarnation == 1
        moved = member(tmp_path / "2", register, "h3:1")
        await moved.begin()
        assert moved.replica_id == 2
        assert (replica_of(moved, 2).address, replica_of(moved, 2).incarnation) == ("h3:1", 2)

    run(scenario)


def test_answers_of_the_register_that_are_lost_change_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        register = MemoryRegister(faults=RegisterFaults(lose_answers=1))
        first = await made(tmp_path / "1", register)
        assert (first.row.epoch, len(first.row.members)) == (1, 1)
        register.faults.lose_answers = 2  # of the join, and of the start
        second = member(tmp_path / "2", register, "h2:1")
        await second.begin()
        assert (second.replica_id, len(second.row.members)) == (2, 2)
        assert replica_of(second, 2).incarnation == second.identity.incarnation == 1
        register.faults.lose_answers = 1
        again = member(tmp_path / "1", register)
        await again.begin()
        assert (again.row.epoch, replica_of(again, 1).incarnation) == (2, 2)

    run(scenario)


def test_a_start_waits_for_a_register_that_is_down(tmp_path: Path) -> None:
    async def scenario() -> None:
        register = MemoryRegister(faults=RegisterFaults(down=True))
        first = member(tmp_path, register, makes=True)
        async with background_tasks() as tasks:
            tasks.start_soon(first.begin)
            await anyio.sleep(60)
            assert not first.reachable
            register.faults.down = False
            await anyio.sleep(1)
            assert first.is_master
            assert first.reachable

    run(scenario)


@pytest.mark.parametrize("writes", [0, 1])
def test_a_start_that_ends_while_the_set_is_made_is_finished_by_the_next_one(tmp_path: Path, writes: int) -> None:
    """The process ends after it has written the file, before or after the register has the row."""

    async def scenario() -> None:
        register = MemoryRegister()
        faults = RegisterFaults()
        first = member(tmp_path, register.seen_with(faults), makes=True)

        async def unlucky(new: ReplicaSet, expected_version: int) -> ReplicaSet:
            if writes:
                await register.write(new, expected_version)
            faults.down = True
            raise RegisterUnavailable("the process ends")

        first._register.write = unlucky  # type: ignore[method-assign]  # this object's
        with anyio.move_on_after(5):
            await first.begin()
        proposed = read_identity(tmp_path, FILES)
        assert proposed is not None
        assert proposed.register_id == 0
        again = member(tmp_path, register, makes=True)
        await again.begin()
        assert (again.row.set_id, again.replica_id) == (first.identity.set_id, 1)
        assert again.identity.register_id == register.register_id
        assert again.is_master

    run(scenario)


def test_an_old_copy_of_a_directory_is_refused_and_so_is_one_that_starts_at_the_same_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        register = MemoryRegister()
        await made(tmp_path / "1", register)
        shutil.copytree(tmp_path / "1", tmp_path / "old")
        shutil.copytree(tmp_path / "1", tmp_path / "same")
        slow = member(tmp_path / "1", register.seen_with(RegisterFaults(delay_s=0.2)))
        fast = member(tmp_path / "same", register.seen_with(RegisterFaults(delay_s=0.1)))
        async with background_tasks() as tasks:
            tasks.start_soon(fast.begin)
            with pytest.raises(OldReplica):
                await slow.begin()
            await anyio.sleep(1)
        assert replica_of(fast, 1).incarnation == 2
        with pytest.raises(OldReplica, match="old copy"):
            await member(tmp_path / "old", register).begin()

    run(scenario)


def test_a_process_whose_place_another_one_takes_ends_at_the_next_look(tmp_path: Path) -> None:
    async def scenario() -> None:
        register = MemoryRegister()
        first = await made(tmp_path / "1", register)
        shutil.copytree(tmp_path / "1", tmp_path / "copy")
        await member(tmp_path / "copy", register).begin()
        with pytest.raises(OldReplica, match="another process"):
            await first.poll()

    run(scenario)


def test_strangers_are_refused_by_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        register = MemoryRegister()
        with pytest.raises(NotAReplica, match="has no set broker-a"):
            await member(tmp_path / "2", register, "h2:1").begin()
        await made(tmp_path / "1", register)
        with pytest.raises(NotAReplica, match="has a set broker-a already"):
            await made(tmp_path / "other", register)
        with pytest.raises(NotOfThisRegister):
            await member(tmp_path / "1", MemoryRegister(register_id=2)).begin()
        other_register = MemoryRegister(register_id=register.register_id)
        await made(tmp_path / "twin", other_register)
        with pytest.raises(NotOfThisSet):
            await member(tmp_path / "1", other_register).begin()
        (tmp_path / "used").mkdir()
        (tmp_path / "used" / "STORE").write_text("rebalance-lab message store, format 1\n")
        for name in (f"{0:020}.log", "metadata.sqlite"):
            (tmp_path / "used" / name).write_bytes(b"")
            with pytest.raises(NotAReplica, match="has messages or topics"):
                await member(tmp_path / "used", register, "h4:1").begin()
            (tmp_path / "used" / name).unlink()

    run(scenario)


def test_a_log_of_a_set_without_its_file_is_refused_before_the_register_has_a_row(tmp_path: Path) -> None:
    async def scenario() -> None:
        register = MemoryRegister()
        with open_master(tmp_path, (3, 1)) as store:
            fill(store, 5)
        with pytest.raises(NotAReplica, match=r"up to epoch 3, and no file REPLICA.*once without --copies"):
            await made(tmp_path, register)
        assert await register.read("broker-a") is None
        assert read_identity(tmp_path, FILES) is None
        with open_master(tmp_path, None) as store:
            fill(store, 5)
        assert (await made(tmp_path, register)).is_master

    run(scenario)


def test_a_change_is_decided_on_the_newest_row_and_its_refusal_leaves_that_row(tmp_path: Path) -> None:
    async def scenario() -> None:
        register = MemoryRegister()
        first = await made(tmp_path / "1", register)
        second = member(tmp_path / "2", register, "h2:1")
        await second.begin()
        with pytest.raises(ReplicaNotInSync):
            await first.change(lambda row: handed_over(row, 2, by=1, epoch=1))
        assert first.row == second.row
        await first.change(lambda row: in_sync_with(row, 2, by=1, epoch=1, incarnation=1))
        await first.change(lambda row: handed_over(row, 2, by=1, epoch=1))
        assert not first.is_master
        assert not second.is_master
        assert (await second.refresh()).master == 2
        assert second.is_master

    run(scenario)


def test_a_look_that_is_asked_for_is_made_at_once_and_wakes_who_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        register = MemoryRegister()
        first = await made(tmp_path / "1", register)
        async with background_tasks() as tasks:
            tasks.start_soon(first.poll)
            await anyio.sleep(0.1)
            await member(tmp_path / "2", register, "h2:1").begin()
            first.poll_now()
            with anyio.fail_after(0.01):
                await first.wait_changed()
        assert first.row.member(2) is not None

    run(scenario)


def test_the_lease_of_a_set_is_that_of_the_option_and_a_master_that_starts_with_another_one_changes_it(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        register = MemoryRegister(register_id=9)
        first = member(tmp_path / "1", register, makes=True, copies=2, lease_s=1.5)
        await first.begin()
        assert first.row.lease_ms == 1_500
        again = member(tmp_path / "1", register, makes=True, lease_s=4.0)
        await again.begin()
        assert (again.row.lease_ms, again.row.epoch) == (4_000, 2)
        second = member(tmp_path / "2", register, "h2:1")
        await second.begin()
        with pytest.raises(LeaseInUse):
            await member(tmp_path / "2", register, "h2:1", lease_s=2.0).begin()

    run(scenario)
