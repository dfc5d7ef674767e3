"""The timer of a pure core acts at its deadlines, in virtual time."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from model.limits import MAX_READ_FIRST, READ_FIRST_S
from remoting.deadline_driver import DeadlineDriver
from testbed.simulation.kernel.run import Simulation, run_simulation


class Deadlines:
    """A core that has nothing but deadlines; notes when each was acted upon."""

    def __init__(self, *deadlines: float) -> None:
        self.pending = list(deadlines)
        self.done: list[tuple[float, float]] = []
        self.calls = 0

    def next_deadline(self) -> float | None:
        return min(self.pending, default=None)

    def act(self, now: float) -> None:
        self.calls += 1
        self.done += [(deadline, now) for deadline in self.pending if deadline <= now]
        self.pending = [deadline for deadline in self.pending if deadline > now]


def run(core: Deadlines, additions: dict[float, float]) -> None:
    """Drive the core for 100 virtual seconds; at each time of `additions` a deadline is added."""

    async def main(simulation: Simulation) -> None:
        driver = DeadlineDriver(core.next_deadline, core.act)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driver.run)
            for when, deadline in additions.items():
                await anyio.sleep_until(when)
                core.pending.append(deadline)
                driver.wake_by(deadline)
            await anyio.sleep_until(100)
            tasks.cancel_scope.cancel()

    run_simulation(main)


def test_each_deadline_is_met_on_time() -> None:
    core = Deadlines(3.0, 1.0, 2.5)
    run(core, {})
    assert core.done == [(1.0, 1.0), (2.5, 2.5), (3.0, 3.0)]


@pytest.mark.parametrize("pending", [[], [50.0]])
def test_a_deadline_that_is_added_while_it_waits_for_a_later_one_or_none_is_met(pending: list[float]) -> None:
    core = Deadlines(*pending)
    run(core, {5.0: 7.0, 6.0: 6.5})
    assert core.done[:2] == [(6.5, 6.5), (7.0, 7.0)]


def test_a_deadline_in_the_past_is_met_at_once() -> None:
    core = Deadlines()
    run(core, {5.0: 1.0})
    assert core.done == [(1.0, 5.0)]


def test_a_later_deadline_does_not_wake_it() -> None:
    core = Deadlines(10.0)
    run(core, {1.0: 20.0, 2.0: 30.0})
    assert core.calls == 3
    assert core.done == [(10.0, 10.0), (20.0, 20.0), (30.0, 30.0)]


@pytest.mark.parametrize(("reads_first", "acted_at"), [(True, 15.0 + READ_FIRST_S), (False, 15.0)])
def test_after_a_time_in_which_nothing_ran_a_server_reads_before_it_acts(reads_first: bool, acted_at: float) -> None:
    core = Deadlines(12.0)

    async def main(simulation: Simulation) -> None:
        driver = DeadlineDriver(core.next_deadline, core.act, reads_first=reads_first)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driver.run)
            await anyio.sleep_until(10)
            simulation.loop.kernel.now_s += 5.0  # the process did not run
            await anyio.sleep(1)
            tasks.cancel_scope.cancel()

    run_simulation(main)
    assert [round(acted, 3) for _, acted in core.done] == [acted_at]


def test_a_server_that_is_late_again_and_again_acts_in_the_end() -> None:
    core = Deadlines(12.0)

    async def main(simulation: Simulation) -> None:
        driver = DeadlineDriver(core.next_deadline, core.act, reads_first=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driver.run)
            await anyio.sleep_until(10)
            for _ in range(2 * (MAX_READ_FIRST + 2)):
                simulation.loop.kernel.now_s += 5.0
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()

    run_simulation(main)
    assert len(core.done) == 1
