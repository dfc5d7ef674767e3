"""A write that gets no answer is written again until there is one, and is applied once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
import pytest

from model.errors import IllegalOperation, RegisterUnavailable
from model.replica_limits import REGISTER_RETRY_S
from model.replica_set import ReplicaSet, SetChanged
from replica.register import write_until_answered
from replica.registers.memory import MemoryRegister, RegisterFaults
from replica.sets import create, with_options
from testbed.simulation.kernel.run import Simulation, run_simulation

NEW = create("broker-a", "h1:1", set_id=7, copies=2)
Scenario = Callable[[MemoryRegister, MemoryRegister, ReplicaSet], Awaitable[None]]


def check(scenario: Scenario) -> None:
    """Run with a faulty register, the same rows without faults, and a stored row."""

    async def main(_: Simulation) -> None:
        register = MemoryRegister(register_id=5)
        await scenario(register.seen_with(RegisterFaults()), register, await register.write(NEW, 0))

    run_simulation(main)


def test_a_write_without_an_answer_is_found_by_writing_it_again() -> None:
    async def scenario(faulty: MemoryRegister, register: MemoryRegister, row: ReplicaSet) -> None:
        faulty.faults.lose_answers = 1
        stored = await write_until_answered(faulty, with_options(row, copies=3), 1, within_s=5.0)
        assert stored == replace(row, copies=3, version=2) == await register.read("broker-a")

    check(scenario)


def test_a_register_that_comes_back_in_time_is_written() -> None:
    async def scenario(faulty: MemoryRegister, register: MemoryRegister, row: ReplicaSet) -> None:
        faulty.faults.down = True

        async def repair() -> None:
            await anyio.sleep(3.0)
            faulty.faults.down = False

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(repair)
            await write_until_answered(faulty, with_options(row, copies=3), 1, within_s=5.0)
        assert anyio.current_time() == pytest.approx(3.0, abs=2 * REGISTER_RETRY_S)

    check(scenario)


def test_a_register_that_stays_away_is_reported_within_the_time() -> None:
    async def scenario(faulty: MemoryRegister, register: MemoryRegister, row: ReplicaSet) -> None:
        faulty.faults.down = True
        with pytest.raises(RegisterUnavailable):
            await write_until_answered(faulty, row, 1, within_s=5.0)
        assert 5.0 - 2 * REGISTER_RETRY_S <= anyio.current_time() <= 5.0

    check(scenario)


def test_a_row_that_another_caller_changed_is_reported_with_the_row() -> None:
    async def scenario(faulty: MemoryRegister, register: MemoryRegister, row: ReplicaSet) -> None:
        other = await register.write(with_options(row, copies=4), 1)
        with pytest.raises(SetChanged) as refused:
            await write_until_answered(faulty, with_options(row, copies=3), 1, within_s=5.0)
        assert refused.value.current == other

    check(scenario)


def test_a_refusal_of_the_register_is_not_repeated() -> None:
    async def scenario(faulty: MemoryRegister, register: MemoryRegister, row: ReplicaSet) -> None:
        with pytest.raises(IllegalOperation):
            await write_until_answered(faulty, replace(row, set_id=8), 1, within_s=5.0)
        assert anyio.current_time() == 0.0

    check(scenario)


def test_a_write_that_arrives_late_changes_nothing_once_the_answer_is_known() -> None:
    async def scenario(faulty: MemoryRegister, register: MemoryRegister, row: ReplicaSet) -> None:
        wanted = with_options(row, copies=3)
        faulty.faults.delay_s = 10.0  # under way for as long
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(expect_changed, faulty, wanted)
            stored = await write_until_answered(register, wanted, 1, within_s=5.0)
            last = await register.write(with_options(stored, copies=4), 2)
        assert await register.read("broker-a") == last

    check(scenario)


async def expect_changed(register: MemoryRegister, new: ReplicaSet) -> None:
    with pytest.raises(SetChanged):
        await register.write(new, 1)
