"""Polled consumers while queues move, members crash, and others read the same queues."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from model.errors import ConfigError, IllegalOperation, InvalidParameter, LeaseLost, NetworkError
from model.events import EventKind
from model.heartbeat import ConsumeFrom, MessageModel
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.lite import Q0, Q1, Lite, committed, delete_topic, run, sent

pytestmark = pytest.mark.simulation


# ----------------------------------------------------------------------------------------------------------- rebalances


def test_a_queue_that_is_abandoned_is_released_by_the_next_poll_with_what_was_processed(simulate: Simulate) -> None:
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
        [reported] = cluster.events_of(EventKind.MESSAGES_HANDED_OUT, client=first.consumer.client_id)
        assert (reported.queue_id, reported.n, reported.offset) == (Q1.queue_id, 2, 2)

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
        broker_runs = [lite.consumer._pulled().owned[Q1]]
        await anyio.sleep(2)  # its pull is held by the broker now, for 15 s
        for _ in range(3):
            other = await Lite(cluster, "m2").start(None)
            await other.do(other.consumer.subscribe, "t")
            await anyio.sleep(1.5)
            await other.do(other.consumer.shutdown)
            await anyio.sleep(0.5)
            broker_runs.append(lite.consumer._pulled().owned[Q1])
        assert len({id(broker_run) for broker_run in broker_runs}) == 4
        assert committed(cluster, Q1) == 0
        await sent(cluster, 2, first=4, queue=Q1)
        await anyio.sleep(1)
        found = await lite.drain()
        assert found == [0, 1, 2, 3, 4, 5], "each once in its new life, in order, and none of an old one"
        await lite.do(lite.consumer.commit)
        assert committed(cluster, Q1) == 6

    run(simulate, scenario, queues=2)


@pytest.mark.parametrize("order", ["h3 h1 h2", "h2 h1 h3"])
def test_members_that_have_no_broker_in_common_share_with_one_that_has_both(simulate: Simulate, order: str) -> None:
    wanted = {"h1": "t", "h2": "u", "h3": "tu"}

    async def scenario(cluster: SimulatedCluster) -> None:
        for topic, broker in (("t", "broker-a"), ("u", "broker-b")):
            await cluster.create_topic(topic, queues=4, brokers=[broker])
        started: dict[str, Lite] = {}
        for host in order.split():
            lite = started[host] = await Lite(cluster, host).start(None)
            for topic in wanted[host]:
                await lite.do(lite.consumer.subscribe, topic)
        await anyio.sleep(60)
        had = {host: [queue.topic for queue in started[host].consumer.assignment()] for host in wanted}
        assert had == {"h1": ["t"] * 2, "h2": ["u"] * 2, "h3": ["t", "t", "u", "u"]}
        at = len(cluster.events)
        await anyio.sleep(60)
        assert cluster.events_of(EventKind.LOCK_REFUSED, at) == []

    simulate(scenario)


def test_a_poll_hands_out_nothing_under_a_lease_that_may_have_ended(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1", session_timeout_s=3, poll_batch=1).start()
        await anyio.sleep(1)
        await sent(cluster, 6)
        assert await lite.poll() == [0]
        stalled = cluster.simulation.network.stall("m1")
        assert await lite.poll() == [1]
        await anyio.sleep(5)
        assert await lite.poll() == [], "somebody else may have it by now"
        stalled.heal()
        await anyio.sleep(10)
        assert await lite.drain() == [2, 3, 4, 5], (
            "a lease of its own again, from what the last poll counted as processed"
        )

    run(simulate, scenario)


def test_under_churn_and_crashes_every_message_is_processed_by_someone(simulate: Simulate) -> None:
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


# --------------------------------------------------------------------------------------------------------------- assign


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
        assert await lite.drain() == [2, 3], "'last' is when it was assigned, not when its broker could tell"

    run(simulate, scenario)


def test_an_assigned_queue_of_a_topic_that_was_recreated_is_read_from_its_first_message(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await sent(cluster, 30)
        lite = await Lite(cluster, "m1", consume_from=ConsumeFrom.FIRST_OFFSET).start(None)
        await lite.do(lite.consumer.assign, [Q0])
        assert await lite.drain() == list(range(30))
        lite.consumer.pause([Q0])  # so that it sees nothing of the deletion, and has an offset to commit
        await delete_topic(cluster)
        await cluster.create_topic("t", queues=1)
        await sent(cluster, 50)
        await anyio.sleep(12)
        assert committed(cluster) is None, "an offset of the old topic is not committed in the new one"
        lite.consumer.resume([Q0])
        assert await lite.drain() == list(range(50))
        await anyio.sleep(6)
        assert committed(cluster) == 50
        assert caplog.text.count("was deleted and created again") == 1

    run(simulate, scenario)


def test_an_assignment_that_no_name_server_seen_takes_effect_when_one_is_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "m1").start(None)
        await sent(cluster, 2)
        await cluster.name_servers["namesrv-1"].crash()
        with pytest.raises(NetworkError):
            await lite.do(lite.consumer.assign, [Q0])
        await sent(cluster, 2, first=2)
        await cluster.name_servers["namesrv-1"].start()
        await anyio.sleep(70)
        assert await lite.drain() == [2, 3]

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
        with pytest.raises(IllegalOperation, match="cannot be mixed"):
            await lite.do(lite.consumer.assign, [Q0])
        await lite.do(lite.consumer.unsubscribe, "t")
        with pytest.raises(IllegalOperation, match="cannot be mixed"):
            await lite.do(lite.consumer.assign, [Q0])
        other = Lite(cluster, "m2")
        await other.do(other.consumer.assign, [Q0])
        with pytest.raises(IllegalOperation, match="cannot be mixed"):
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
