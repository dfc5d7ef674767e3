"""The call of a listener: whatever it is and does, its messages succeed or fail, and nothing else happens."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

from client.instance.background import Background
from client.listeners.listener import ConsumeResult, ListenerCall, call_observer
from client.listeners.threads import ListenerThreads
from model.message import MessageExt
from model.message_queue import MessageQueue
from simulation.kernel.run import Simulation, run_simulation

MESSAGE = MessageExt(MessageQueue("t", "b", 0), 7, 0, 0, "t", b"x", "", (), {}, 0, "id")


def threads_of(background: Background) -> ListenerThreads:
    return ListenerThreads(4, background)


def call(listener: Any) -> ConsumeResult:
    async def main(simulation: Simulation) -> ConsumeResult:
        return await ListenerCall(listener, "t", threads_of(Background("test")))([MESSAGE])

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


def raises(messages: Sequence[MessageExt]) -> None:
    raise ValueError("no")


async def raises_later(messages: Sequence[MessageExt]) -> None:
    await anyio.sleep(1)
    raise ValueError("no")


@pytest.mark.parametrize("listener", [raises, raises_later, lambda messages: "nonsense", lambda messages: True])
def test_what_a_listener_raises_or_wrongly_answers_fails_its_messages_and_is_logged(
    listener: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert call(listener) is ConsumeResult.RECONSUME_LATER
    (record,) = caplog.records
    assert "the listener of t failed on t@b:0+7" in record.getMessage()
    assert record.exc_info is not None


def test_a_cancelled_listener_is_cancelled_and_not_failed() -> None:
    async def forever(messages: Sequence[MessageExt]) -> None:
        await anyio.sleep_forever()

    async def main(simulation: Simulation) -> None:
        with anyio.move_on_after(1) as scope:
            await ListenerCall(forever, "t", threads_of(Background("test")))([MESSAGE])
        assert scope.cancelled_caught

    run_simulation(main)


@pytest.mark.asyncio
async def test_plain_listeners_and_observers_run_in_threads_that_are_not_those_of_the_process() -> None:
    threads: list[threading.Thread] = []
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1, thread_name_prefix="process"))
    background = Background("test")
    await background.start()
    await ListenerCall(lambda messages: threads.append(threading.current_thread()), "t", threads_of(background))(
        [MESSAGE]
    )
    await call_observer(lambda topic: threads.append(threading.current_thread()), "t")
    await background.stop()
    assert threading.main_thread() not in threads
    assert [thread.name.startswith("process") for thread in threads] == [False, False]


@pytest.mark.asyncio
async def test_observers_that_hang_hold_up_nobody_else() -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    hung, go_on = threading.Semaphore(0), threading.Event()

    def hangs(topic: str) -> None:
        hung.release()
        go_on.wait(10)

    try:
        async with anyio.create_task_group() as tasks:
            for topic in ("a", "b"):
                tasks.start_soon(call_observer, hangs, topic)
            both = await loop.run_in_executor(None, lambda: [hung.acquire(timeout=5) for _ in range(2)])
            assert both == [True, True]
            go_on.set()
    finally:
        go_on.set()
