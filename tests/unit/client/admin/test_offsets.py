from __future__ import annotations

from pathlib import Path

import pytest

from client.admin.admin import Admin
from model.errors import GroupNotExist, InvalidParameter, NetworkError, TopicNotExist
from model.message_queue import MessageQueue
from model.offset_reset import ResetTo
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.unit.client.admin.admin_cluster import administer

pytestmark = pytest.mark.simulation

A0, A1, B0, B1 = (MessageQueue("t", name, n) for name in ("broker-a", "broker-b") for n in range(2))


async def filled(cluster: SimulatedCluster) -> None:
    """Topic t with two queues on each of two brokers, five messages in each."""
    await cluster.create_topic("t", queues=2)
    producer = await cluster.start_producer()
    for number in range(20):
        await producer.send("t", b"%d" % number, queue=(A0, A1, B0, B1)[number % 4])


def offsets(cluster: SimulatedCluster, group: str) -> dict[MessageQueue, int]:
    return {
        MessageQueue(topic, name, queue_id): offset
        for name, server in cluster.brokers.items()
        for topic, queue_id, offset in server.running.broker.leases.offsets.of_group(group)
    }


def test_all_queues_of_all_brokers_are_reset_or_only_those_that_are_named(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await filled(cluster)
        rows = await admin.reset_offsets("g", "t", ResetTo.latest(), create=True)
        assert [(row.queue, row.before, row.after, row.owner) for row in rows] == [
            (queue, None, 5, None) for queue in (A0, A1, B0, B1)
        ]
        rows = await admin.reset_offsets("g", "t", ResetTo.offset(9), queues=[B1, A0])
        assert [(row.queue, row.before, row.after, row.clamped) for row in rows] == [(A0, 5, 5, True), (B1, 5, 5, True)]
        await admin.reset_offsets("g", "t", ResetTo.shift(-2), queues=[B0])
        assert offsets(cluster, "g") == {A0: 5, A1: 5, B0: 3, B1: 5}

    administer(scenario, tmp_path)


def test_the_clock_of_a_topic_is_the_earliest_of_its_brokers_and_not_that_of_this_machine(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        cluster.skewed_ms.update({"broker-a": 5_000, "broker-b": -60_000})
        await filled(cluster)
        at = await admin.clock_ms("t")
        assert at is not None
        assert abs(at - (cluster.simulation.clock_ms() - 60_000)) < 100
        await cluster.brokers["broker-b"].crash()
        at = await admin.clock_ms("t")
        assert at is not None
        assert abs(at - (cluster.simulation.clock_ms() + 5_000)) < 5_000
        with pytest.raises(TopicNotExist):
            await admin.clock_ms("nope")

    administer(scenario, tmp_path)


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await filled(cluster)
        rows = await admin.reset_offsets("g", "t", ResetTo.latest(), dry_run=True, create=True)
        assert [row.after for row in rows] == [5, 5, 5, 5]
        assert offsets(cluster, "g") == {}

    administer(scenario, tmp_path)


def test_a_group_that_no_broker_knows_is_refused_unless_it_is_meant(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await filled(cluster)
        await admin.reset_offsets("known", "t", ResetTo.latest(), queues=[A0], create=True)
        with pytest.raises(GroupNotExist, match=r"'konwn'; known groups: known\."):
            await admin.reset_offsets("konwn", "t", ResetTo.latest())
        assert offsets(cluster, "konwn") == {}
        await admin.reset_offsets("known", "t", ResetTo.earliest())  # one broker knows it, and that is enough
        assert len(offsets(cluster, "known")) == 4

    administer(scenario, tmp_path)


def test_when_one_broker_refuses_or_is_away_nothing_is_reset_on_the_others(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await filled(cluster)
        await admin.reset_offsets("g", "t", ResetTo.latest(), queues=[A0, A1], create=True)
        with pytest.raises(InvalidParameter, match=r"nothing was reset: broker broker-b: t:0, group 'g'"):
            await admin.reset_offsets("g", "t", ResetTo.shift(-1))
        with cluster.simulation.network.stall("broker-b"), pytest.raises(NetworkError, match="nothing was reset"):
            await admin.reset_offsets("g", "t", ResetTo.earliest())
        assert offsets(cluster, "g") == {A0: 5, A1: 5}

    administer(scenario, tmp_path)


def test_bad_input_is_reported(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await filled(cluster)
        for queue in (MessageQueue("other", "broker-a", 0), MessageQueue("t", "broker-x", 0)):
            with pytest.raises(InvalidParameter, match="brokers that have it: broker-a, broker-b"):
                await admin.reset_offsets("g", "t", ResetTo.latest(), queues=[queue])
        with pytest.raises(InvalidParameter, match="has no queue 7"):
            await admin.reset_offsets("g", "t", ResetTo.latest(), queues=[MessageQueue("t", "broker-a", 7)])
        with pytest.raises(InvalidParameter, match="no queue to reset"):
            await admin.reset_offsets("g", "t", ResetTo.latest(), queues=[])
        with pytest.raises(TopicNotExist):
            await admin.reset_offsets("g", "nowhere", ResetTo.latest())
        with pytest.raises(InvalidParameter, match="group name"):
            await admin.reset_offsets("wrong!", "t", ResetTo.latest())

    administer(scenario, tmp_path)
