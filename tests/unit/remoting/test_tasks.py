"""Tasks that live as long as a block, whose own error is not wrapped; jobs side by side; and the home of a client."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import anyio
import pytest

from model.errors import IllegalOperation
from remoting.tasks import OwningLoop, background_tasks, run_together
from testbed.simulation.kernel.run import Simulation, run_simulation


def test_tasks_end_with_the_block() -> None:
    ended: list[str] = []

    async def task() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("task")

    async def main(_: Simulation) -> None:
        async with background_tasks() as tasks:
            tasks.start_soon(task)
            await anyio.sleep(1)
        ended.append("block")

    run_simulation(main)
    assert ended == ["task", "block"]


def test_the_error_of_the_block_comes_out_as_itself() -> None:
    cause, error = KeyError("cause"), ValueError("block")

    async def main(_: Simulation) -> None:
        async with background_tasks() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            raise error from cause

    with pytest.raises(ValueError, match="block") as caught:
        run_simulation(main)
    assert caught.value is error
    assert caught.value.__cause__ is cause


def test_a_group_that_the_block_raised_stays_a_group() -> None:
    async def main(_: Simulation) -> None:
        async with background_tasks():
            raise ExceptionGroup("two", [ValueError("a"), KeyError("b")])

    with pytest.raises(ExceptionGroup, match="two"):
        run_simulation(main)


def test_a_task_that_fails_ends_the_block_with_its_error() -> None:
    async def failing() -> None:
        raise ValueError("task")

    async def main(_: Simulation) -> None:
        async with background_tasks() as tasks:
            tasks.start_soon(failing)
            await anyio.sleep_forever()

    with pytest.raises(ValueError, match="task"):
        run_simulation(main)


def test_errors_of_the_block_and_of_a_task_come_out_together() -> None:
    async def failing() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise KeyError("task")

    async def main(_: Simulation) -> None:
        async with background_tasks() as tasks:
            tasks.start_soon(failing)
            await anyio.sleep(1)
            raise ValueError("block")

    with pytest.raises(ExceptionGroup) as caught:
        run_simulation(main)
    assert sorted(type(error).__name__ for error in caught.value.exceptions) == ["KeyError", "ValueError"]


def test_cancellation_from_outside_is_not_an_error() -> None:
    async def main(_: Simulation) -> None:
        with anyio.move_on_after(5) as scope:
            async with background_tasks() as tasks:
                tasks.start_soon(anyio.sleep_forever)
                await anyio.sleep_forever()
        assert scope.cancelled_caught

    run_simulation(main)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_jobs_run_side_by_side_until_all_have_ended(n: int) -> None:
    ended: list[int] = []

    async def job(number: int) -> None:
        await anyio.sleep(number + 1)
        ended.append(number)

    async def main(simulation: Simulation) -> None:
        await run_together([partial(job, number) for number in range(n)])
        assert simulation.loop.time() == n

    run_simulation(main)
    assert ended == list(range(n))


def test_the_only_job_that_fails_is_not_wrapped_and_one_of_several_is() -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def main(_: Simulation) -> None:
        with pytest.raises(ValueError, match="no"):
            await run_together([fails])
        with pytest.raises(ExceptionGroup):
            await run_together([fails, anyio.sleep_forever])

    run_simulation(main)


# --- the home of a client --------------------------------------------------------------------------------------------


async def home_here() -> OwningLoop:
    return OwningLoop()


async def use(home: OwningLoop) -> str:
    home.check()
    return home.guard(str.upper)("sent")


def test_a_client_is_used_in_the_event_loop_that_it_was_started_in() -> None:
    async def start_and_use() -> str:
        return await use(OwningLoop())

    assert asyncio.run(start_and_use()) == "SENT"


def test_a_second_event_loop_is_refused_after_the_first_one_beside_it_and_inside_no_loop() -> None:
    with asyncio.Runner() as first, ThreadPoolExecutor() as beside:
        home = first.run(home_here())

        async def from_another_thread() -> None:
            await asyncio.wrap_future(beside.submit(asyncio.run, use(home)))

        with pytest.raises(IllegalOperation, match="another event loop"):
            asyncio.run(use(home))
        with pytest.raises(IllegalOperation, match="another event loop"):
            first.run(from_another_thread())
        with pytest.raises(IllegalOperation, match="another event loop"):
            home.check()
        assert first.run(use(home)) == "SENT"


def test_an_event_loop_may_go_on_in_another_thread() -> None:
    loop = asyncio.new_event_loop()
    home = loop.run_until_complete(home_here())
    with ThreadPoolExecutor() as elsewhere:
        assert elsewhere.submit(loop.run_until_complete, use(home)).result() == "SENT"
        assert elsewhere.submit(loop.run_until_complete, use(home)).result() == "SENT"
    assert loop.run_until_complete(use(home)) == "SENT"
    loop.close()
