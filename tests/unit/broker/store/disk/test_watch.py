"""A sync that does not end is found while it runs, and a write that blocked the loop when it has ended."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio
import pytest

from broker.store.disk.watch import DiskWatch
from model.replica_limits import STUCK_DISK_S
from testbed.simulation.kernel.run import Simulation, run_simulation

IN_TIME_S = STUCK_DISK_S - 0.1


class World:
    """One watch in virtual time; `changes` has what it reported."""

    def __init__(self, simulation: Simulation) -> None:
        self.now = simulation.loop.time
        self.changes: list[bool] = []
        self.disk = DiskWatch(simulation.loop, "/data", lambda: self.changes.append(self.disk.is_stuck))


def in_world(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        await scenario(World(simulation))

    run_simulation(main)


def test_a_sync_that_ends_in_time_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        for _ in range(3):
            world.disk.sync_began()
            await anyio.sleep(IN_TIME_S)
            assert world.disk.running_s == pytest.approx(IN_TIME_S)
            world.disk.sync_ended()
        world.disk.sync_ended()
        await anyio.sleep(2 * STUCK_DISK_S)
        assert (world.changes, world.disk.running_s) == ([], 0.0)

    in_world(scenario)
    assert caplog.records == []


def test_a_sync_that_hangs_is_reported_once_while_it_runs_and_once_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: World) -> None:
        with world.disk.syncing():
            await anyio.sleep(STUCK_DISK_S)
            await anyio.sleep(8.0)
            assert world.changes == [True]
        assert (world.changes, world.disk.is_stuck) == ([True, False], False)

    in_world(scenario)
    hangs, over = caplog.records
    assert (hangs.levelno, over.levelno) == (logging.ERROR, logging.WARNING)
    assert "/data: a sync has taken 2.0 s and has not ended" in hangs.message
    assert over.message == "/data: the sync that had hung took 10.0 s"


@pytest.mark.parametrize(("took_s", "n_reported"), [(IN_TIME_S, 0), (STUCK_DISK_S, 1)])
def test_a_write_that_blocked_the_loop_for_long_is_reported(
    caplog: pytest.LogCaptureFixture, took_s: float, n_reported: int
) -> None:
    async def scenario(world: World) -> None:
        began_at = world.now()
        await anyio.sleep(took_s)
        world.disk.wrote(began_at)

    in_world(scenario)
    assert len(caplog.records) == n_reported
