"""The register in memory: its faults."""

from __future__ import annotations

import pytest

from model.errors import RegisterUnavailable
from model.replica_set import was_written
from replica.registers.memory import MemoryRegister, RegisterFaults
from replica.sets import create
from testbed.simulation.kernel.run import Simulation, run_simulation

ROW = create("broker-a", "h1:1", set_id=7)


def test_a_register_that_is_down_for_one_caller_serves_another() -> None:
    async def main(_: Simulation) -> None:
        register, faults = MemoryRegister(), RegisterFaults(down=True)
        cut_off = register.seen_with(faults)
        with pytest.raises(RegisterUnavailable):
            await cut_off.write(ROW, 0)
        assert await register.read("broker-a") is None
        await register.write(ROW, 0)
        faults.down = False
        assert await cut_off.rows() == await register.rows() != []

    run_simulation(main)


def test_a_write_whose_answer_is_lost_is_applied_and_found_again() -> None:
    async def main(_: Simulation) -> None:
        register = MemoryRegister(faults=RegisterFaults(lose_answers=1))
        with pytest.raises(RegisterUnavailable):
            await register.write(ROW, 0)
        assert was_written(ROW, 0, await register.read("broker-a"))
        await register.write((await register.rows())[0], 1)

    run_simulation(main)
