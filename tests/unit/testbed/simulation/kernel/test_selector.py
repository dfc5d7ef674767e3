"""What the simulated kernel does when its loop has nothing to run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import anyio
import pytest

from testbed.simulation.kernel.loop import VirtualLoop
from testbed.simulation.kernel.selector import CLEANUP_S, MAX_TASKS_SHOWN, SimulationDeadlock, SimulationTimeout

T = TypeVar("T")


def run(main: Callable[[], Awaitable[T]], *, start_s: float = 0.0, limit_s: float = 86_400.0) -> T:
    async def body() -> T:
        return await main()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start_s=start_s, limit_s=limit_s)) as runner:
        return runner.run(body())


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_what_the_kernel_booked_happens_before_the_timers_of_that_instant_in_order() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        happened: list[str] = []
        loop.call_later(1, happened.append, "timer")
        for when_s, name in ((1.0, "first"), (1.0, "second"), (0.5, "earlier")):
            loop.kernel.at(when_s, partial(happened.append, name))
        await anyio.sleep(2)
        return happened

    assert run(main) == ["earlier", "first", "second", "timer"]


def test_a_deadlock_names_the_tasks_and_where_they_wait() -> None:
    async def wait_for_nothing() -> None:
        await anyio.Event().wait()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(wait_for_nothing, name="stuck consumer")
            await anyio.sleep(3)

    with pytest.raises(SimulationDeadlock) as caught:
        run(main)
    assert "at 3.000000 s of virtual time nothing is ready" in str(caught.value)
    assert re.search(r"  stuck consumer: .*wait_for_nothing \(kernel/test_selector.py:\d+\) > ", str(caught.value))
    assert re.search(r"  Task-1: body \(kernel/test_selector.py:\d+\) > main \(", str(caught.value))


def test_a_deadlock_report_is_bounded() -> None:
    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(1_000):
                group.start_soon(anyio.sleep_forever)

    with pytest.raises(SimulationDeadlock) as caught:
        run(main)
    assert str(caught.value).endswith(f"... and {1_001 - MAX_TASKS_SHOWN} more")
    assert len(str(caught.value).splitlines()) == MAX_TASKS_SHOWN + 2


def test_a_deadlock_lets_the_tasks_clean_up() -> None:
    cleaned: list[str] = []

    async def main() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            cleaned.append("cleaned")

    with pytest.raises(SimulationDeadlock):
        run(main)
    assert cleaned == ["cleaned"]


def test_a_simulation_that_lives_on_its_timers_ends_at_the_limit_and_may_clean_up() -> None:
    cleaned: list[float] = []

    async def main() -> None:
        try:
            for _ in range(100):
                await anyio.sleep(30)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(CLEANUP_S / 2)
            cleaned.append(now_s())

    with pytest.raises(SimulationTimeout, match=r"at its limit, 1100\.000000 s .*raise limit_s(.|\n)*main \("):
        run(main, start_s=1_000.0, limit_s=100.0)
    assert len(cleaned) == 1
