"""Brokers with copies: what is acknowledged survives each failure of one replica, and a handover costs nothing."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from model.errors import NotMaster, RlabError
from model.events import EventKind
from model.message_queue import MessageQueue
from model.replica_set import Acks, Elect, ReplicaSet
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from replica.mastership.operate import elect
from testbed.simulation.cluster.clients import SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.cluster.sets import SimulatedSet
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

PAIR: dict[str, Any] = {"brokers": 1, "copies": 2}


def the_set(cluster: SimulatedCluster) -> SimulatedSet:
    """The only set of the cluster."""
    found = cluster.brokers["broker-a"]
    assert isinstance(found, SimulatedSet)
    return found


async def row_of(cluster: SimulatedCluster) -> ReplicaSet:
    """The row of that set."""
    row = await cluster.register.read("broker-a")
    assert row is not None
    return row


async def wait_in_sync(cluster: SimulatedCluster, *ids: int, timeout_s: float = 30.0) -> None:
    """Wait until exactly these replicas are in sync, and have everything."""
    with anyio.fail_after(timeout_s):
        while (await row_of(cluster)).in_sync != ids:  # noqa: ASYNC110 - virtual time costs nothing
            await anyio.sleep(0.01)


async def pair_with_topic(cluster: SimulatedCluster) -> SimulatedProducer:
    """Wait until both replicas are in sync, and make a topic and a producer."""
    await wait_in_sync(cluster, 1, 2)
    await cluster.create_topic("orders", queues=2)
    return await cluster.start_producer()


async def stored(cluster: SimulatedCluster) -> list[bytes]:
    """The bodies of all messages at the master, sorted."""
    with cluster.simulation.on_host("reader"):
        async with Admin(cluster.addresses) as admin:
            found = []
            for queue_id in range(2):
                queue, offset = MessageQueue("orders", "broker-a", queue_id), 0
                while True:
                    messages, offset = await admin.read_queue(queue, offset=offset, max_n=32)
                    if not messages:
                        break
                    found += [message.body for message, _ in messages]
            return sorted(found)


async def send_for(cluster: SimulatedCluster, producer: SimulatedProducer, seconds: float) -> float:
    """Send one message after another for a while; returns the longest time without an acknowledgement."""
    loop = cluster.simulation.loop
    until, last, longest, number = loop.time() + seconds, loop.time(), 0.0, len(producer.acknowledged)
    while loop.time() < until:
        number += 1
        await producer.send("orders", b"%06d" % number)
        longest, last = max(longest, loop.time() - last), loop.time()
        await anyio.sleep(0.005)
    return longest


def test_a_handover_loses_nothing_and_moves_nothing_and_takes_a_moment(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        consumers = [await cluster.start_consumer("billing", "orders") for _ in range(2)]
        await cluster.wait_converged(5.0)
        dropped = len(cluster.events_of(EventKind.QUEUE_DROPPED))
        gaps = []
        for to in (2, 1, 2):
            async with anyio.create_task_group() as tasks:

                async def send() -> None:
                    gaps.append(await send_for(cluster, producer, 1.0))

                tasks.start_soon(send)
                await anyio.sleep(0.5)
                master = the_set(cluster).master
                assert master is not None
                with cluster.simulation.on_host(master.host):
                    await master.running.hand_over(to)
        assert (await row_of(cluster)).master == 2
        assert (await row_of(cluster)).epoch == 4
        assert max(gaps) < 0.3
        await anyio.sleep(5.0)
        bodies = sorted(body for consumer in consumers for body in consumer.bodies)
        assert bodies == sorted(producer.acknowledged)
        assert len(cluster.events_of(EventKind.QUEUE_DROPPED)) == dropped

    simulate(scenario, **PAIR)


def test_commits_that_came_with_pulls_and_are_not_stored_yet_survive_a_handover(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        consumer = await cluster.start_consumer("billing", "orders")
        await producer.send_many("orders", 20)
        with anyio.fail_after(10.0):
            while len(consumer.bodies) < 20:  # noqa: ASYNC110 - virtual time costs nothing
                await anyio.sleep(0.01)
        master = the_set(cluster).master
        assert master is not None
        offsets = the_set(cluster).running.broker.leases.offsets

        def committed() -> list[int | None]:
            return [offsets.read("billing", "orders", queue_id) for queue_id in range(2)]

        with anyio.fail_after(10.0):
            while committed() != [10, 10]:  # noqa: ASYNC110 - virtual time costs nothing
                await anyio.sleep(0.001)
        cluster.simulation.network.cut(consumer.host)
        with cluster.simulation.on_host(master.host), cluster.simulation.network.stall(consumer.host):
            await master.running.hand_over(2)
            with anyio.fail_after(10.0):
                while the_set(cluster).master is not cluster.replicas["broker-a-2"]:  # noqa: ASYNC110 - as above
                    await anyio.sleep(0.001)
            offsets = the_set(cluster).running.broker.leases.offsets
            assert committed() == [10, 10]

    simulate(scenario, **PAIR)


def test_a_commit_is_recorded_as_an_event_once_the_other_replica_has_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        consumer = await cluster.start_consumer("billing", "orders")
        await producer.send_many("orders", 20)
        with anyio.fail_after(10.0):
            while len(consumer.bodies) < 20:  # noqa: ASYNC110 - virtual time costs nothing
                await anyio.sleep(0.001)

        def recorded() -> int:
            events = cluster.events_of(EventKind.OFFSET_COMMITTED)
            return sum((event.topic, event.offset) == ("orders", 10) for event in events)

        async with anyio.create_task_group() as tasks:
            with cluster.simulation.network.stall("broker-a-2"):
                tasks.start_soon(consumer.stop)  # its last commits are made
                await anyio.sleep(0.5)
                assert recorded() == 0
            await anyio.sleep(1.0)
            assert recorded() == 2

    simulate(scenario, **PAIR)


def test_a_master_that_is_stopped_hands_over_and_follows_when_it_is_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        await producer.send_many("orders", 20)
        await cluster.replicas["broker-a-1"].stop()
        assert (await row_of(cluster)).master == 2
        await producer.send_many("orders", 20, first=20)
        await cluster.replicas["broker-a-1"].start()
        await wait_in_sync(cluster, 1, 2)
        assert await stored(cluster) == sorted(b"%d" % number for number in range(40))

    simulate(scenario, **PAIR)


def test_sends_do_not_wait_for_a_master_that_was_stopped_and_has_handed_over(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        gaps = []
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                gaps.append(await send_for(cluster, producer, 3.0))

            tasks.start_soon(send)
            await anyio.sleep(0.5)
            began = anyio.current_time()
            await cluster.replicas["broker-a-1"].stop()
            assert anyio.current_time() - began < 0.3
            row = await row_of(cluster)
            assert (row.master, row.in_sync) == (2, (2,))
        assert gaps[0] < 0.3

    simulate(scenario, **PAIR)


def test_a_replica_that_is_killed_holds_up_sends_for_a_moment_and_returns_by_itself(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        async with anyio.create_task_group() as tasks:
            gaps: list[float] = []

            async def send() -> None:
                gaps.append(await send_for(cluster, producer, 20.0))

            tasks.start_soon(send)
            await anyio.sleep(2.0)
            await cluster.replicas["broker-a-2"].crash()
            await wait_in_sync(cluster, 1)
            await cluster.replicas["broker-a-2"].start()
            await wait_in_sync(cluster, 1, 2)
        assert gaps[0] <= 2.1
        assert await stored(cluster) == sorted(producer.acknowledged)

    simulate(scenario, **PAIR)


def test_an_elected_replica_has_all_that_was_acknowledged_and_the_old_master_gives_up_its_tail(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        await producer.send_many("orders", 50)
        await cluster.replicas["broker-a-1"].crash()

        async def away(_: str) -> bool:
            return False

        row = await elect(cluster.register, "broker-a", 2, accept_loss=False, answers=away)
        assert (row.master, row.epoch, row.in_sync) == (2, 2, (2,))
        await producer.send_many("orders", 50, first=50)
        await cluster.replicas["broker-a-1"].start()
        await wait_in_sync(cluster, 1, 2)
        assert await stored(cluster) == sorted(b"%d" % number for number in range(100))
        await anyio.sleep(2.0)
        logs = [
            {path.name: path.read_bytes() for path in (cluster.data_dir / f"broker-a-{n}").glob("*.log")}
            for n in (1, 2)
        ]
        assert logs[0] == logs[1]

    simulate(scenario, set_options={"elect": Elect.OPERATOR}, **PAIR)


def test_a_replica_that_does_not_serve_names_the_master_and_answers_health(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await pair_with_topic(cluster)
        follower = cluster.replicas["broker-a-2"].address
        with cluster.simulation.on_host("client"):
            async with RemotingClient() as client:
                state = await client.request(follower, RequestCode.GET_SERVER_STATE)
                assert state.header["name"] == "broker-a"
                await client.request(follower, RequestCode.GET_BROKER_RUNTIME_INFO)
                with pytest.raises(NotMaster) as refused:
                    await client.request(follower, RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queue_id": 0})
        assert refused.value.master_address == "broker-a-1:10911"
        assert refused.value.epoch == 1

    simulate(scenario, **PAIR)


def test_operators_see_each_replica_and_hand_over_by_name(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await pair_with_topic(cluster)
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                found = await admin.replicas("broker-a")
                assert [(each.role, each.in_sync) for each in found.replicas] == [("master", True), ("following", True)]
                assert found.replicas[0].end_position == found.replicas[1].end_position > 0
                with pytest.raises(RlabError, match="replica 9"):
                    await admin.hand_over("broker-a", 9)
                row = await admin.hand_over("broker-a", 2)
                assert (row.master, row.epoch) == (2, 2)
                await anyio.sleep(1.0)
                await cluster.replicas["broker-a-1"].crash()
                found = await admin.replicas("broker-a")
                assert found.replicas[0].failure != ""

    simulate(scenario, **PAIR)


def test_with_too_few_replicas_in_sync_a_send_is_refused_and_nothing_is_stored(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        await producer.send_many("orders", 3)
        await cluster.replicas["broker-a-2"].crash()
        await wait_in_sync(cluster, 1)
        with pytest.raises(RlabError, match="min_in_sync"):
            await producer.send("orders", b"refused")
        await cluster.replicas["broker-a-2"].start()
        await wait_in_sync(cluster, 1, 2)
        await producer.send("orders", b"3")
        assert await stored(cluster) == [b"0", b"1", b"2", b"3"]

    simulate(scenario, set_options={"min_in_sync": 2}, **PAIR)


def test_without_waiting_for_others_sends_go_on_when_a_replica_hangs(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        hanging = cluster.simulation.network.stall("broker-a-2")
        assert await send_for(cluster, producer, 1.0) < 0.1
        hanging.heal()

    simulate(scenario, set_options={"acks": Acks.MASTER}, **PAIR)
