"""The call of a listener: whatever it is and does, its messages succeed or fail, and nothing else happens."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any

import anyio
import pytest

from client.instance.background import BackgroundTasks
from client.instance.user_code import UserCode
from client.listeners.failed import Failed
from client.listeners.hanging import HangingListeners
from client.listeners.listener import ConsumeResult, ListenerCall, Result, call_observer
from client.listeners.threads import ListenerThreads
from model.message import MessageExt
from model.message_queue import MessageQueue
from testbed.simulation.kernel.run import Simulation, run_simulation

MESSAGE = MessageExt(MessageQueue("t", "b", 0), 7, 0, 0, "t", b"x", "", (), {}, 0, "id")
BATCH = (MESSAGE,)


def call_of(listener: Any, name: str, threads: ListenerThreads) -> ListenerCall:
    return ListenerCall(listener, name, threads, HangingListeners(900))


def threads_of(background: BackgroundTasks) -> ListenerThreads:
    return ListenerThreads(4, background)


def call(listener: Any) -> Result:
    async def main(simulation: Simulation) -> Result:
        return await call_of(listener, "t", threads_of(BackgroundTasks("test")))(BATCH)

    return run_simulation(main)


def started(listener: Any) -> Result:
    """As `call`, but an async listener is started by hand, and only awaited if it waits."""

    async def main(simulation: Simulation) -> Result:
        listener_call = call_of(listener, "t", threads_of(BackgroundTasks("test")))
        if not listener_call.is_async:
            return await listener_call(BATCH)
        result = listener_call.start(BATCH, copy_context())
        return result if isinstance(result, ConsumeResult | Failed) else await result

    return run_simulation(main)


async def succeeds(messages: Sequence[MessageExt]) -> None:
    await anyio.sleep(1)


async def wants_it_again(messages: Sequence[MessageExt]) -> ConsumeResult:
    return ConsumeResult.RECONSUME_LATER


class AsyncObject:
    async def __call__(self, messages: Sequence[MessageExt]) -> None:
        await anyio.sleep(1)


class PlainObject:
    def __call__(self, messages: Sequence[MessageExt]) -> ConsumeResult:
        return ConsumeResult.SUCCESS

    async def method(self, messages: Sequence[MessageExt]) -> ConsumeResult:
        return ConsumeResult.RECONSUME_LATER


@pytest.mark.parametrize(
    ("listener", "expected"),
    [
        (succeeds, ConsumeResult.SUCCESS),
        (wants_it_again, ConsumeResult.RECONSUME_LATER),
        (AsyncObject(), ConsumeResult.SUCCESS),
        (PlainObject(), ConsumeResult.SUCCESS),
        (PlainObject().method, ConsumeResult.RECONSUME_LATER),
        (lambda messages: None, ConsumeResult.SUCCESS),
        (lambda messages: "RECONSUME_LATER", ConsumeResult.RECONSUME_LATER),
        (lambda messages: wants_it_again([*messages]), ConsumeResult.RECONSUME_LATER),
    ],
)
def test_a_listener_may_be_any_kind_of_callable(listener: Any, expected: ConsumeResult) -> None:
    assert call(listener) is expected
    assert started(listener) is expected


def test_a_failure_that_says_more_is_passed_on_as_it_is_and_one_that_cannot_be_meant_is_the_usual_one() -> None:
    said = Failed(retry_after_s=3, done=1)
    assert call(lambda messages: said) is said
    assert call(lambda messages: Failed(done=-1)) is ConsumeResult.RECONSUME_LATER


def raises(messages: Sequence[MessageExt]) -> None:
    raise ValueError("no")


async def raises_later(messages: Sequence[MessageExt]) -> None:
    await anyio.sleep(1)
    raise ValueError("no")


async def raises_at_once(messages: Sequence[MessageExt]) -> None:
    raise ValueError("no")


async def answers_nonsense(messages: Sequence[MessageExt]) -> str:
    return "nonsense"


@pytest.mark.parametrize("way", [call, started])
@pytest.mark.parametrize(
    "listener",
    [raises, raises_at_once, raises_later, answers_nonsense, lambda messages: "nonsense", lambda messages: True],
)
def test_what_a_listener_raises_or_wrongly_answers_fails_its_messages_and_is_logged(
    listener: Any, way: Callable[[Any], Result], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert way(listener) is ConsumeResult.RECONSUME_LATER
    (record,) = caplog.records
    assert "the listener of t failed on t@b:0+7" in record.getMessage()
    assert record.exc_info is not None


def test_a_listener_that_was_started_by_hand_goes_on_where_it_waits_in_the_same_task() -> None:
    async def main(simulation: Simulation) -> None:
        steps: list[object] = []

        async def listener(messages: Sequence[MessageExt]) -> None:
            steps.append(asyncio.current_task())
            await anyio.sleep(1)
            with pytest.raises(KeyError):
                await fails()
            with anyio.move_on_after(1):
                await anyio.sleep_forever()
            await anyio.lowlevel.checkpoint()
            steps.append(asyncio.current_task())

        async def fails() -> None:
            future = asyncio.get_running_loop().create_future()
            simulation.loop.call_later(1, future.set_exception, KeyError("no"))
            await future

        hanging = HangingListeners(900)
        running = ListenerCall(listener, "t", threads_of(BackgroundTasks("test")), hanging).start(BATCH, copy_context())
        assert not isinstance(running, ConsumeResult | Failed)
        assert steps == [asyncio.current_task()]
        assert not hanging.running  # watched from when it waits on
        simulation.loop.call_later(0.5, lambda: steps.append(len(hanging.running)))
        assert await running is ConsumeResult.SUCCESS
        assert steps == [asyncio.current_task(), 1, asyncio.current_task()]
        assert anyio.current_time() == 3
        assert not hanging.running

    run_simulation(main)


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_cancelled_listener_is_cancelled_and_not_failed(by_hand: bool) -> None:
    async def forever(messages: Sequence[MessageExt]) -> None:
        await anyio.sleep_forever()

    async def main(simulation: Simulation) -> None:
        with anyio.move_on_after(1) as scope:
            listener = call_of(forever, "t", threads_of(BackgroundTasks("test")))
            waits = listener.start(BATCH, copy_context()) if by_hand else listener(BATCH)
            assert not isinstance(waits, ConsumeResult | Failed)
            await waits
        assert scope.cancelled_caught

    run_simulation(main)


class TenTurns:
    def __await__(self) -> Generator[None, None, None]:
        for _ in range(10):
            yield


def test_a_listener_that_was_started_by_hand_is_cancelled_between_two_turns_too() -> None:
    async def listener(messages: Sequence[MessageExt]) -> None:
        await TenTurns()

    async def main(simulation: Simulation) -> None:
        with anyio.CancelScope() as scope:
            running = call_of(listener, "t", threads_of(BackgroundTasks("test"))).start(BATCH, copy_context())
            assert not isinstance(running, ConsumeResult | Failed)
            simulation.loop.call_soon(scope.cancel)
            await running
        assert scope.cancelled_caught

    run_simulation(main)


@pytest.mark.asyncio
async def test_plain_listeners_and_observers_run_in_threads_that_are_not_those_of_the_process() -> None:
    threads: list[threading.Thread] = []
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1, thread_name_prefix="process"))
    background = BackgroundTasks("test")
    await background.start()
    await call_of(lambda messages: threads.append(threading.current_thread()), "t", threads_of(background))(BATCH)
    await call_observer(UserCode(lambda topic: threads.append(threading.current_thread())), "t")
    await background.stop()
    assert threading.main_thread() not in threads
    assert [thread.name.startswith("process") for thread in threads] == [False, False]


@pytest.mark.asyncio
async def test_observers_that_hang_hold_up_no_one_else() -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    hung, go_on = threading.Semaphore(0), threading.Event()

    def hangs(topic: str) -> None:
        hung.release()
        go_on.wait(10)

    try:
        async with anyio.create_task_group() as tasks:
            for topic in ("a", "b"):
                tasks.start_soon(call_observer, UserCode(hangs), topic)
            both = await loop.run_in_executor(None, lambda: [hung.acquire(timeout=5) for _ in range(2)])
            assert both == [True, True]
            go_on.set()
    finally:
        go_on.set()


WORKERS = 8
ABANDON_AFTER_S = 10
"""Only waited for when a test fails."""


@asynccontextmanager
async def consumer() -> AsyncIterator[tuple[BackgroundTasks, ListenerThreads]]:
    """What a consumer has, in a process whose own pool has a single thread."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    background = BackgroundTasks("test")
    await background.start()
    try:
        yield background, ListenerThreads(WORKERS, background)
    finally:
        await background.stop()


@pytest.mark.asyncio
async def test_as_many_listeners_block_at_the_same_time_as_the_consumer_has_workers() -> None:
    together = threading.Barrier(WORKERS)

    def listener(messages: Sequence[MessageExt]) -> None:
        together.wait(ABANDON_AFTER_S)

    results: list[Result] = []

    async def work(call: ListenerCall) -> None:
        results.append(await call(BATCH))

    async with consumer() as (_, threads), anyio.create_task_group() as tasks:
        for _ in range(WORKERS):
            tasks.start_soon(work, call_of(listener, "t", threads))
    assert results == [ConsumeResult.SUCCESS] * WORKERS


@pytest.mark.asyncio
async def test_listeners_that_hang_hold_up_neither_the_process_nor_another_consumer_nor_the_end_of_their_own() -> None:
    go_on, hung = threading.Event(), threading.Semaphore(0)
    ended: list[bool] = []

    def hangs(messages: Sequence[MessageExt]) -> None:
        hung.release()
        ended.append(go_on.wait(ABANDON_AFTER_S))

    try:
        async with consumer() as (own, threads), consumer() as (_, others):
            for _ in range(WORKERS):
                own.start_soon(call_of(hangs, "t", threads), BATCH)
            loop = asyncio.get_running_loop()
            assert await loop.run_in_executor(
                None, lambda: [hung.acquire(timeout=ABANDON_AFTER_S) for _ in range(WORKERS)]
            )
            assert await call_of(lambda messages: None, "t", others)(BATCH) is ConsumeResult.SUCCESS
            await own.stop()
            assert ended == []
            with pytest.raises(RuntimeError, match="shutdown"):
                threads.executor.submit(print)
    finally:
        go_on.set()


def test_nothing_is_made_for_listeners_that_are_not_plain() -> None:
    async def listener(messages: Sequence[MessageExt]) -> None:
        pass

    async def main(simulation: Simulation) -> None:
        background = BackgroundTasks("test")
        await background.start()
        threads = ListenerThreads(WORKERS, background)
        await call_of(listener, "t", threads)(BATCH)
        assert threads._executor is None
        await background.stop()

    run_simulation(main)


def test_a_consumer_that_ends_right_now_still_has_threads_for_the_call_that_comes_first() -> None:
    async def main(simulation: Simulation) -> Result:
        background = BackgroundTasks("test")
        await background.start()
        await background.stop()
        return await call_of(lambda messages: None, "t", ListenerThreads(WORKERS, background))(BATCH)

    assert run_simulation(main) is ConsumeResult.SUCCESS
