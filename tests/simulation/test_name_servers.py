"""Name servers come and go, one by one or all: clients keep what they know, and ask whoever answers."""

from __future__ import annotations

import anyio
import pytest

from model.errors import TopicNotExist
from model.events import EventKind
from model.limits import (
    ABSENT_BROKER_KEPT_S,
    ABSENT_BROKER_SPREAD_S,
    NAME_SERVER_STARTING_S,
    ROUTE_POLL_INTERVAL_S,
)
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("how", ["stop", "crash", "hang"])
@pytest.mark.parametrize("seed", range(3))
def test_clients_start_and_go_on_while_one_of_two_name_servers_is_down(simulate: Simulate, how: str, seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        before = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        down = cluster.name_servers["namesrv-1"]
        if how == "hang":
            cluster.simulation.network.stall(down.name)
        else:
            await (down.stop() if how == "stop" else down.crash())
        for _ in range(3):  # whichever of the two each of them asks first
            await cluster.start_consumer("g", "t")
        producer = await cluster.start_producer()
        await producer.send_many("t", 8)
        await cluster.wait_converged(7)
        assert cluster.simulation.loop.time() < 3 * 4 + 7
        await cluster.create_topic("t", queues=6) if how != "hang" else None
        await cluster.wait_converged(ROUTE_POLL_INTERVAL_S + 7)
        assert before.queues

    simulate(scenario, seed=seed, name_servers=2)


def test_a_name_server_that_restarts_makes_no_one_give_up_a_queue(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        for _ in range(3):
            await cluster.start_consumer("g", "t")
        await cluster.wait_converged(5, retry_topics=True)
        at = len(cluster.events)
        for _ in range(10):
            await cluster.name_servers["namesrv-1"].crash()
            await anyio.sleep(cluster.simulation.random.random() * 5)
            await cluster.name_servers["namesrv-1"].start()
            await anyio.sleep(cluster.simulation.random.random() * 40)
        assert cluster.events_of(EventKind.QUEUE_DROPPED, at) == []
        assert cluster.differences() == []

    simulate(scenario)


def test_a_name_server_that_was_killed_and_started_reports_no_new_client_that_a_topic_of_some_broker_does_not_exist(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for letter in "ab":
            await cluster.create_topic(f"only-{letter}", queues=1, brokers=[f"broker-{letter}"])
        random = cluster.simulation.random
        for number in range(100):
            await cluster.name_servers["namesrv-1"].crash()
            # Brokers try a lost name server more and more rarely.
            await anyio.sleep(random.random() * (0.5 if number % 2 else 8))
            await cluster.name_servers["namesrv-1"].start()
            await anyio.sleep(random.random() * (0.05 if number % 3 else 3))
            producer = await cluster.start_producer()
            for letter in "ab":
                await producer.send(f"only-{letter}", b"%d" % number)  # TopicNotExist would end the test
            await producer.stop()

    simulate(scenario, auto_create_topics=False)


def test_a_route_of_no_topic_is_waited_for_no_longer_than_a_name_server_may_need(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        await cluster.name_servers["namesrv-1"].crash()
        await anyio.sleep(1)
        await cluster.name_servers["namesrv-1"].start()
        started_s = cluster.simulation.loop.time()
        producer = await cluster.start_producer()
        with pytest.raises(TopicNotExist):
            await producer.send("nowhere", b"x")
        waited_s = cluster.simulation.loop.time() - started_s
        assert NAME_SERVER_STARTING_S <= waited_s < NAME_SERVER_STARTING_S + 0.2
        with pytest.raises(TopicNotExist):
            await producer.send("nowhere", b"x")
        assert cluster.simulation.loop.time() - started_s - waited_s < 0.2

    simulate(scenario, auto_create_topics=False)


def test_a_route_poll_that_finds_the_name_server_empty_believes_it_only_after_its_time(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        await anyio.sleep(5)
        # Brokers cannot reach the name server that has just started: it knows no topic.
        hosts = ["broker-a", "broker-b"]
        await cluster.name_servers["namesrv-1"].crash()
        with cluster.simulation.network.partition("namesrv-1", hosts):
            await cluster.name_servers["namesrv-1"].start()
            await anyio.sleep(ROUTE_POLL_INTERVAL_S)
            assert cluster.events_of(EventKind.QUEUE_DROPPED) == []
            await anyio.sleep(ROUTE_POLL_INTERVAL_S)
            assert len(cluster.events_of(EventKind.QUEUE_DROPPED, topic="t")) == 8
        await cluster.wait_converged(ROUTE_POLL_INTERVAL_S + 10)

    simulate(scenario)


def test_clients_outlive_a_name_server_that_goes_in_the_middle_of_a_poll(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster, delay_s: float) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.start_consumer("g", "t", route_poll_interval_s=1.0, instance_name="1")
        await cluster.wait_converged(1)
        started_s = cluster.simulation.loop.time()
        await anyio.sleep(1 - started_s % 1 + delay_s)
        await cluster.name_servers["namesrv-1"].crash()
        await cluster.name_servers["namesrv-1"].start()
        await anyio.sleep(10)
        await cluster.create_topic("t", queues=2)
        await cluster.wait_converged(5)

    for step in range(40):
        simulate(lambda cluster, s=step: scenario(cluster, s * 0.00025))  # type: ignore[misc]


def test_two_name_servers_know_nothing_of_each_other(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with RemotingClient(rng=cluster.simulation.random) as remoting:
            await remoting.request(
                cluster.addresses[0], RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"broker_name": "broker-a"}
            )
        first, second = (server.running.table.route("t") for server in cluster.name_servers.values())
        assert {queue.broker_name for queue in first.publish_queues()} == {"broker-b"}
        assert {queue.broker_name for queue in second.publish_queues()} == {"broker-a", "broker-b"}

    simulate(scenario, name_servers=2)


def test_a_broker_finds_every_name_server_again_on_its_own(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        for server in cluster.name_servers.values():
            await server.crash()
            await server.start()
        await anyio.sleep(6)
        for server in cluster.name_servers.values():
            assert len(server.running.table.route("t").queues) == 2

    simulate(scenario, name_servers=2)


def test_a_topic_whose_only_broker_is_gone_is_abandoned_and_found_again(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", brokers=["broker-b"])
        await cluster.create_topic("u", brokers=["broker-a"])
        consumer = await cluster.start_consumer("g", "t")
        await consumer.subscribe("u")
        await cluster.wait_converged(1)
        await cluster.brokers["broker-b"].stop()
        await cluster.wait_converged(2 * ROUTE_POLL_INTERVAL_S + 1)
        assert {queue.topic for queue in consumer.queues} == {"u"}
        await anyio.sleep(300)
        await cluster.brokers["broker-b"].start()
        await cluster.wait_converged(ROUTE_POLL_INTERVAL_S + 10)

    simulate(scenario)


def test_the_queues_of_a_broker_that_stays_away_are_abandoned_thirty_seconds_after_the_loss_whatever_the_poll(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster, poll_s: float, after_s: float) -> None:
        await cluster.create_topic("t", queues=2)
        consumer = await cluster.start_consumer("g", "t", route_poll_interval_s=poll_s)
        await cluster.wait_converged(1)
        await anyio.sleep(after_s)  # into the interval of the polls
        await cluster.brokers["broker-b"].crash()
        await anyio.sleep(ABSENT_BROKER_KEPT_S - 0.1)
        assert {queue.broker_name for queue in consumer.queues} == {"broker-a", "broker-b"}
        await anyio.sleep(ABSENT_BROKER_SPREAD_S + 0.2)
        assert {queue.broker_name for queue in consumer.queues} == {"broker-a"}

    caplog.set_level("INFO", logger="client.instance.broker_reconnector")
    for poll_s in (1.0, 30.0, 600.0):
        for after_s in (0.0, 10.0, 28.0):
            caplog.clear()
            simulate(lambda cluster, p=poll_s, a=after_s: scenario(cluster, p, a))  # type: ignore[misc]
            texts = [record.getMessage() for record in caplog.records]
            assert sum("is lost: its queues are kept for 30 s" in text for text in texts) == 1
            assert sum("its queues are revoked" in text for text in texts) == 1


def test_a_restart_of_thirty_seconds_moves_no_queue_whatever_the_poll_and_new_subscriptions(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster, poll_s: float) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.create_topic("u", queues=1, brokers=["broker-a"])
        consumer = await cluster.start_consumer("g", "t", route_poll_interval_s=poll_s)
        await cluster.wait_converged(1)
        await cluster.brokers["broker-b"].stop()
        await anyio.sleep(1)
        await consumer.subscribe("u")  # which asks for the routes of all topics
        await consumer.subscribe("u")
        await anyio.sleep(ABSENT_BROKER_KEPT_S - 2.5)
        assert cluster.events_of(EventKind.QUEUE_DROPPED, topic="t") == []
        await cluster.brokers["broker-b"].start()
        await cluster.wait_converged(10)
        assert cluster.events_of(EventKind.QUEUE_DROPPED, topic="t") == []

    for poll_s in (1.0, 30.0):
        simulate(lambda cluster, p=poll_s: scenario(cluster, p))  # type: ignore[misc]
