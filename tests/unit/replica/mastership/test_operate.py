"""What an operator changes in the row of a set."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from model.errors import InvalidParameter
from model.replica_set import ReplicaSet
from replica.mastership.operate import elect, forget_replica
from replica.registers.memory import MemoryRegister, RegisterFaults
from replica.sets import MasterAnswers, ReplicaNeeded, ReplicaNotInSync, create, in_sync_with, joined, started
from testbed.simulation.kernel.run import Simulation, run_simulation


def run(scenario: Callable[[MemoryRegister], Awaitable[None]]) -> None:
    """Run a scenario with a set whose replica 2 is in sync, and whose replica 3 is not."""

    async def main(_: Simulation) -> None:
        register = MemoryRegister(faults=RegisterFaults())
        row = create("broker-a", "h1:1", set_id=7, copies=3)
        for number in (2, 3):
            row = joined(row, f"h{number}:1")[0]
            row = started(row, number, f"h{number}:1")
        await register.write(in_sync_with(row, 2, by=1, epoch=1, incarnation=1), 0)
        await scenario(register)

    run_simulation(main)


async def away(address: str) -> bool:
    """No master answers."""
    return False


async def there(address: str) -> bool:
    """The master answers."""
    return True


def test_a_replica_in_sync_is_elected_if_the_master_does_not_answer() -> None:
    async def scenario(register: MemoryRegister) -> None:
        with pytest.raises(MasterAnswers, match="hand over"):
            await elect(register, "broker-a", 2, accept_loss=False, answers=there)
        row = await elect(register, "broker-a", 2, accept_loss=False, answers=away)
        assert (row.master, row.epoch, row.in_sync) == (2, 2, (2,))
        assert await register.read("broker-a") == row

    run(scenario)


def test_a_replica_that_may_lack_messages_is_elected_only_if_the_operator_accepts_the_loss() -> None:
    async def scenario(register: MemoryRegister) -> None:
        with pytest.raises(ReplicaNotInSync, match="accept-loss"):
            await elect(register, "broker-a", 3, accept_loss=False, answers=away)
        row = await elect(register, "broker-a", 3, accept_loss=True, answers=there)
        assert (row.master, row.in_sync) == (3, (3,))

    run(scenario)


def test_an_election_whose_answer_is_lost_is_made_once() -> None:
    async def scenario(register: MemoryRegister) -> None:
        register.faults.lose_answers = 2
        assert (await elect(register, "broker-a", 2, accept_loss=False, answers=away)).epoch == 2

    run(scenario)


def test_a_change_in_between_is_decided_again() -> None:
    async def scenario(register: MemoryRegister) -> None:
        changed: list[ReplicaSet] = []

        async def change_first(address: str) -> bool:
            row = await register.read("broker-a")
            assert row is not None
            if not changed:
                changed.append(await register.write(joined(row, "h4:1")[0], row.version))
            return False

        row = await elect(register, "broker-a", 2, accept_loss=False, answers=change_first)
        assert (row.master, len(row.members)) == (2, 4)

    run(scenario)


def test_a_member_that_is_gone_is_forgotten_unless_the_set_needs_it() -> None:
    async def scenario(register: MemoryRegister) -> None:
        for needed in (1, 2):
            with pytest.raises(ReplicaNeeded):
                await forget_replica(register, "broker-a", needed)
        assert [member.replica_id for member in (await forget_replica(register, "broker-a", 3)).members] == [1, 2]

    run(scenario)


def test_a_set_that_does_not_exist_is_named() -> None:
    async def scenario(register: MemoryRegister) -> None:
        with pytest.raises(InvalidParameter, match="broker-z"):
            await elect(register, "broker-z", 2, accept_loss=False, answers=away)

    run(scenario)
