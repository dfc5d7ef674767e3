"""The life of a consumer among others: it joins, leaves, dies and shares, and nothing is lost or done twice."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from client import Message
from model.errors import ConfigError, ConnectFailed
from model.events import EventKind
from model.limits import LEASE_CLOSE_GRACE_S
from model.message import MessageExt
from testbed.simulation.cluster.clients import SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire

pytestmark = pytest.mark.simulation

__all__ = ["wire"]


def finished(cluster: SimulatedCluster) -> Counter[bytes]:
    """How often each body was finished, over all consumers."""
    return Counter(d.body for consumer in cluster.consumers for d in consumer.deliveries if d.finished)


def lost(cluster: SimulatedCluster) -> set[bytes]:
    """What was acknowledged to a producer and finished by nobody."""
    acknowledged = {body for producer in cluster.producers for body in producer.acknowledged}
    return acknowledged - finished(cluster).keys()


async def send_steadily(producer: SimulatedProducer, topic: str, *, per_s: int, for_s: float) -> None:
    for number in range(int(per_s * for_s)):
        await producer.send(topic, b"%d" % number)
        await anyio.sleep(1 / per_s)


async def takes_ten_ms(message: MessageExt) -> None:
    await anyio.sleep(0.01)


# ---------------------------------------------------------------------------------------------------- start and end


def test_a_start_goes_from_the_name_server_over_the_heartbeat_to_the_first_pull(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", host="c")
        await cluster.wait_converged(1)
        await anyio.sleep(0.1)
        codes = wire.codes("c")
        in_order = [
            "GET_SERVER_STATE",
            "GET_ROUTEINFO_BY_TOPIC",
            "HEART_BEAT",
            "GET_CONSUMER_LIST_BY_GROUP",
            "LOCK_BATCH_MQ",
            "PULL_MESSAGE",
        ]
        assert [code for code in dict.fromkeys(codes) if code in in_order] == in_order
        kinds = [event.kind for event in cluster.events if event.client == consumer.client_id]
        in_order = ["CLIENT_START", "MEMBER_JOIN", "REBALANCE_BEGIN", "LOCK_GRANTED", "QUEUE_ACQUIRED", "FIRST_PULL"]
        assert [kind for kind in dict.fromkeys(kinds) if kind in in_order] == in_order
        (start,) = cluster.events_of(EventKind.CLIENT_START)
        (acquired,) = cluster.events_of(EventKind.QUEUE_ACQUIRED, topic="t")
        assert acquired.cause == f"{consumer.client_id}/{start.seq}", "everything goes back to the start"

    simulate(scenario, brokers=1)


def test_an_idle_hour_of_a_member_is_five_hundred_requests(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders", queues=2)
        consumers = [await cluster.start_consumer("billing", "orders") for _ in range(2)]
        await anyio.sleep(300)
        since_s = anyio.current_time()
        await anyio.sleep(3_600)
        # The other one also has the queue of the retry topic.
        counts = [Counter(wire.codes(each.host, since_s=since_s)) for each in consumers]
        assert {code: n for code, n in min(counts, key=Counter.total).items() if n > 1} == {
            "HEART_BEAT": pytest.approx(120, abs=1),
            "GET_ROUTEINFO_BY_TOPIC": pytest.approx(120, abs=1),
            "GET_CONSUMER_LIST_BY_GROUP": pytest.approx(180, abs=1),
            "PULL_MESSAGE": pytest.approx(80, abs=1),
        }

    simulate(scenario, brokers=1)


def test_a_wrong_option_is_refused_before_anything_is_sent(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        wire.sent.clear()
        with pytest.raises(ConfigError, match="max_workers must be 1 to 1000, got 0"):
            cluster.make_consumer("g", max_workers=0)
        with pytest.raises(ConfigError, match="did you mean 'max_workers'"):
            cluster.make_consumer("g", max_worker=1)
        assert wire.codes("c1") == wire.codes("c2") == []

    simulate(scenario)


def test_a_cancelled_start_leaves_nothing_running(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        for delay_ms in range(12):
            consumer = cluster.make_consumer("g")
            await consumer.subscribe("t")
            with anyio.move_on_after(delay_ms / 2000 + 0.00025):
                await consumer.start()
            if consumer.live:
                await consumer.stop()
            await anyio.sleep(LEASE_CLOSE_GRACE_S + 0.1)
            assert cluster.simulation.network.connections(consumer.host) == ()
            for broker in cluster.brokers.values():
                group = broker.running.broker.groups.table.get("g")
                assert group is None or not group.members

    simulate(scenario)


# ------------------------------------------------------------------------------------------------ joining and leaving


def test_members_that_join_and_leave_under_load_lose_nothing_and_do_nothing_twice(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        first = await cluster.start_consumer("g", "t", work=takes_ten_ms)
        producer = await cluster.start_producer()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: send_steadily(producer, "t", per_s=500, for_s=10))
            await anyio.sleep(1.013)
            second = await cluster.start_consumer("g", "t", work=takes_ten_ms)
            await anyio.sleep(1.007)
            await cluster.start_consumer("g", "t", work=takes_ten_ms)
            await anyio.sleep(2)
            await second.stop()
            await anyio.sleep(2)
            await first.stop()
        await anyio.sleep(1)
        assert len(producer.acknowledged) == 5000
        assert lost(cluster) == set()
        assert [body for body, n in finished(cluster).items() if n > 1] == []

    simulate(scenario)


def test_a_queue_that_moves_waits_for_the_listener_that_has_its_messages(simulate: Simulate) -> None:
    async def takes_four_seconds(message: MessageExt) -> None:
        await anyio.sleep(4)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        slow = await cluster.start_consumer("g", "t", work=takes_four_seconds)
        producer = await cluster.start_producer()
        await cluster.wait_converged(1)
        for queue in cluster.owners("g"):
            await producer.send("t", b"%d" % queue.queue_id, queue=queue)
        await anyio.sleep(1)
        quick = await cluster.start_consumer("g", "t")
        assert await cluster.wait_converged(5) == pytest.approx(3, abs=0.2)
        assert len(slow.queues) == len(quick.queues) == 1
        await anyio.sleep(1)
        assert finished(cluster) == Counter([b"0", b"1"])

    simulate(scenario, brokers=1)


def test_what_a_crashed_member_had_is_delivered_again_by_the_others(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        await cluster.start_consumer("g", "t", work=takes_ten_ms)
        doomed = await cluster.start_consumer("g", "t", work=takes_ten_ms)
        await cluster.wait_converged(1)
        producer = await cluster.start_producer()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: send_steadily(producer, "t", per_s=500, for_s=4))
            await anyio.sleep(2.003)
            await doomed.crash()
            assert await cluster.wait_converged(1) < LEASE_CLOSE_GRACE_S + 0.2
        await anyio.sleep(1)
        assert [d for d in doomed.deliveries if not d.finished], "it had some in its hands"
        assert lost(cluster) == set()
        twice = [body for body, n in finished(cluster).items() if n > 1]
        assert twice, "what it had not committed in its last seconds"

    simulate(scenario)


def test_a_cut_connection_loses_nothing_and_the_member_comes_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        await cluster.start_consumer("g", "t", work=takes_ten_ms)
        unlucky = await cluster.start_consumer("g", "t", work=takes_ten_ms)
        await cluster.wait_converged(1)
        producer = await cluster.start_producer()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: send_steadily(producer, "t", per_s=300, for_s=6))
            for _ in range(3):
                await anyio.sleep(1)
                cluster.simulation.network.cut(unlucky.host)
                with cluster.simulation.network.stall(unlucky.host):
                    await anyio.sleep(LEASE_CLOSE_GRACE_S + 0.1)
        assert cluster.events_of(EventKind.MEMBER_LEAVE, client=unlucky.client_id)
        await cluster.wait_converged(5)
        await anyio.sleep(1)
        assert lost(cluster) == set()
        assert unlucky.queues

    simulate(scenario)


def test_a_member_that_leaves_one_of_its_topics_gives_up_only_that(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        await cluster.create_topic("u")
        first = await cluster.start_consumer("g", "t")
        second = await cluster.start_consumer("g", "t")
        await first.subscribe("u")
        await second.subscribe("u")
        await cluster.wait_converged(1)
        assert {queue.topic for queue in first.queues} == {"t", "u"}
        await first.unsubscribe("u")
        await cluster.wait_converged(1)
        assert {queue.topic for queue in first.queues} == {"t"}
        assert len([queue for queue in second.queues if queue.topic == "u"]) == 8
        await second.unsubscribe("u")
        await second.unsubscribe("t")
        await cluster.wait_converged(1)
        assert second.queues == []
        assert len(first.queues) == 8

    simulate(scenario)


def test_a_second_topic_that_one_member_subscribes_to_is_shared_only_among_those_that_want_it(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        await cluster.create_topic("u")
        first = await cluster.start_consumer("g", "t")
        second = await cluster.start_consumer("g", "u")
        await cluster.wait_converged(1)
        await anyio.sleep(1)
        assert ({queue.topic for queue in first.queues}, len(first.queues)) == ({"t"}, 8)
        assert ({queue.topic for queue in second.queues}, len(second.queues)) == ({"u"}, 8)
        at = len(cluster.events)
        await anyio.sleep(120)
        assert cluster.events_of(EventKind.NOTIFY_SENT, at) == [], "their heartbeats do not undo each other"

    simulate(scenario)


# ------------------------------------------------------------------------------------------------------------ offsets


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_offsets_survive_the_group_and_the_brokers(simulate: Simulate, how: str) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer()
        consumer = await cluster.start_consumer("g", "t")
        await producer.send_many("t", 40)
        await anyio.sleep(1)
        await consumer.stop()
        assert len(finished(cluster)) == 40
        for broker in cluster.brokers.values():
            await (broker.stop() if how == "stop" else broker.crash())
            await broker.start()
        await anyio.sleep(40)  # the producer polls the route
        await producer.send_many("t", 40, first=40)
        await cluster.start_consumer("g", "t")
        await anyio.sleep(1)
        assert finished(cluster) == Counter(b"%d" % n for n in range(80))

    simulate(scenario)


def test_offsets_are_committed_every_five_seconds(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.start_consumer("g", "t")
        producer = await cluster.start_producer()
        await producer.send_many("t", 7)
        await anyio.sleep(5.1)
        assert [event.offset for event in cluster.events_of(EventKind.OFFSET_COMMITTED, topic="t")] == [7]
        await anyio.sleep(60)
        assert len(cluster.events_of(EventKind.OFFSET_COMMITTED, topic="t")) == 1, "nothing new, nothing to say"

    simulate(scenario, brokers=1)


def test_a_message_sent_to_a_topic_that_does_not_exist_makes_it_and_a_waiting_consumer_gets_it(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = await cluster.start_consumer("g", "new")
        producer = await cluster.start_producer()
        await producer.send("new", b"x")
        await anyio.sleep(31)
        assert consumer.bodies == [b"x"]

    simulate(scenario)


def test_an_unreachable_name_server_is_an_error_that_names_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.name_servers["namesrv-1"].stop()
        consumer = cluster.make_consumer("g")
        await consumer.subscribe("t")
        with pytest.raises(ConnectFailed, match=r"no name server answers: namesrv-1:9876: cannot connect"):
            await consumer.start()
        with pytest.raises(ConnectFailed, match="namesrv-1:9876"):
            await cluster.start_producer()
        await anyio.sleep(1)
        assert cluster.simulation.network.connections(consumer.host) == ()

    simulate(scenario)


def test_messages_of_a_batch_arrive_in_order_on_one_queue(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        consumer = await cluster.start_consumer("g", "t", max_workers=1)
        producer = await cluster.start_producer()
        with cluster.simulation.on_host(producer.host):
            results = await producer.producer.send_batch([Message("t", b"%d" % n) for n in range(50)])
        assert len({result.queue for result in results}) == 1
        assert [result.offset for result in results] == list(range(50))
        await anyio.sleep(1)
        assert consumer.bodies == [b"%d" % n for n in range(50)]

    simulate(scenario)
