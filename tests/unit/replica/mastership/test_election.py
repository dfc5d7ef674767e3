"""When a replica that follows stands for election, and what it writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import anyio
import pytest

from broker.config import BrokerConfig
from model.replica_set import NO_MASTER, ReplicaSet
from replica.config import ReplicaConfig
from replica.lease.promise import RANK_S, Promise
from replica.mastership.election import HANDED_OVER, Candidate
from replica.membership import Membership
from replica.registers.memory import MemoryRegister, RegisterFaults
from replica.sets import begun, create, elected, handed_over, joined, started
from testbed.simulation.cluster.servers import UnsyncedFiles
from testbed.simulation.kernel.run import Simulation, run_simulation

FILES = UnsyncedFiles()


class World:
    """A set of three replicas in the register, of which this process is the second one."""

    def __init__(self, simulation: Simulation, directory: Path) -> None:
        self.clock = simulation.loop.time
        self.rows = MemoryRegister(register_id=9)
        self.faults = RegisterFaults()
        self.lacks = False
        self.is_fit = True
        self._directory = directory

    async def begin(self, *in_sync: int) -> None:
        row = create("b", "h1:1", set_id=7, copies=3)
        row, _ = joined(row, "h2:1")
        row, _ = joined(row, "h3:1")
        await self.rows.write(row, 0)
        broker = BrokerConfig(name="b", data_dir=self._directory, files=FILES, rng=Random(1))
        self.membership = Membership(ReplicaConfig(broker=broker, register=self.rows.seen_with(self.faults)), "h2:1")
        await self.membership.begin()
        await self.change(lambda row: replace(started(row, 3, "h3:1"), in_sync=in_sync))
        await self.membership.refresh()
        self.promise = Promise(self.clock())
        self.candidate = Candidate(
            *(self.membership, self.promise, self.clock), lacks=lambda: self.lacks, is_fit=lambda: self.is_fit
        )
        self.candidate.saw(self.membership.row)

    async def change(self, decide: Callable[[ReplicaSet], ReplicaSet]) -> ReplicaSet:
        row = await self.rows.read("b")
        assert row is not None
        return await self.rows.write(decide(row), row.version)

    async def due_in(self, timeout_s: float = 30.0) -> float | None:
        """Seconds until it is due; None if it is not in time."""
        began_at = self.clock()
        with anyio.move_on_after(timeout_s):
            await self.candidate.wait_due()
            return round(self.clock() - began_at, 3)
        return None


def in_world(tmp_path: Path, scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        await scenario(World(simulation, tmp_path))

    run_simulation(main)


def test_a_replica_is_due_when_its_promise_is_over_and_takes_over_without_the_old_master(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2, 3)
        assert await world.due_in() == 2.2
        await world.candidate.stand()
        row = world.membership.row
        assert (row.master, row.epoch, row.in_sync) == (2, 2, (2, 3))
        assert world.candidate.election is not None
        assert world.candidate.election.cause == "the lease of replica 1 was over"

    in_world(tmp_path, scenario)


def test_each_confirmation_puts_it_off(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2)
        async with anyio.create_task_group() as tasks:

            async def confirm() -> None:
                for _ in range(10):
                    await anyio.sleep(0.3)
                    world.candidate.confirms()

            tasks.start_soon(confirm)
            assert await world.due_in() == 5.2

    in_world(tmp_path, scenario)


def test_a_replica_that_lacks_a_part_of_the_log_lets_the_others_go_first(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2, 3)
        world.lacks = True
        assert await world.due_in() == round(2.2 + 2 * RANK_S, 3)

    in_world(tmp_path, scenario)


def test_a_replica_that_is_not_in_sync_or_has_a_damaged_log_is_not_due(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 3)
        assert await world.due_in() is None
        await world.change(lambda row: replace(row, in_sync=(1, 2, 3)))
        world.is_fit = False
        await world.membership.refresh()
        assert await world.due_in() is None
        world.is_fit = True
        waited_s = await world.due_in()
        assert waited_s is not None
        assert waited_s < 1.5

    in_world(tmp_path, scenario)


def test_without_a_master_and_when_the_master_is_known_to_be_gone_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2)
        world.candidate.released("the process of replica 1 has ended")
        assert await world.due_in() == 0.0
        await world.change(lambda row: replace(row, master=NO_MASTER, epoch=2, in_sync=(2,), stopped_epoch=1))
        await world.membership.refresh()
        world.candidate.saw(world.membership.row)
        assert await world.due_in() == 0.0
        await world.candidate.stand()
        assert (world.membership.row.master, world.membership.row.epoch) == (2, 3)

    in_world(tmp_path, scenario)


def test_the_promise_to_a_new_master_begins_when_its_row_is_seen(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2, 3)
        await anyio.sleep(2.1)
        await world.change(lambda row: handed_over(row, 3, by=1, epoch=1, leaves=True))
        assert await world.due_in() == 2.3  # 0.1 s until the old promise is over and the row is read, then a new one
        await world.candidate.stand()
        assert world.membership.row.in_sync == (2,)

    in_world(tmp_path, scenario)


def test_a_replica_that_is_too_late_follows_the_winner(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2, 3)
        assert await world.due_in() == 2.2
        await world.change(lambda row: replace(row, master=3, epoch=2, in_sync=(2, 3)))
        await world.candidate.stand()
        assert world.membership.row.master == 3
        assert world.candidate.election is None

    in_world(tmp_path, scenario)


def test_a_frame_that_comes_at_the_last_moment_ends_the_attempt(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2)
        await world.due_in()
        world.candidate.confirms()
        await world.candidate.stand()
        assert world.membership.row.master == 1

    in_world(tmp_path, scenario)


def test_while_the_register_does_not_answer_nothing_is_due(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2)
        world.faults.down = True
        assert await world.due_in() is None
        world.candidate.confirms()
        world.faults.down = False
        assert await world.due_in() == 2.2

    in_world(tmp_path, scenario)


def operators_choice(replica_id: int) -> Callable[[ReplicaSet], ReplicaSet]:
    """The change of an operator who elects a replica."""
    return lambda row: elected(row, replica_id, accept_loss=True, master_answers=True)


@pytest.mark.parametrize("leaves", [False, True])
def test_after_a_handover_whose_last_frame_is_lost_the_next_master_begins_at_once(tmp_path: Path, leaves: bool) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2)
        world.candidate.confirms()
        await world.change(lambda row: handed_over(row, 2, by=1, epoch=1, leaves=leaves))
        await world.membership.refresh()
        began_at = world.clock()
        await world.candidate.wait_free()
        assert world.clock() == began_at
        assert world.candidate.election is not None
        assert world.candidate.election.cause == "handover"

    in_world(tmp_path, scenario)


def test_a_replica_that_an_operator_elected_waits_for_its_promise_and_records_that_it_begins(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2)
        world.candidate.confirms()
        await world.change(operators_choice(2))
        assert not (await world.membership.refresh()).has_settled
        began_at = world.clock()
        await world.candidate.wait_free()
        assert round(world.clock() - began_at, 1) == 2.2
        assert world.membership.row.has_settled
        assert world.candidate.election is not None
        assert world.candidate.election.cause == "operator"

    in_world(tmp_path, scenario)


def test_a_master_of_an_earlier_version_leaves_the_field_out_and_its_last_frame_is_enough(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2)
        world.candidate.confirms()
        world.candidate.released(HANDED_OVER)
        await world.change(lambda row: replace(handed_over(row, 2, by=1, epoch=1), stopped_epoch=0))
        await world.membership.refresh()
        began_at = world.clock()
        await world.candidate.wait_free()
        assert world.clock() - began_at < 0.1
        assert world.candidate.election is not None

    in_world(tmp_path, scenario)


def test_the_others_let_the_choice_of_an_operator_begin_first_however_late_it_sees_the_row(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2, 3)
        await world.change(operators_choice(3))
        world.candidate.saw(await world.membership.refresh())
        # Replica 3 sees the row up to a second later, and has confirmed a frame of replica 1 just before.
        waited_s = await world.due_in()
        assert waited_s is not None
        assert waited_s > 1.0 + 2.2 + 2.0
        await world.change(lambda row: begun(row, 3, epoch=2))
        await world.candidate.stand()
        assert (world.membership.row.master, world.candidate.election) == (3, None)
        assert await world.due_in() == 2.2  # the time until its first frame

    in_world(tmp_path, scenario)


def test_a_set_without_a_master_waits_for_an_earlier_one_that_may_serve(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2, 3)
        world.candidate.confirms()
        await world.change(operators_choice(3))
        await world.change(lambda row: started(row, 3, "h3:1", clean=False))
        row = await world.membership.refresh()
        assert (row.master, row.in_sync) == (NO_MASTER, (2,))
        world.candidate.saw(row)
        assert await world.due_in() == 2.2

    in_world(tmp_path, scenario)


def test_a_replica_that_was_elected_does_not_begin_if_another_one_is_the_master_when_its_promise_is_over(
    tmp_path: Path,
) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2, 3)
        world.candidate.confirms()
        await world.change(operators_choice(2))
        await world.membership.refresh()
        await world.change(operators_choice(3))
        await world.candidate.wait_free()
        assert world.candidate.election is None
        assert (world.membership.row.master, world.membership.row.epoch) == (3, 3)

    in_world(tmp_path, scenario)


def test_a_replica_that_an_operator_elected_twice_waits_for_the_second_row(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.begin(1, 2, 3)
        await world.change(operators_choice(2))
        await world.membership.refresh()
        await world.change(operators_choice(3))
        await world.change(operators_choice(2))
        await world.candidate.wait_free()
        assert world.candidate.election is None
        await world.candidate.wait_free()
        assert world.membership.row.has_settled
        assert world.candidate.election is not None

    in_world(tmp_path, scenario)


def test_a_wait_ends_although_the_clock_of_leases_has_another_rate_than_the_timers(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        loop_time = world.clock
        world.clock = lambda: 0.957 * loop_time()
        await world.begin(1, 2)
        for _ in range(300):
            await anyio.sleep(0.0137)
            world.candidate.confirms()
            waited_s = await world.due_in()
            assert waited_s is not None
            assert 2.2 <= waited_s < 2.21

    in_world(tmp_path, scenario)
