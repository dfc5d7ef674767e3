"""What comes twice after a member was killed: little, and no more than the broker says."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from broker.leases.service import Leases
from client.options import ConsumeOrder
from client.rebalance.leased_queues import LeasedQueues
from model.events import EventKind
from model.message import MessageExt
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire

__all__ = ["wire"]

pytestmark = pytest.mark.simulation

QUEUES, RATE = 16, 1_000


def twice(cluster: SimulatedCluster) -> int:
    """Messages that listeners got a second time."""
    times = Counter(body for consumer in cluster.consumers for body in consumer.bodies)
    return times.total() - len(times)


def reported(cluster: SimulatedCluster) -> int:
    """The most that may have, by the brokers' events."""
    return sum(event.n for event in cluster.events if event.kind == EventKind.LOCK_EXPIRED)


@pytest.mark.parametrize("order", [ConsumeOrder.NONE, ConsumeOrder.QUEUE])
def test_a_kill_at_a_thousand_messages_a_second_repeats_a_few_and_the_broker_knows_how_many(
    simulate: Simulate, order: ConsumeOrder
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=QUEUES)
        members = [await cluster.start_consumer("g", "t", order=order) for _ in range(3)]
        await cluster.wait_converged(1)
        producer = await cluster.start_producer()
        queues = [MessageQueue("t", "broker-a", number) for number in range(QUEUES)]
        for number in range(2 * RATE):
            await anyio.sleep(1 / RATE)
            await producer.send("t", b"%d" % number, queue=queues[number % QUEUES])
            if number == RATE:
                await members[1].crash()
        await anyio.sleep(5)
        assert len({body for member in members for body in member.bodies}) == 2 * RATE, "nothing is lost"
        assert 0 < twice(cluster) <= 20
        assert twice(cluster) <= reported(cluster) <= 3 * twice(cluster) + 20

    simulate(scenario, brokers=1)


def test_what_was_finished_a_tenth_of_a_second_before_a_kill_does_not_are_redelivered(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        first = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        producer = await cluster.start_producer()
        await producer.send_many("t", 8)
        await anyio.sleep(0.12)
        await first.crash()
        second = await cluster.start_consumer("g", "t")
        await anyio.sleep(10)
        assert (len(first.bodies), second.bodies, reported(cluster)) == (8, [], 0)

    simulate(scenario, brokers=1)


def test_a_member_that_dies_with_a_message_at_its_listener_leaves_exactly_that_one(simulate: Simulate) -> None:
    async def hang_at_the_third(message: MessageExt) -> None:
        if message.body == b"2":
            await anyio.sleep(60)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        first = await cluster.start_consumer("g", "t", order="queue", work=hang_at_the_third)
        await cluster.wait_converged(1)
        producer = await cluster.start_producer()
        for number in range(3):
            await producer.send("t", b"%d" % number)
            await anyio.sleep(0.2)
        await first.crash()
        second = await cluster.start_consumer("g", "t", order="queue")
        await anyio.sleep(5)
        assert (second.bodies, reported(cluster)) == ([b"2"], 1)

    simulate(scenario, brokers=1)


def test_a_steady_stream_is_committed_by_its_pulls_without_a_request_of_its_own(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.start_consumer("g", "t", host="c1")
        await cluster.wait_converged(1)
        producer = await cluster.start_producer()
        await anyio.sleep(6)
        before, since_ms = wire.codes("c1").count("UPDATE_CONSUMER_OFFSET"), cluster.simulation.clock_ms()
        for number in range(200):
            await producer.send("t", b"%d" % number)
            await anyio.sleep(0.05)
        assert wire.codes("c1").count("UPDATE_CONSUMER_OFFSET") <= before + 2, "those that are sent every 5 s"
        rows = cluster.brokers["broker-a"].running.broker.leases.offsets.of_group("g")
        assert dict(((topic, queue_id), offset) for topic, queue_id, offset in rows)["t", 0] >= 199
        commits = [e for e in cluster.events if e.kind == EventKind.OFFSET_COMMITTED and e.t_ms > since_ms]
        assert len([event for event in commits if event.topic == "t"]) <= 13, "one a second, and those every 5 s"

    simulate(scenario, brokers=1)


def test_an_owner_goes_on_after_a_broker_crash_that_lost_its_last_commits(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        first = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        producer = await cluster.start_producer()
        await producer.send_many("t", 8)
        await anyio.sleep(6)  # the first eight are stored
        await producer.send_many("t", 4, first=8)
        await anyio.sleep(0.3)
        await cluster.brokers["broker-a"].crash()
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(30)
        assert (len(first.bodies), twice(cluster)) == (12, 0), "it still has what it has finished"
        await first.crash()
        second = await cluster.start_consumer("g", "t")
        await anyio.sleep(5)
        assert second.bodies == [], "it has committed again what the broker lost"

    simulate(scenario, brokers=1)


def test_a_commit_that_a_pull_has_overtaken_is_not_an_error(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        await (await cluster.start_producer()).send_many("t", 3)
        await anyio.sleep(1)
        share = consumer.consumer._ownership
        assert isinstance(share, LeasedQueues)
        owned = share.owned[MessageQueue("t", "broker-a", 0)]
        caplog.clear()
        await share._commits.commit({owned: 1}, soon=True)
        assert (caplog.messages, owned.sent_commit) == ([], 3)
        await share._commits.commit({owned: 1})
        assert "would go back" in caplog.text
        assert owned.sent_commit == 0, "the next pull says again where it is"

    simulate(scenario, brokers=1)


def test_a_broker_that_does_not_know_commits_with_pulls_gets_them_at_the_interval(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Leases, "commit_with_pull", lambda *ignored: None)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        producer = await cluster.start_producer()
        offsets = cluster.brokers["broker-a"].running.broker.leases.offsets
        for number in range(200):
            await producer.send("t", b"%d" % number)
            await anyio.sleep(0.05)
            if number == 150:  # 7.5 s
                assert 50 <= (offsets.read("g", "t", 0) or 0) < 150
        await anyio.sleep(0.2)
        assert offsets.read("g", "t", 0) == 200, "the last one is sent alone"

    simulate(scenario, brokers=1)
