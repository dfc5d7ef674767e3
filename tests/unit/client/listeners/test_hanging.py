"""Listeners that do not return hold nothing for ever: their messages fail, and everybody is told."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import anyio
import pytest

from client.instance.background import BackgroundTasks
from client.listeners.hanging import HangingListeners
from client.listeners.listener import ConsumeResult, ListenerCall, Result
from client.listeners.threads import ListenerThreads
from model.events import EventKind
from model.heartbeat import MessageModel
from model.limits import CONSUME_TIMEOUT_S
from model.message import MessageExt
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.simulation.conftest import Simulate

MESSAGE = MessageExt(MessageQueue("t", "b", 0), 7, 0, 0, "t", b"x", "", (), {}, 0, "id")


@pytest.mark.parametrize(
    "options",
    [
        {"max_workers": 1},
        {"max_workers": 1, "order": "queue"},
        {"max_workers": 1, "order": "key"},
        {"max_workers": 1, "mode": "pop"},
        {"max_workers": 1, "mode": "pop", "order": "queue"},
        {"max_workers": 1, "model": "broadcasting"},
    ],
    ids=lambda options: " ".join(str(value) for value in list(options.values())[1:]) or "concurrent",
)
def test_a_listener_that_hangs_fails_its_message_after_the_timeout_and_all_go_on(
    simulate: Simulate, options: dict[str, Any], caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    cancelled: list[bytes] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1, brokers=["broker-a"])
        hung: dict[bytes, None] = {}

        async def work(message: MessageExt) -> None:
            if message.body == b"1" and not hung:
                hung[message.body] = None
                try:
                    await anyio.sleep_forever()
                finally:
                    cancelled.append(message.body)

        given = dict(options)
        if given.get("model"):
            given |= {"model": MessageModel.BROADCASTING, "offsets_dir": tmp_path / "offsets"}
        consumer = await cluster.start_consumer("g", "t", work=work, **given)
        producer = await cluster.start_producer()
        await anyio.sleep(1)
        await producer.send_many("t", 4)
        await anyio.sleep(CONSUME_TIMEOUT_S - 10)
        assert consumer.bodies == [b"0", b"1"]
        assert cancelled == []
        await anyio.sleep(40)  # the timeout, and the longest first delay of a retry
        assert cancelled == [b"1"]
        finished = [delivery.body for delivery in consumer.deliveries if delivery.finished]
        if given.get("order") == "queue":
            assert finished == [b"0", b"1", b"2", b"3"]
        assert sorted(finished) == [b"0", b"1", b"2", b"3"]
        (again,) = [delivery for delivery in consumer.deliveries if delivery.finished and delivery.body == b"1"]
        assert again.times_delivered == 1
        (event,) = cluster.events_of(EventKind.LISTENER_TIMED_OUT)
        assert (event.topic, event.queue_id, event.offset, event.n) == ("t", 0, 1, 1)
        assert event.detail.endswith("on_messages of t")
        await anyio.sleep(3 * CONSUME_TIMEOUT_S)
        assert len(cluster.events_of(EventKind.LISTENER_TIMED_OUT)) == 1
        await consumer.stop()
        # What comes next begins behind all of them: nothing has held the offset back.
        second = await cluster.start_consumer("g", "t", **given)
        await producer.send_many("t", 1, first=4)
        await anyio.sleep(20)
        assert second.bodies == [b"4"]

    with caplog.at_level(logging.WARNING):
        simulate(scenario, brokers=1)
    said = [record.getMessage() for record in caplog.records if "consume_timeout_s" in record.getMessage()]
    assert len(said) == 1
    assert "on_messages of t has not returned for 900 s" in said[0]
    assert "1 messages from t@broker-a:0+1 on count as failed" in said[0]


def test_in_order_a_message_that_always_hangs_blocks_its_queue_for_its_attempts_and_is_dead_then(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1, brokers=["broker-a"])

        async def work(message: MessageExt) -> None:
            if message.body == b"1":
                await anyio.sleep_forever()

        options: dict[str, Any] = {"order": "queue", "consume_timeout_s": 10, "max_attempts": 2}
        consumer = await cluster.start_consumer("g", "t", work=work, **options)
        producer = await cluster.start_producer()
        await anyio.sleep(1)
        await producer.send_many("t", 3)
        await anyio.sleep(3 * (10 + 1) + 1)
        assert consumer.bodies == [b"0", b"1", b"1", b"1", b"2"]
        assert len(cluster.events_of(EventKind.DEAD_LETTER)) == 1

    simulate(scenario, brokers=1)


def test_a_listener_that_will_not_be_cancelled_is_asked_again_and_its_own_result_counts_once_it_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[float] = []

    async def stubborn(messages: Any) -> None:
        while len(asked) < 3:
            try:
                await anyio.sleep_forever()
            except asyncio.CancelledError:
                asked.append(asyncio.get_running_loop().time())

    async def main(simulation: Simulation) -> None:
        background = BackgroundTasks("test")
        await background.start()
        hanging = HangingListeners(10)
        declared: list[str] = []
        hanging._declare = lambda name, messages: declared.append(name)  # type: ignore[method-assign]
        background.start_soon(hanging.run, None, "g")
        call = ListenerCall(stubborn, "t", ListenerThreads(1, background), hanging)
        assert await call((MESSAGE,)) is ConsumeResult.SUCCESS
        assert asked == [10, 20, 30]
        assert len(declared) == 1
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        assert hanging.running == {} == hanging.timed_out
        await background.stop()

    run_simulation(main)


@pytest.mark.asyncio
async def test_a_plain_listener_is_left_to_itself_and_its_consumer_has_a_thread_for_the_next() -> None:
    background = BackgroundTasks("test")
    await background.start()
    hanging, go_on, begun, late = HangingListeners(900), threading.Event(), threading.Event(), []
    results: list[Result] = []

    def hangs(messages: Any) -> ConsumeResult:
        begun.set()
        go_on.wait(10)
        late.append(1)
        return ConsumeResult.SUCCESS

    hanging._declare = lambda name, messages: None  # type: ignore[method-assign]
    threads = ListenerThreads(1, background)

    async def wait() -> None:
        results.append(await ListenerCall(hangs, "t", threads, hanging)((MESSAGE,)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await asyncio.to_thread(begun.wait, 10)
        hanging._expire(asyncio.get_running_loop().time() + 901)
    assert (results, late) == ([ConsumeResult.RECONSUME_LATER], [])
    assert await ListenerCall(lambda messages: None, "t", threads, hanging)((MESSAGE,)) is ConsumeResult.SUCCESS
    go_on.set()
    await background.stop()


def test_a_consumer_that_ends_while_its_listener_is_abandoned_ends(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1, brokers=["broker-a"])

        async def work(message: MessageExt) -> None:
            await anyio.sleep_forever()

        consumer = await cluster.start_consumer("g", "t", work=work, consume_timeout_s=5, shutdown_grace_s=5)
        producer = await cluster.start_producer()
        await anyio.sleep(1)
        await producer.send("t", b"x")
        started_s = cluster.simulation.loop.time()
        await anyio.sleep(0.01)
        await consumer.stop()  # its grace ends at the moment of the timeout
        assert cluster.simulation.loop.time() - started_s < 6

    simulate(scenario, brokers=1)
