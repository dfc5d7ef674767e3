"""A consumer that shuts down: what it does in which order, and what the others have meanwhile."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import pytest

from model.errors import IllegalOperation
from model.events import EventKind
from model.message import MessageExt
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_lifecycle import finished
from tests.simulation.wire import WireTap, wire

pytestmark = pytest.mark.simulation

__all__ = ["wire"]


def test_a_shutdown_drains_commits_unlocks_unregisters_and_closes_in_this_order(
    simulate: Simulate, wire: WireTap
) -> None:
    async def takes_three_seconds(message: MessageExt) -> None:
        await anyio.sleep(3)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", host="c", work=takes_three_seconds)
        producer = await cluster.start_producer()
        await cluster.wait_converged(1)
        await producer.send("t", b"x")
        await anyio.sleep(1)
        at, stopped_s = len(cluster.events), cluster.simulation.loop.time()
        await consumer.stop()
        assert cluster.simulation.loop.time() - stopped_s == pytest.approx(2, abs=0.1)
        codes = wire.codes("c", since_s=stopped_s)
        assert codes == ["UNLOCK_BATCH_MQ", "HEART_BEAT", "UNLOCK_BATCH_MQ", "UNREGISTER_CLIENT"]
        events = [event for event in cluster.events[at:] if event.topic != "%RETRY%g"]
        steps = [event for event in events if event.client and event.kind != EventKind.MESSAGES_HANDED_OUT]
        assert [(event.kind, event.detail) for event in steps] == [
            ("CLIENT_STOP", ""),
            ("QUEUE_DROPPED", "shutdown"),
            ("SUBSCRIPTION_CHANGE", ""),
            ("NOTIFY_RECEIVED", ""),
            ("OFFSET_COMMITTED", ""),
            ("QUEUE_RELEASED", "unlock"),
            ("MEMBER_LEAVE", "unregister"),
        ]
        assert finished(cluster) == Counter([b"x"])
        assert cluster.events_of(EventKind.OFFSET_COMMITTED, at, topic="t")[0].offset == 1
        assert len({event.cause for event in steps}) == 1
        await anyio.sleep(0.1)
        assert cluster.simulation.network.connections("c") == ()

    simulate(scenario, brokers=1)


def test_a_listener_that_outlasts_the_session_keeps_its_queue_during_a_shutdown_and_the_others_go_on(
    simulate: Simulate,
) -> None:
    options: Any = {"session_timeout_s": 3.0, "shutdown_grace_s": 10.0}

    async def takes_eight_seconds(message: MessageExt) -> None:
        if message.body == b"slow":
            await anyio.sleep(8)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        leaving = await cluster.start_consumer("g", "t", work=takes_eight_seconds, **options)
        staying = await cluster.start_consumer("g", "t", work=takes_eight_seconds, **options)
        producer = await cluster.start_producer()
        await cluster.wait_converged(1)
        busy, idle = leaving.queues
        await producer.send("t", b"slow", queue=busy)
        await anyio.sleep(1)
        at = len(cluster.events)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leaving.stop)
            await anyio.sleep(0.1)
            assert idle in staying.queues, "nobody waits for what is idle"
            assert busy not in staying.queues
            await producer.send("t", b"next", queue=busy)
            await anyio.sleep(6)
            assert busy not in staying.queues, "its session would have ended by now"
            assert staying.bodies == []
        await anyio.sleep(0.1)
        assert busy in staying.queues
        await anyio.sleep(1)
        assert staying.bodies == [b"next"], "the slow one was committed"
        assert not cluster.events_of(EventKind.LOCK_EXPIRED, at)

    simulate(scenario, brokers=1)


def test_a_second_shutdown_is_harmless_and_a_second_start_is_refused(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        consumer = await cluster.start_consumer("g", "t")
        with pytest.raises(IllegalOperation, match="RUNNING"):
            await consumer.start()
        await consumer.stop()
        await consumer.stop()
        with pytest.raises(IllegalOperation, match="SHUTDOWN_ALREADY"):
            await consumer.start()

    simulate(scenario)


def test_a_shutdown_waits_for_a_slow_listener_no_longer_than_the_grace(simulate: Simulate) -> None:
    async def never_ends(message: MessageExt) -> None:
        await anyio.sleep_forever()

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        stuck = await cluster.start_consumer("g", "t", work=never_ends, shutdown_grace_s=4.0)
        producer = await cluster.start_producer()
        await producer.send("t", b"x")
        await anyio.sleep(1)
        started_s = cluster.simulation.loop.time()
        await stuck.stop()
        assert cluster.simulation.loop.time() - started_s == pytest.approx(4, abs=0.1)
        await cluster.start_consumer("g", "t")
        await anyio.sleep(1)
        assert finished(cluster) == Counter([b"x"]), "it was not committed, so the next member gets it"

    simulate(scenario, brokers=1)
