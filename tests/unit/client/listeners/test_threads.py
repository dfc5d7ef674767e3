"""Threads of one consumer: as many as it has workers, whatever the rest of the process does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import anyio
import pytest

from client.instance.background import Background
from client.listeners.listener import ConsumeResult, ListenerCall
from client.listeners.threads import ListenerThreads
from model.message import MessageExt
from model.message_queue import MessageQueue
from simulation.kernel.run import Simulation, run_simulation

MESSAGE = MessageExt(MessageQueue("t", "b", 0), 7, 0, 0, "t", b"x", "", (), {}, 0, "id")
WORKERS = 8
GIVE_UP_S = 10
"""Only waited for when a test fails."""


@asynccontextmanager
async def consumer() -> AsyncIterator[tuple[Background, ListenerThreads]]:
    """What a consumer has, in a process whose own pool has a single thread."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    background = Background("test")
    await background.start()
    try:
        yield background, ListenerThreads(WORKERS, background)
    finally:
        await background.stop()


@pytest.mark.asyncio
async def test_as_many_listeners_block_at_the_same_time_as_the_consumer_has_workers() -> None:
    together = threading.Barrier(WORKERS)

    def listener(messages: Sequence[MessageExt]) -> None:
        together.wait(GIVE_UP_S)

    results: list[ConsumeResult] = []

    async def work(call: ListenerCall) -> None:
        results.append(await call([MESSAGE]))

    async with consumer() as (_, threads), anyio.create_task_group() as tasks:
        for _ in range(WORKERS):
            tasks.start_soon(work, ListenerCall(listener, "t", threads))
    assert results == [ConsumeResult.SUCCESS] * WORKERS


@pytest.mark.asyncio
async def test_listeners_that_hang_hold_up_neither_the_process_nor_another_consumer_nor_the_end_of_their_own() -> None:
    go_on, hung = threading.Event(), threading.Semaphore(0)
    ended: list[bool] = []

    def hangs(messages: Sequence[MessageExt]) -> None:
        hung.release()
        ended.append(go_on.wait(GIVE_UP_S))

    try:
        async with consumer() as (mine, threads), consumer() as (_, others):
            for _ in range(WORKERS):
                mine.start_soon(ListenerCall(hangs, "t", threads), [MESSAGE])
            loop = asyncio.get_running_loop()
            assert await loop.run_in_executor(None, lambda: [hung.acquire(timeout=GIVE_UP_S) for _ in range(WORKERS)])
            assert await ListenerCall(lambda messages: None, "t", others)([MESSAGE]) is ConsumeResult.SUCCESS
            await mine.stop()
            assert ended == []
            with pytest.raises(RuntimeError, match="shutdown"):
                threads.executor.submit(print)
    finally:
        go_on.set()


def test_nothing_is_made_for_listeners_that_are_not_plain() -> None:
    async def listener(messages: Sequence[MessageExt]) -> None:
        pass

    async def main(simulation: Simulation) -> None:
        background = Background("test")
        await background.start()
        threads = ListenerThreads(WORKERS, background)
        await ListenerCall(listener, "t", threads)([MESSAGE])
        assert threads._executor is None
        await background.stop()

    run_simulation(main)


def test_a_consumer_that_ends_right_now_still_has_threads_for_the_call_that_comes_first() -> None:
    async def main(simulation: Simulation) -> ConsumeResult:
        background = Background("test")
        await background.start()
        await background.stop()
        return await ListenerCall(lambda messages: None, "t", ListenerThreads(WORKERS, background))([MESSAGE])

    assert run_simulation(main) is ConsumeResult.SUCCESS
