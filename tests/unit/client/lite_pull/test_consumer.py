"""A consumer that is polled: what it hands out, what counts as processed, and what happens to both when queues move."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

import anyio
import pytest

from model.errors import IllegalOperation, InvalidParameter, NetworkError
from model.events import EventKind
from model.heartbeat import ConsumeFrom, ConsumeType
from model.message import MessageExt
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.lite import Q0, Q1, Lite, committed, run, sent
from traces.check.check import HistoryCheck
from traces.check.limits import HistoryLimits
from traces.check.offsets import SEEK

# ---------------------------------------------------------------------------------------------------- polls and commits


def test_it_has_its_queues_as_soon_as_it_is_started_and_is_an_active_member(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1").start()
        await anyio.sleep(0.1)
        assert lite.consumer.assignment() == [Q0, Q1]
        info = cluster.brokers["broker-a"].running.broker.groups.table.get("g")
        assert info is not None
        assert [each.data.consume_type for each in info.members.values()] == [ConsumeType.ACTIVELY]
        await sent(cluster, 100)
        assert sorted(await lite.drain()) == list(range(100))
        await lite.do(lite.consumer.shutdown)
        assert not info.members

    run(simulate, scenario, queues=2)


def test_what_a_poll_returned_is_committed_when_the_next_one_has_come_and_not_before(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1", poll_batch=3).start()
        await sent(cluster, 5)
        assert await lite.poll() == [0, 1, 2]
        await anyio.sleep(20)
        assert committed(cluster) == 0
        assert await lite.poll() == [3, 4]
        await anyio.sleep(5)
        assert committed(cluster) == 3
        await lite.do(lite.consumer.commit)
        assert committed(cluster) == 5
        assert await lite.do(lite.consumer.committed, Q0) == 5

    run(simulate, scenario)


def test_a_crash_between_polls_delivers_the_last_one_again_and_a_shutdown_does_too(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await sent(cluster, 9)
        options: dict[str, Any] = {"poll_batch": 3, "consume_from": ConsumeFrom.FIRST_OFFSET}
        first = await Lite(cluster, "m1", **options).start()
        assert [await first.poll(), await first.poll()] == [[0, 1, 2], [3, 4, 5]]
        await anyio.sleep(6)
        await first.crash()
        second = await Lite(cluster, "m2", **options).start()
        assert await second.poll() == [3, 4, 5]
        begun = cluster.simulation.loop.time()
        await second.do(second.consumer.shutdown)
        assert cluster.simulation.loop.time() - begun < 1, "it does not wait for a poll that never comes"
        third = await Lite(cluster, "m3", **options).start()
        assert await third.drain() == [3, 4, 5, 6, 7, 8]
        await third.do(third.consumer.commit)
        await third.do(third.consumer.shutdown)
        assert committed(cluster) == 9

    run(simulate, scenario)


def test_without_automatic_commit_nothing_is_committed_but_by_a_commit(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1", auto_commit=False, poll_batch=2, max_queue_count=3).start()
        await sent(cluster, 20)
        assert await lite.drain() == list(range(20)), "what is not committed does not hold the pulling up"
        await anyio.sleep(20)
        assert committed(cluster) is None
        await lite.do(lite.consumer.commit, {Q0: 7})
        assert committed(cluster) == 7
        await lite.do(lite.consumer.commit, {Q0: 5})
        assert committed(cluster) == 5, "who says where to, may go back"
        with pytest.raises(InvalidParameter, match="up to 20; 21 cannot"):
            await lite.do(lite.consumer.commit, {Q0: 21})
        with pytest.raises(IllegalOperation, match=r"does not own .* now"):
            await lite.do(lite.consumer.commit, {Q1: 0})
        await lite.do(lite.consumer.commit)
        assert committed(cluster) == 20
        await sent(cluster, 2, first=20)
        assert await lite.poll() == [20, 21]
        await lite.do(lite.consumer.shutdown)
        assert committed(cluster) == 20

    run(simulate, scenario)


def test_a_commit_that_is_not_stored_is_an_error_and_the_next_one_is(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1").start()
        await sent(cluster, 4)
        assert await lite.drain() == [0, 1, 2, 3]
        await cluster.brokers["broker-a"].crash()
        with pytest.raises(NetworkError):
            await lite.do(lite.consumer.commit)
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(10)
        await lite.do(lite.consumer.commit)
        assert committed(cluster) == 4
        with pytest.raises(IllegalOperation, match="set auto_commit=False"):
            await lite.do(lite.consumer.commit, {Q0: 1})

    run(simulate, scenario)


def test_a_backlog_of_one_queue_does_not_starve_the_others(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1", poll_batch=4).start()
        await anyio.sleep(1)
        await sent(cluster, 20, queue=Q0)
        await sent(cluster, 1, first=100, queue=Q1)
        await anyio.sleep(1)
        assert await lite.poll() == [0, 1, 2, 3]
        assert await lite.poll() == [100, 4, 5, 6]

    run(simulate, scenario, queues=2)


def test_a_poll_waits_as_long_as_it_is_reported_and_a_shutdown_ends_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1").start()
        now = cluster.simulation.loop.time
        begun = now()
        assert await lite.poll(0) == []
        assert now() == begun
        assert await lite.poll(3) == []
        assert now() == pytest.approx(begun + 3)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lite.poll, 100)
            await anyio.sleep(1)
            with pytest.raises(IllegalOperation, match="another task is polling"):
                await lite.poll()
            await lite.do(lite.consumer.shutdown)
        assert now() < begun + 10
        with pytest.raises(IllegalOperation, match="SHUTDOWN_ALREADY"):
            await lite.poll()

    run(simulate, scenario)


def test_a_poll_that_is_cancelled_loses_no_message(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1").start()
        with anyio.move_on_after(0.5):
            await lite.poll(100)
        await sent(cluster, 3)
        assert sorted(await lite.drain()) == [0, 1, 2]

    run(simulate, scenario)


# ------------------------------------------------------------------------------------------------------- seek and pause


@pytest.mark.parametrize("auto_commit", [True, False])
def test_a_seek_goes_on_there_and_so_does_the_commit(simulate: Simulate, auto_commit: bool) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1", poll_batch=4, auto_commit=auto_commit).start()
        consumer = lite.consumer
        await sent(cluster, 10)
        assert await lite.drain() == list(range(10))
        await lite.do(consumer.commit)
        await lite.do(consumer.seek, Q0, 3)
        if not auto_commit:
            await anyio.sleep(10)
            assert committed(cluster) == 10, "a seek alone commits nothing"
        assert await lite.poll() == [3, 4, 5, 6]
        await lite.do(consumer.commit)
        assert committed(cluster) == 7
        await lite.do(consumer.seek_to_begin, Q0)
        assert await lite.poll() == [0, 1, 2, 3]
        await lite.do(consumer.seek_to_end, Q0)
        assert await lite.drain() == []
        await lite.do(consumer.commit)
        assert committed(cluster) == 10
        for offset in (-1, 11):
            with pytest.raises(InvalidParameter, match="holds offsets 0 to 10"):
                await lite.do(consumer.seek, Q0, offset)
        with pytest.raises(IllegalOperation, match="a rebalance is in progress"):
            await lite.do(consumer.seek, Q1, 0)
        await lite.do(consumer.seek_to_begin, Q0)
        await lite.do(consumer.shutdown)
        assert committed(cluster) == (0 if auto_commit else 10), "and is not lost if it is the last thing done"
        commits = cluster.events_of(EventKind.OFFSET_COMMITTED, group="g")
        assert [event.offset for event in commits if event.detail == SEEK] == [7, 10, *([0] if auto_commit else [])]
        check = HistoryCheck(HistoryLimits(complete=True))
        for event in cluster.events:
            check.feed(event)
        assert check.finish().anomalies == ()

    run(simulate, scenario)


def test_a_paused_queue_hands_out_nothing_and_stays_paused_when_it_is_lost_and_regained(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1").start()
        await anyio.sleep(1)
        lite.consumer.pause([Q1])
        await sent(cluster, 3, queue=Q1)
        await sent(cluster, 2, first=10, queue=Q0)
        assert await lite.drain() == [10, 11]
        other = await Lite(cluster, "m2").start()
        await anyio.sleep(2)
        assert other.consumer.assignment() == [Q1]
        await other.do(other.consumer.shutdown)
        await anyio.sleep(2)
        assert lite.consumer.assignment() == [Q0, Q1]
        assert await lite.drain() == []
        await lite.do(lite.consumer.seek, Q1, 1)
        assert await lite.drain() == []
        with cluster.simulation.on_host("m1"):
            lite.consumer.resume([Q0, Q1])
        assert await lite.drain() == [1, 2]
        lite.consumer.pause([Q1])
        await lite.do(lite.consumer.seek_to_begin, Q1)
        with cluster.simulation.on_host("m1"):
            lite.consumer.resume([Q1])
        assert await lite.drain() == [0, 1, 2]

    run(simulate, scenario, queues=2)


# --------------------------------------------------------------------------------------------------------------- topics


def test_queues_can_be_listed_found_by_time_and_listened_to(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1").start(None)
        consumer = lite.consumer
        assert await lite.do(consumer.fetch_message_queues, "t") == [Q0]
        assert await lite.do(consumer.fetch_message_queues, "none") == []
        await sent(cluster, 3)
        now_ms = int(cluster.simulation.clock_ms()) + 1000
        assert [await lite.do(consumer.offset_for_timestamp, Q0, ms) for ms in (0, now_ms)] == [0, 3]
        calls: list[tuple[str, int]] = []

        async def changed(topic: str, queues: tuple[MessageQueue, ...]) -> None:
            calls.append((topic, len(queues)))
            raise ValueError("no harm")

        for topic in ("t", "u"):
            await lite.do(consumer.register_topic_message_queue_change_listener, topic, changed)
        await anyio.sleep(65)
        assert calls == []
        await cluster.create_topic("t", queues=3)
        await cluster.create_topic("u", queues=2)
        await anyio.sleep(65)
        assert calls == [("t", 3), ("u", 2)]
        await cluster.create_topic("t", queues=4)
        await lite.do(consumer.fetch_topic_message_queues_and_compare)
        assert calls[2:] == [("t", 4)]

    run(simulate, scenario)


def test_a_message_queue_listener_observes_and_is_not_what_makes_it_pull(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        calls: list[tuple[str, int, int]] = []
        lite = await Lite(cluster, "m1").start()
        await anyio.sleep(1)

        async def changed(topic: str, everything: tuple[MessageQueue, ...], own: tuple[MessageQueue, ...]) -> None:
            calls.append((topic, len(everything), len(own)))

        with cluster.simulation.on_host("m1"):
            lite.consumer.register_message_queue_listener(changed)
        await anyio.sleep(1)
        assert calls == [("t", 2, 2)]
        await Lite(cluster, "m2").start()
        await anyio.sleep(1)
        assert calls[1:] == [("t", 2, 1)]
        await sent(cluster, 2)
        assert await lite.drain() in ([0], [1])

    run(simulate, scenario, queues=2)


def test_messages_are_whole(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1").start()
        await sent(cluster, 1)
        [message] = await lite.do(lite.consumer.poll)
        assert isinstance(message, MessageExt)
        assert (message.queue, message.offset, message.topic) == (Q0, 0, "t")

    run(simulate, scenario)


async def done(call: Callable[..., Any], *arguments: Any) -> None:
    """Call a plain function, or await one that is not."""
    called = call(*arguments)
    if isawaitable(called):
        await called


NO_QUEUES: tuple[Any, ...] = (None, 5, "t", ("t", "broker-a", 0), ["t"])


def test_arguments_of_a_wrong_type_are_refused_by_name(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1", auto_commit=False).start()
        await anyio.sleep(1)
        consumer: Any = lite.consumer

        async def refused(why: str, call: Callable[..., Any], *arguments: Any) -> None:
            with pytest.raises(InvalidParameter, match=why):
                await done(call, *arguments)

        for wrong in NO_QUEUES:
            for call in (consumer.committed, consumer.seek_to_begin, consumer.seek_to_end):
                await refused("a queue must be a MessageQueue", call, wrong)
            await refused("a queue must be a MessageQueue", consumer.seek, wrong, 0)
            await refused("a queue must be a MessageQueue", consumer.offset_for_timestamp, wrong, 0)
            for call in (consumer.pause, consumer.resume, Lite(cluster, "other").consumer.assign):
                await refused("queues must be a list|a queue must be a MessageQueue", call, wrong)
        for wrong in (None, "5", -1, math.nan):
            await refused("timeout_s must be 0 to inf, got", consumer.poll, wrong)
        for wrong in (None, "5", True, False, 0.0):
            await refused("^offset must be a whole number, got", consumer.seek, Q0, wrong)
            await refused("^the offset of t@.* must be a whole number, got", consumer.commit, {Q0: wrong})
            await refused("^timestamp_ms must be a whole number", consumer.offset_for_timestamp, Q0, wrong)
        for wrong in (-1, 1):
            await refused("holds offsets 0 to 0; .* cannot be sought", consumer.seek, Q0, wrong)
            await refused("was polled up to 0; .* cannot be committed", consumer.commit, {Q0: wrong})
        await refused("offsets must be a dict, got 5", consumer.commit, 5)
        await refused("expressions must be a dict, got 'red'", Lite(cluster, "other").consumer.assign, [Q0], "red")
        await refused("listener must be a function", consumer.register_topic_message_queue_change_listener, "t", None)
        await refused("listener must be a function", consumer.register_message_queue_listener, 5)

    run(simulate, scenario)
