"""A handover: what is done in which order, and when it is abandoned."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from broker.store.disk.errors import StoreFull
from model.errors import NotMaster, ReplicationTimeout, RlabError
from model.replica_set import ReplicaSet
from remoting.tasks import background_tasks
from replica.mastership.handover import hand_over
from replica.membership import Membership
from replica.registers.memory import MemoryRegister, RegisterFaults
from replica.sets import (
    DeposedMaster,
    ReplicaNotInSync,
    elected,
    in_sync_with,
    joined,
    removed_from_in_sync,
    started,
)
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.replica.test_membership import made


class FakeMaster:
    """A master that notes what a handover does to it."""

    def __init__(self, register: MemoryRegister) -> None:
        self.done: list[str] = []
        self.refused: RlabError | None = None
        self.waits_s = 0.1
        self.connected = [2]
        self._register = register

    def refuse(self, error: RlabError | None) -> None:
        self.refused = error
        self.done.append("serve" if error is None else "refuse")

    async def wait_committed(self, timeout_s: float) -> None:
        self.done.append("wait")
        with anyio.fail_after(timeout_s):
            await anyio.sleep(self.waits_s)

    def begin_segment(self) -> None:
        self.done.append("segment")

    def announce_handover(self, row: ReplicaSet) -> None:
        self.done.append(f"announce {row.master}")

    def targets(self) -> list[int]:
        return self.connected


def run(tmp_path: object, scenario: Callable[[FakeMaster, Membership, MemoryRegister], Awaitable[None]]) -> None:
    """Run a scenario at the master of a set whose replica 2 is in sync, and whose replica 3 is not."""

    async def main(_: Simulation) -> None:
        register = MemoryRegister(faults=RegisterFaults())
        membership = await made(tmp_path, register)  # type: ignore[arg-type]  # a path

        def with_others(row: ReplicaSet) -> ReplicaSet:
            for number in (2, 3):
                row, _ = joined(row, f"h{number}:1")
                row = started(row, number, f"h{number}:1")
            return in_sync_with(row, 2, by=1, epoch=1, incarnation=1)

        await membership.change(with_others)
        await scenario(FakeMaster(register), membership, register)

    run_simulation(main)


async def to(master: FakeMaster, membership: Membership, replica_id: int = 0) -> ReplicaSet:
    return await hand_over(master, membership, replica_id, begin_segment=master.begin_segment, timeout_s=3.0)


def test_requests_are_refused_until_the_other_one_has_everything_and_is_the_master(tmp_path: object) -> None:
    async def scenario(master: FakeMaster, membership: Membership, register: MemoryRegister) -> None:
        row = await to(master, membership)
        assert master.done == ["refuse", "wait", "segment", "wait", "refuse", "announce 2"]
        assert (row.master, row.epoch, row.in_sync) == (2, 2, (1, 2))
        assert await register.read("broker-a") == row == membership.row
        assert isinstance(master.refused, NotMaster)
        assert (master.refused.master_address, master.refused.epoch) == ("h2:1", 2)

    run(tmp_path, scenario)


@pytest.mark.parametrize(("target", "connected"), [(3, [2]), (2, []), (0, []), (9, [2])])
def test_a_replica_that_cannot_take_over_is_refused_before_anything_waits(
    tmp_path: object, target: int, connected: list[int]
) -> None:
    async def scenario(master: FakeMaster, membership: Membership, register: MemoryRegister) -> None:
        master.connected = connected
        with pytest.raises(RlabError, match="replica"):
            await to(master, membership, target)
        assert master.done == []
        assert membership.is_master

    run(tmp_path, scenario)


def test_a_replica_that_does_not_keep_up_ends_the_handover_and_the_master_serves_on(tmp_path: object) -> None:
    async def scenario(master: FakeMaster, membership: Membership, register: MemoryRegister) -> None:
        master.waits_s = 10.0
        with pytest.raises(ReplicationTimeout, match="serves on"):
            await to(master, membership, 2)
        assert master.done == ["refuse", "wait", "serve"]
        assert master.refused is None
        assert membership.is_master

    run(tmp_path, scenario)


def test_a_disk_that_takes_no_segment_is_handed_over_from_without_one(tmp_path: object) -> None:
    async def scenario(master: FakeMaster, membership: Membership, register: MemoryRegister) -> None:
        def full() -> None:
            raise StoreFull("no room")

        row = await hand_over(master, membership, 2, begin_segment=full, timeout_s=3.0)
        assert row.master == 2
        assert master.done == ["refuse", "wait", "wait", "refuse", "announce 2"]

    run(tmp_path, scenario)


def test_a_replica_that_left_the_set_in_between_does_not_become_the_master(tmp_path: object) -> None:
    async def scenario(master: FakeMaster, membership: Membership, register: MemoryRegister) -> None:
        await register.write(removed_from_in_sync(membership.row, 2, by=1, epoch=1), membership.row.version)
        with pytest.raises(ReplicaNotInSync):
            await to(master, membership, 2)
        assert master.refused is None
        assert membership.is_master

    run(tmp_path, scenario)


def test_a_master_that_was_deposed_in_between_does_not_serve_again(tmp_path: object) -> None:
    async def scenario(master: FakeMaster, membership: Membership, register: MemoryRegister) -> None:
        await register.write(
            elected(membership.row, 2, accept_loss=False, master_answers=False), membership.row.version
        )
        with pytest.raises(DeposedMaster):
            await to(master, membership, 2)
        assert master.refused is not None
        assert not membership.is_master

    run(tmp_path, scenario)


def test_nothing_is_served_while_the_outcome_is_not_known(tmp_path: object) -> None:
    async def scenario(master: FakeMaster, membership: Membership, register: MemoryRegister) -> None:
        register.faults.lose_answers = 1

        async def fail_later() -> None:
            await anyio.sleep(0.2)
            register.faults.down = True
            await anyio.sleep(30)
            assert master.refused is not None
            register.faults.down = False

        async with background_tasks() as tasks:
            tasks.start_soon(fail_later)
            row = await to(master, membership, 2)
        assert row.epoch == 2
        assert master.done[-1] == "announce 2"

    run(tmp_path, scenario)
