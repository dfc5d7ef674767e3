"""A consumer that is polled: what it hands out, what counts as processed, and what happens to both when queues move."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import anyio
import pytest

from client.instance_registry import release_instance
from client.lite_pull_consumer import LitePullConsumer
from model.errors import ConfigError, IllegalOperation, InvalidParameter, LeaseLost, NetworkError
from model.events import EventKind
from model.heartbeat import ConsumeFrom, ConsumeType, MessageModel
from model.message import MessageExt
from model.message_queue import MessageQueue
from simulation.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

T = TypeVar("T")
Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


class Lite:
    """A lite pull consumer on a host of its own: what it is told to do is done from there."""

    def __init__(self, cluster: SimulatedCluster, host: str, **options: Any) -> None:
        self.cluster = cluster
        self.host = host
        made = {"clock_ms": cluster.simulation.clock_ms, "event_sink": cluster._note, "trace": False}
        self.consumer = LitePullConsumer(cluster.addresses, "g", **{**made, "instance_name": host, **options})

    async def do(self, what: Callable[..., Awaitable[T]], *args: Any) -> T:
        with self.cluster.simulation.on_host(self.host):
            return await what(*args)

    async def start(self, topic: str | None = "t") -> Lite:
        await self.do(self.consumer.start)
        if topic is not None:
            await self.do(self.consumer.subscribe, topic)
        return self

    async def poll(self, timeout_s: float = 1.0) -> list[int]:
        return [int(message.body) for message in await self.do(self.consumer.poll, timeout_s)]

    async def drain(self) -> list[int]:
        found: list[int] = []
        while polled := await self.poll():
            found += polled
        return found

    async def crash(self) -> None:
        """As `SimulatedConsumer.crash`."""
        instance = self.consumer._instance
        assert instance is not None
        with self.cluster.simulation.network.stall(self.host):
            self.cluster.simulation.network.cut(self.host)
            await self.consumer._background.stop()
            await release_instance(instance)


def run(
    simulate: Simulate, scenario: Callable[[SimulatedCluster], Awaitable[None]], queues: int = 1, brokers: int = 1
) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=queues)
        await scenario(cluster)

    main.__qualname__ = scenario.__qualname__
    simulate(main, brokers=brokers)


async def sent(cluster: SimulatedCluster, n: int, first: int = 0, queue: MessageQueue | None = None) -> None:
    if not cluster.producers:
        await cluster.start_producer()
    for number in range(first, first + n):
        await cluster.producers[0].send("t", b"%d" % number, queue=queue)
    await anyio.sleep(0.5)  # whoever waits for the first of them has got all


def committed(cluster: SimulatedCluster, queue: MessageQueue = Q0) -> int | None:
    rows = cluster.brokers["broker-a"].running.broker.offsets.of_group("g")
    return {(topic, queue_id): offset for topic, queue_id, offset in rows}.get((queue.topic, queue.queue_id))


# ------------------------------------------------------------------------------------------------ polls and commits


def test_it_has_its_queues_as_soon_as_it_is_started_and_is_an_active_member(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1").start()
        await anyio.sleep(0.1)
        assert lite.consumer.assignment() == [Q0, Q1]
        info = cluster.brokers["broker-a"].running.broker.groups.get("g")
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
        with pytest.raises(IllegalOperation, match="is not this consumer's now"):
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


def test_a_poll_waits_as_long_as_it_is_told_and_a_shutdown_ends_it(simulate: Simulate) -> None:
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


# ------------------------------------------------------------------------------------------------------- rebalances


def test_a_queue_that_is_given_up_is_released_by_the_next_poll_with_what_was_processed(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        first = await Lite(cluster, "m1", poll_batch=2).start()
        await anyio.sleep(1)
        await sent(cluster, 6, queue=Q1)
        assert await first.poll() == [0, 1]
        second = await Lite(cluster, "m2", poll_batch=9).start()
        await anyio.sleep(3)
        assert (first.consumer.assignment(), second.consumer.assignment()) == ([Q0], [])
        assert await first.poll(0) == [], "no message of a queue that it is giving up"
        await anyio.sleep(0.1)
        assert committed(cluster, Q1) == 2
        assert second.consumer.assignment() == [Q1]
        assert await second.drain() == [2, 3, 4, 5]

    run(simulate, scenario, queues=2)


def test_a_commit_releases_it_too_and_the_end_of_the_grace_without_either(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        first = await Lite(cluster, "m1", auto_commit=False, shutdown_grace_s=4).start()
        await anyio.sleep(1)
        await sent(cluster, 3, queue=Q1)
        assert await first.poll() == [0, 1, 2]
        second = await Lite(cluster, "m2").start()
        await anyio.sleep(3)
        await first.do(first.consumer.commit)
        await anyio.sleep(0.1)
        assert (committed(cluster, Q1), second.consumer.assignment()) == (3, [Q1])
        await second.do(second.consumer.shutdown)
        await anyio.sleep(3)
        await sent(cluster, 3, first=3, queue=Q1)
        assert await first.poll() == [3, 4, 5]
        third = await Lite(cluster, "m3").start()
        await anyio.sleep(3)
        assert third.consumer.assignment() == []
        await anyio.sleep(3)
        assert await third.poll() == [3, 4, 5]
        await first.do(first.consumer.commit)
        assert committed(cluster, Q1) == 3, "the result came too late, and is not committed over the new owner"

    run(simulate, scenario, queues=2)


def test_a_queue_lost_and_regained_within_one_pull_never_mixes_its_two_lives(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1", poll_batch=2, shutdown_grace_s=1).start()
        await anyio.sleep(1)
        await sent(cluster, 4, queue=Q1)
        assert await lite.poll() == [0, 1]
        lives = [lite.consumer._pulled().owned[Q1]]
        await anyio.sleep(2)  # its pull is held by the broker now, for 15 s
        for _ in range(3):
            other = await Lite(cluster, "m2").start(None)
            await other.do(other.consumer.subscribe, "t")
            await anyio.sleep(1.5)
            await other.do(other.consumer.shutdown)
            await anyio.sleep(0.5)
            lives.append(lite.consumer._pulled().owned[Q1])
        assert len({id(life) for life in lives}) == 4
        assert committed(cluster, Q1) == 0
        await sent(cluster, 2, first=4, queue=Q1)
        await anyio.sleep(1)
        found = await lite.drain()
        assert found == [0, 1, 2, 3, 4, 5], "each once in its new life, in order, and none of an old one"
        await lite.do(lite.consumer.commit)
        assert committed(cluster, Q1) == 6

    run(simulate, scenario, queues=2)


def test_under_churn_and_crashes_every_message_is_processed_by_somebody(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        processed: dict[int, int] = {}
        rng = Random(7)

        async def consume(n: int) -> None:
            options: dict[str, Any] = {"session_timeout_s": 3, "consume_from": ConsumeFrom.FIRST_OFFSET}
            lite = await Lite(cluster, f"m{n}", poll_batch=5, **options).start()
            last: list[int] = []
            for _ in range(10 + 5 * n):
                for number in last:
                    processed[number] = processed.get(number, 0) + 1
                last = await lite.poll(0.5)
                await anyio.sleep(rng.uniform(0, 0.3))
            await (lite.do(lite.consumer.shutdown) if n % 2 else lite.crash())

        async with anyio.create_task_group() as tasks:
            for n in range(8):
                tasks.start_soon(consume, n)
            await sent(cluster, 300)
        last = await Lite(cluster, "last", consume_from=ConsumeFrom.FIRST_OFFSET).start()
        await anyio.sleep(10)
        for number in await last.drain():
            processed[number] = processed.get(number, 0) + 1
        assert sorted(processed) == list(range(300))

    run(simulate, scenario, queues=3, brokers=2)


def test_a_commit_of_a_queue_that_a_silent_member_lost_says_so(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        first = await Lite(cluster, "m1", session_timeout_s=2, auto_commit=False).start()
        await anyio.sleep(1)
        await sent(cluster, 3, queue=Q0)
        assert await first.poll() == [0, 1, 2]
        stalled = cluster.simulation.network.stall("m1")
        second = await Lite(cluster, "m2").start()
        await anyio.sleep(5)
        assert await second.poll() == [0, 1, 2]
        stalled.heal()
        with pytest.raises((LeaseLost, NetworkError)):
            await first.do(first.consumer.commit)
        await anyio.sleep(5)
        assert committed(cluster) == 0

    run(simulate, scenario)


# ----------------------------------------------------------------------------------------------------- seek and pause


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
        with pytest.raises(IllegalOperation, match="rebalance may be under way"):
            await lite.do(consumer.seek, Q1, 0)
        await lite.do(consumer.seek_to_begin, Q0)
        await lite.do(consumer.shutdown)
        assert committed(cluster) == (0 if auto_commit else 10), "and is not lost if it is the last thing done"

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


# ------------------------------------------------------------------------------------------------------------ assign


def test_assigned_queues_are_read_without_a_group_and_their_offsets_are_found_again(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await sent(cluster, 3, queue=Q0)
        await sent(cluster, 3, first=10, queue=Q1)
        options: dict[str, Any] = {"consume_from": ConsumeFrom.FIRST_OFFSET, "poll_batch": 2}
        first = Lite(cluster, "m1", **options)
        await first.do(first.consumer.assign, [Q1])
        await first.start(None)
        assert await first.poll() == [10, 11]
        assert await first.poll() == [12]
        await anyio.sleep(6)
        assert (committed(cluster, Q1), committed(cluster, Q0)) == (2, None)
        await first.do(first.consumer.assign, [Q0])
        assert await first.drain() == [0, 1, 2]
        await anyio.sleep(6)
        assert committed(cluster, Q1) == 3, "the poll after the change of mind has counted it as processed"
        await first.do(first.consumer.shutdown)
        second = await Lite(cluster, "m2", **options).start(None)
        await second.do(second.consumer.assign, [Q0, Q1])
        await sent(cluster, 1, first=20, queue=Q0)
        assert await second.drain() == [20]
        assert not cluster.events_of(EventKind.MEMBER_JOIN, group="g")
        assert not cluster.events_of(EventKind.LOCK_GRANTED)

    run(simulate, scenario, queues=2)


def test_an_assigned_queue_begins_at_its_end_and_its_filter_counts(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await sent(cluster, 3)
        lite = await Lite(cluster, "m1").start(None)
        await lite.do(lite.consumer.assign, [Q0], {"t": "a || b"})
        for number, tags in enumerate(["a", "c", "b", ""], 3):
            await cluster.producers[0].send("t", b"%d" % number, tags=tags)
        assert await lite.drain() == [3, 5]
        await anyio.sleep(6)
        assert committed(cluster) == 7
        await lite.do(lite.consumer.seek, Q0, 0)
        assert await lite.drain() == [3, 5]
        await lite.do(lite.consumer.shutdown)
        assert committed(cluster) == 7

    run(simulate, scenario)


def test_an_assigned_queue_whose_broker_is_away_is_read_when_it_is_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1").start(None)
        await sent(cluster, 2)
        await cluster.brokers["broker-a"].crash()
        await lite.do(lite.consumer.assign, [Q0])
        assert await lite.poll() == []
        await anyio.sleep(1)
        await cluster.brokers["broker-a"].start()
        await sent(cluster, 2, first=2)
        await anyio.sleep(40)
        assert await lite.drain() == [2, 3], "«last» is when it was assigned, not when its broker could tell"

    run(simulate, scenario)


def test_to_subscribe_and_to_assign_exclude_each_other(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = Lite(cluster, "m1")
        with pytest.raises(IllegalOperation, match="CREATE_JUST: start it first"):
            await lite.poll()
        await lite.start(None)
        with pytest.raises(IllegalOperation, match="subscribe to a topic or assign"):
            await lite.poll()
        with pytest.raises(InvalidParameter, match="no queue to assign"):
            await lite.do(lite.consumer.assign, [])
        await lite.do(lite.consumer.subscribe, "t")
        with pytest.raises(IllegalOperation, match="another one"):
            await lite.do(lite.consumer.assign, [Q0])
        await lite.do(lite.consumer.unsubscribe, "t")
        with pytest.raises(IllegalOperation, match="another one"):
            await lite.do(lite.consumer.assign, [Q0])
        other = Lite(cluster, "m2")
        await other.do(other.consumer.assign, [Q0])
        with pytest.raises(IllegalOperation, match="another one"):
            await other.do(other.consumer.subscribe, "t")

    run(simulate, scenario)


def test_an_assigned_queue_that_a_member_of_the_group_has_cannot_be_committed(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await (await Lite(cluster, "m1").start()).poll()
        lite = await Lite(cluster, "m2").start(None)
        await lite.do(lite.consumer.assign, [Q0])
        await sent(cluster, 2)
        assert await lite.drain() == [0, 1]
        with pytest.raises(LeaseLost, match="leased"):
            await lite.do(lite.consumer.commit)

    run(simulate, scenario)


def test_in_broadcasting_every_one_gets_all_and_keeps_its_place(simulate: Simulate, tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        everybody: dict[str, Any] = {"model": MessageModel.BROADCASTING, "offsets_dir": tmp_path}
        members = [await Lite(cluster, f"m{n}", **everybody).start() for n in range(2)]
        await sent(cluster, 5)
        for each in members:
            assert sorted(await each.drain()) == list(range(5))
            await each.do(each.consumer.commit)
        assert await members[0].do(members[0].consumer.committed, Q0) == 5
        await members[0].do(members[0].consumer.shutdown)
        assert committed(cluster) is None
        await sent(cluster, 1, first=5)
        again = await Lite(cluster, "m0", **everybody).start()
        assert await again.drain() == [5]
        with pytest.raises(ConfigError, match="needs an instance_name"):
            Lite(cluster, "m3", **everybody, instance_name=None)

    run(simulate, scenario)


# ------------------------------------------------------------------------------------------------------------ topics


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

        async def changed(topic: str, everything: tuple[MessageQueue, ...], mine: tuple[MessageQueue, ...]) -> None:
            calls.append((topic, len(everything), len(mine)))

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
