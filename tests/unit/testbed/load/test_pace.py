from __future__ import annotations

import anyio

from testbed.load.pace import MAX_LATE_S, Pace, Turns
from testbed.simulation.kernel.run import Simulation, run_simulation


def test_a_pace_counts_what_is_due_at_a_steady_rate() -> None:
    pace = Pace(rate=4, now=10.0)
    assert [pace.count_due(now) for now in (10.0, 10.1, 10.25, 10.3, 10.9)] == [1, 0, 1, 0, 2]
    assert pace.next_at == 11.0


def test_what_is_late_is_caught_up_with() -> None:
    pace = Pace(rate=8, now=0.0)
    assert pace.count_due(0.5) == 5


def test_after_a_long_stall_only_the_last_second_is_caught_up_with() -> None:
    pace = Pace(rate=8, now=0.0)
    pace.count_due(0.0)
    assert pace.count_due(100.0) == 8 * MAX_LATE_S + 1
    assert pace.next_at == 100.125


def test_while_all_senders_are_busy_only_so_many_turns_wait() -> None:
    async def main(simulation: Simulation) -> None:
        turns = Turns(max_turns=3)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turns.run, 10.0)
            await anyio.sleep(5)
            began_s = simulation.loop.time()
            for _ in range(3):
                await turns.wait_turn()
            assert simulation.loop.time() == began_s
            await turns.wait_turn()
            assert simulation.loop.time() > began_s
            tasks.cancel_scope.cancel()

    run_simulation(main)


def test_a_surge_ends_the_waits_between_sends() -> None:
    async def main(simulation: Simulation) -> None:
        turns = Turns(max_turns=1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turns.wait_turn)
            tasks.start_soon(turns.wait_turn)
            await anyio.sleep(1)
            with turns.surge(), turns.surge():
                await anyio.sleep(1)
                await turns.wait_turn()
        assert simulation.loop.time() == 2
        with anyio.move_on_after(10) as waiting:
            await turns.wait_turn()
        assert waiting.cancelled_caught, "the surge is over, and no turn is due"

    run_simulation(main)
