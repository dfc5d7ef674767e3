"""Tasks that outlive the function that started them, and end when they are told to."""

from __future__ import annotations

import gc
import traceback
from functools import partial

import anyio
import pytest

from client.instance.background import BackgroundTasks
from model.errors import ClientFailed, ConfigError, IllegalOperation
from testbed.simulation.kernel.run import Simulation, run_simulation


def test_tasks_run_until_stop_and_have_ended_when_it_returns() -> None:
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(3)
            ended.append(name)

    async def main(simulation: Simulation) -> None:
        background = BackgroundTasks("test")
        await background.start()
        background.start_soon(work, "a")
        background.start_soon(work, "b")
        await anyio.sleep(1)
        assert background.running
        await background.stop()
        assert ended == ["a", "b"]
        assert not background.running
        await background.stop()

    run_simulation(main)


def test_nothing_is_started_before_the_start_and_after_the_stop() -> None:
    async def main(simulation: Simulation) -> None:
        background = BackgroundTasks("consumer of g")
        assert not background.running
        with pytest.raises(IllegalOperation, match="consumer of g is not running"):
            background.start_soon(anyio.sleep, 1)
        await background.stop()
        await background.start()
        await background.stop()
        with pytest.raises(IllegalOperation, match="consumer of g is not running"):
            background.start_soon(anyio.sleep, 1)

    run_simulation(main)


def test_who_waits_is_reported_what_a_task_raised_and_goes_on_when_there_was_nothing() -> None:
    async def broken() -> None:
        await anyio.sleep(1)
        raise ValueError("a bug")

    async def main(simulation: Simulation) -> None:
        failing = BackgroundTasks("failing")
        await failing.start()
        failing.start_soon(broken)
        with pytest.raises(ClientFailed, match=r"failing has ended .*broken raised ValueError\('a bug'\)") as caught:
            await failing.wait()
        assert isinstance(caught.value.__cause__, ValueError)
        assert not failing.running

        fine = BackgroundTasks("fine")
        await fine.start()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fine.wait)
            await anyio.sleep(1)
            await fine.stop()

    run_simulation(main)


def test_a_failure_is_reported_at_once_and_only_once_though_no_one_waits(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> None:
        raise ValueError("a bug")

    async def main(simulation: Simulation) -> None:
        background = BackgroundTasks("consumer of g")
        await background.start()
        background.start_soon(broken)
        await anyio.sleep(1)
        assert len(caplog.records) == 1
        await background.stop()

    run_simulation(main)
    gc.collect()
    (reported,) = caplog.records
    assert reported.levelname == "CRITICAL"
    assert "consumer of g" in reported.getMessage()
    # Not of the text of the log, whose form is changed by Spark if its tests ran in this process.
    assert reported.exc_info is not None
    shown = "".join(traceback.format_exception(reported.exc_info[1]))
    assert "ValueError: a bug" in shown
    assert "in broken" in shown


def test_a_start_and_a_stop_that_are_cancelled_are_not_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def main(simulation: Simulation) -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await BackgroundTasks("test").start()
        background = BackgroundTasks("test")
        await background.start()
        background.start_soon(anyio.sleep_forever)
        with anyio.move_on_after(0):
            await background.stop()

    run_simulation(main)
    gc.collect()
    assert caplog.records == []


def test_cancelling_who_waits_leaves_the_tasks_alone() -> None:
    async def main(simulation: Simulation) -> None:
        background = BackgroundTasks("test")
        await background.start()
        with anyio.move_on_after(1):
            await background.wait()
        assert background.running
        await background.stop()

    run_simulation(main)


def test_a_start_that_is_cancelled_leaves_no_task() -> None:
    async def main(simulation: Simulation) -> None:
        background = BackgroundTasks("test")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await background.start()
        await anyio.sleep(1)
        assert not background.running

    run_simulation(main)


def test_a_stop_that_is_cancelled_still_waits_for_the_tasks() -> None:
    ended: list[float] = []

    async def slow_to_end(simulation: Simulation) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(2)
            ended.append(simulation.loop.time())

    async def main(simulation: Simulation) -> None:
        background = BackgroundTasks("test")
        await background.start()
        background.start_soon(slow_to_end, simulation)
        await anyio.sleep(1)
        with anyio.move_on_after(0.5):
            await background.stop()
        assert ended == [3]

    run_simulation(main)


def test_an_unexpected_error_of_shared_work_ends_the_tasks_of_its_owner_and_not_the_task_that_did_it() -> None:
    async def main(simulation: Simulation) -> None:
        background = BackgroundTasks("consumer of g")
        await background.start()
        with pytest.raises(ConfigError), background.isolating_failures("a pass"):
            raise ConfigError("expected, and for whoever asked")
        with anyio.move_on_after(1) as scope, background.isolating_failures("a pass"):
            await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert background.running
        with background.isolating_failures("a pass"):
            raise KeyError("a bug")
        with pytest.raises(ClientFailed, match=r"consumer of g has ended .*: a pass raised KeyError\('a bug'\)"):
            await background.wait()

    run_simulation(main)


def test_what_ends_the_process_is_raised_after_the_owner_has_left_by_who_waits_or_else_by_the_event_loop() -> None:
    order: list[str] = []

    async def leave(reason: BaseException, hurry: bool) -> bool:
        await anyio.sleep(1)
        order.append("left")
        return False

    async def exits() -> None:
        await anyio.sleep(1)
        raise SystemExit(5)

    async def main(simulation: Simulation, *, waits: bool) -> None:
        background = BackgroundTasks("consumer of g", leave)
        await background.start()
        background.start_soon(exits)
        try:
            await (background.wait() if waits else anyio.sleep(60))
        except SystemExit:
            order.append("raised by wait")
            raise

    for waits in (True, False):
        with pytest.raises(SystemExit) as caught:
            run_simulation(partial(main, waits=waits))
        assert caught.value.code == 5
    assert order == ["left", "raised by wait", "left"]
