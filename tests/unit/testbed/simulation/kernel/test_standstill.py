"""A process that is stopped, and a machine that is paused: what runs meanwhile, and when its timers fire."""

from __future__ import annotations

import anyio

from testbed.simulation.kernel.run import Simulation, run_simulation


async def _tick(simulation: Simulation, ticks: list[tuple[float, float]]) -> None:
    while True:
        await anyio.sleep(1.0)
        ticks.append((simulation.loop.kernel.now_s, simulation.loop.time()))


def ticks_of(fault: str) -> list[tuple[float, float]]:
    """True time and the host's own time of each tick; the host stands still from 2.5 to 6.0."""
    ticks: list[tuple[float, float]] = []

    async def main(simulation: Simulation) -> None:
        async with anyio.create_task_group() as tasks:
            with simulation.on_host("a"):
                tasks.start_soon(_tick, simulation, ticks)
            await anyio.sleep(2.5)
            stands = getattr(simulation.network, fault)("a")
            assert simulation.network.standstill.stands("a")
            await anyio.sleep(3.5)
            stands.heal()
            stands.heal()
            await anyio.sleep(2.2)
            tasks.cancel_scope.cancel()

    run_simulation(main)
    return [(round(true_s, 3), round(own_s, 3)) for true_s, own_s in ticks]


def test_a_process_that_was_stopped_runs_at_once_what_became_due_and_its_clock_went_on() -> None:
    assert ticks_of("freeze") == [(1.0, 1.0), (2.0, 2.0), (6.0, 6.0), (7.0, 7.0), (8.0, 8.0)]


def test_a_machine_that_was_paused_goes_on_where_it_was() -> None:
    assert ticks_of("pause_machine") == [(1.0, 1.0), (2.0, 2.0), (6.5, 3.0), (7.5, 4.0)]


def test_other_hosts_go_on_and_hosts_stand_still_one_by_one() -> None:
    ran: list[str] = []

    async def note(host: str) -> None:
        await anyio.sleep(1.0)
        ran.append(host)

    async def main(simulation: Simulation) -> None:
        async with anyio.create_task_group() as tasks:
            for host in ("a", "b", "c"):
                with simulation.on_host(host):
                    tasks.start_soon(note, host)
            await anyio.sleep(0.5)
            with simulation.network.freeze("a"), simulation.network.pause_machine("b"):
                await anyio.sleep(2.0)
                assert ran == ["c"]
            await anyio.sleep(0.1)
            assert ran == ["c", "a"]

    run_simulation(main)
    assert ran == ["c", "a", "b"]


def test_a_process_that_is_cancelled_while_it_is_stopped_ends_when_it_goes_on() -> None:
    ended: list[tuple[str, float]] = []

    async def end(simulation: Simulation, host: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append((host, round(simulation.loop.kernel.now_s, 1)))

    async def main(simulation: Simulation) -> None:
        async with anyio.create_task_group() as tasks:
            for host in ("a", "b"):
                with simulation.on_host(host):
                    tasks.start_soon(end, simulation, host)
            await anyio.sleep(1.0)
            simulation.loop.call_later(6.0, simulation.network.freeze("a").heal)
            tasks.cancel_scope.cancel()

    run_simulation(main)
    assert ended == [("b", 1.0), ("a", 7.0)]
