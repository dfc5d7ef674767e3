"""Groups cancel in an order that only the program decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

import anyio
import pytest
from anyio._backends import _asyncio as anyio_backend

from testbed.simulation.kernel.loop import VirtualLoop

TASKS = 300


async def tasks_of_an_asyncio_group(ended: list[int]) -> None:
    async def wait(number: int) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(number)

    async def fill_a_group_and_fail() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(TASKS):
                group.create_task(wait(number))
            await anyio.sleep(1)
            raise ValueError

    with pytest.raises(ExceptionGroup):
        await fill_a_group_and_fail()


async def start_and_cancel(wait: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    async with anyio.create_task_group() as group:
        for number in range(TASKS):
            group.start_soon(wait, number)
        await anyio.sleep(1)
        group.cancel_scope.cancel()


async def tasks_of_an_anyio_group(ended: list[int]) -> None:
    async def wait(number: int) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(number)

    await start_and_cancel(wait)


async def tasks_in_scopes_of_their_own(ended: list[int]) -> None:
    async def wait(number: int) -> None:
        try:
            with anyio.CancelScope():
                await anyio.sleep_forever()
        finally:
            ended.append(number)

    await start_and_cancel(wait)


@pytest.mark.parametrize("scenario", [tasks_of_an_asyncio_group, tasks_of_an_anyio_group, tasks_in_scopes_of_their_own])
def test_cancellation_goes_in_one_order_wherever_things_lie_in_memory(
    scenario: Callable[[list[int]], Awaitable[None]],
) -> None:
    litter: list[object] = []
    orders: set[tuple[int, ...]] = set()
    for run in range(3):
        litter.extend(bytes(Random(run + number).randrange(40, 900)) for number in range(5_000))
        del litter[:: run + 2]  # holes of all sizes, for the objects of the next run to lie in
        ended: list[int] = []

        async def main(ended: list[int] = ended) -> None:
            await scenario(ended)

        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(main())
        assert sorted(ended) == list(range(TASKS))
        orders.add(tuple(ended))
    assert len(orders) == 1


def test_numbered_tasks_are_distinguished_and_named_alike_in_every_run() -> None:
    async def main() -> list[str]:
        names: list[str] = []

        async def note() -> None:
            task = asyncio.current_task()
            assert task is not None
            names.append(task.get_name())

        async with asyncio.TaskGroup() as group:
            tasks = {group.create_task(note()) for _ in range(3)}
            tasks.add(group.create_task(note(), name="named"))
        assert len(tasks) == 4
        return names

    def run() -> list[str]:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(main())

    assert run() == run() == ["Task-2", "Task-3", "Task-4", "named"]


def test_other_loops_keep_the_cancel_scopes_of_anyio() -> None:
    original = anyio_backend.CancelScope

    async def inside() -> None:
        assert anyio_backend.CancelScope is not original
        assert isinstance(anyio.CancelScope(), original)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(inside())
    assert anyio_backend.CancelScope is original
