"""Members that differ: in what they may, which works; in what they must not, which is said; and in nothing at all."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from client.allocate import AllocateMessageQueueAveragelyByCircle
from model.errors import ClientIdConflict
from model.events import EventKind
from model.limits import OFFSET_PERSIST_INTERVAL_S
from model.quirks import Quirk
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_lifecycle import finished, lost, takes_ten_ms

pytestmark = pytest.mark.simulation


def warnings(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if text in record.getMessage() and record.levelno == logging.WARNING
    ]


# ------------------------------------------------------------------------------------------------------ disagreements


def test_members_that_disagree_are_reported_of_it_once_each_and_when_they_agree_again_it_is_said(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        first = await cluster.start_consumer("g", "t")
        await cluster.start_consumer("g", "t")
        await anyio.sleep(40)
        assert cluster.events_of(EventKind.GROUP_INCONSISTENT) == []
        other = await cluster.start_consumer("g", "t", strategy=AllocateMessageQueueAveragelyByCircle())
        await anyio.sleep(100)
        text = "strategy: AVG (c1@1, c2@2), AVG_BY_CIRCLE (c3@3): no member consumes some of the queues"
        events = cluster.events_of(EventKind.GROUP_INCONSISTENT)
        assert [(event.node, event.group, event.n, event.detail) for event in events] == [
            ("broker-a", "g", 1, text),
            ("broker-b", "g", 1, text),
        ]
        reported = warnings(caplog, text)
        assert sorted(line.split(":")[0] for line in reported if "@" in line.split(":")[0]) == ["c1@1", "c2@2", "c3@3"]
        assert len(reported) == 3 + 2, "each member and each broker, once"
        await other.stop()
        await anyio.sleep(1)
        assert [event.detail for event in cluster.events_of(EventKind.GROUP_INCONSISTENT)[2:]] == ["agreed"] * 2
        await first.subscribe("t", "red")
        (event, _) = cluster.events_of(EventKind.GROUP_INCONSISTENT)[4:]
        assert event.detail.startswith("filter of t: * (c2@2), red (c1@1): a message that only some")

    simulate(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_members_that_switch_one_by_one_to_other_topics_lose_nothing_and_strand_nothing(
    simulate: Simulate, seed: int
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for topic in "abc":
            await cluster.create_topic(topic)
        members = [await cluster.start_consumer("g", "a", work=takes_ten_ms) for _ in range(4)]
        for member in members:
            await member.subscribe("b", work=takes_ten_ms)
        await cluster.wait_converged(2)
        at, producer = len(cluster.events), await cluster.start_producer()

        async def send() -> None:
            for number in range(3000):
                await producer.send("abc"[number % 3], b"%d" % number)
                await anyio.sleep(0.004)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            for member in members[:3]:
                await anyio.sleep(cluster.simulation.random.random() * 3)
                await member.subscribe("c", work=takes_ten_ms)
                await member.unsubscribe("a")
                await cluster.wait_converged(2)
        await anyio.sleep(2)
        assert {queue.topic for queue in members[3].queues} == {"a", "b"}
        assert len([queue for queue in members[3].queues if queue.topic == "a"]) == 8
        await members[3].subscribe("c", work=takes_ten_ms)
        await cluster.wait_converged(2)
        assert lost(cluster) == set()
        assert [body for body, n in finished(cluster).items() if n > 1] == []
        assert cluster.events_of(EventKind.GROUP_INCONSISTENT, at) == []

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("quirks", [frozenset(), frozenset({Quirk.GROUP_WIDE_SUBSCRIPTION})])
def test_under_the_quirk_members_with_different_topics_undo_each_others_for_ever(
    simulate: Simulate, quirks: frozenset[Quirk]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        await cluster.create_topic("u")
        first = await cluster.start_consumer("g", "t")
        second = await cluster.start_consumer("g", "u")
        await anyio.sleep(60)
        at = len(cluster.events)
        producer = await cluster.start_producer()
        await producer.send_many("t", 16)
        await anyio.sleep(300)
        notified = len(cluster.events_of(EventKind.NOTIFY_SENT, at, node="broker-a"))
        if quirks:
            assert notified >= 18, "two in each interval of 30 s"
            assert (len(first.queues), len(second.queues)) == (4, 4)
            assert len(finished(cluster)) == 8, "the other half is the second member's, which does not want it"
        else:
            assert notified == 0
            assert (len(first.queues), len(second.queues)) == (8, 8)
            assert len(finished(cluster)) == 16

    simulate(scenario, quirks=quirks)


# -------------------------------------------------------------------------------------------- two of the same client id

# Two hosts that say the same of themselves, as containers do.
FIRST: dict[str, Any] = {"host": "10.0.0.7", "instance_name": "app"}
TWIN: dict[str, Any] = {"host": "twin", "client_ip": "10.0.0.7", "instance_name": "app"}


def test_a_second_process_with_one_client_id_is_refused_and_both_are_reported_what_to_change(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        first = await cluster.start_consumer("g", "t", **FIRST)
        await cluster.wait_converged(1)
        await anyio.sleep(5)
        at = len(cluster.events)
        with pytest.raises(ClientIdConflict) as refused:
            await cluster.start_consumer("g", "t", **TWIN)
        remedy = "give one of the two another instance_name (or none, for a random one), or another client_ip"
        host, port = cluster.simulation.network.connections(first.host, "broker-a")[0].client
        assert str(refused.value) == (
            "broker broker-a:10911 refuses this client: client id '10.0.0.7@app' is taken: "
            f"a live member of group 'g', at {host}:{port}, has it: {remedy}. "
            "If that process is dead, the id is free within 115 s, when its session ends"
        )
        await anyio.sleep(40)
        (event, _) = cluster.events_of(EventKind.CLIENT_ID_CONFLICT, at)
        assert (event.group, event.client, event.detail.split(":")[0]) == ("g", "10.0.0.7@app", "twin")
        (reported, *_) = warnings(caplog, "came with our client id")
        assert reported.startswith("10.0.0.7@app: another process, at twin:")
        assert reported.endswith(remedy)
        assert len(first.queues) == 8
        assert cluster.events_of(EventKind.QUEUE_DROPPED, at) == [], "it has noticed nothing else"
        assert cluster.events_of(EventKind.MEMBER_LEAVE, at) == []
        assert cluster.simulation.network.connections("twin") == ()

    simulate(scenario)


def test_a_process_that_was_killed_has_its_client_id_back_at_once(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        killed = await cluster.start_consumer("g", "t", **FIRST)
        await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        await killed.crash()
        again = await cluster.start_consumer("g", "t", **FIRST)
        assert await cluster.wait_converged(1) < 1
        assert (again.client_id, len(again.queues)) == (killed.client_id, 4)
        assert cluster.events_of(EventKind.CLIENT_ID_CONFLICT) == []

    simulate(scenario)


def test_the_client_id_of_a_process_that_is_silent_is_free_when_its_session_ends_and_not_before(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        silent = await cluster.start_consumer("g", "t", session_timeout_s=9.0, **FIRST)
        await cluster.wait_converged(1)
        silent.hang()
        with pytest.raises(ClientIdConflict, match="free within 9 s"):
            await cluster.start_consumer("g", "t", **TWIN)
        await anyio.sleep(9)
        twin = await cluster.start_consumer("g", "t", **TWIN)
        await cluster.wait_converged(1)
        assert len(twin.queues) == 8

    simulate(scenario)


def test_a_process_that_is_back_when_another_one_has_its_client_id_takes_nothing_from_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        async def takes_two_seconds(message: object) -> None:
            await anyio.sleep(2)

        network = cluster.simulation.network
        await cluster.create_topic("t", queues=1)
        first = await cluster.start_consumer("g", "t", work=takes_two_seconds, **FIRST)
        await cluster.wait_converged(1)
        producer = await cluster.start_producer()
        await producer.send("t", b"0")
        await anyio.sleep(1.5)
        with network.stall(first.host):
            network.cut(first.host)
            twin = await cluster.start_consumer("g", "t", work=takes_two_seconds, **TWIN)
            await anyio.sleep(1)
            await producer.send("t", b"1")
        at = len(cluster.events)
        await first.stop()  # it has done the first message, commits it and gives the queue back, all in vain
        assert cluster.events_of(EventKind.OFFSET_COMMITTED, at, topic="t") == []
        await anyio.sleep(10)
        assert cluster.events_of(EventKind.QUEUE_RELEASED, at, topic="t") == []
        assert twin.bodies == [b"0", b"1"]
        tokens = [event.version for event in cluster.events_of(EventKind.LOCK_GRANTED, topic="t")]
        assert tokens == sorted(set(tokens))

    simulate(scenario, brokers=1)


def test_a_queue_is_lost_when_a_commit_says_that_another_process_lives_under_our_client_id(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        producer = await cluster.start_producer()
        await cluster.wait_converged(1)
        await producer.send_many("t", 10)
        instance = consumer.consumer._instance
        assert instance is not None
        for connection in cluster.simulation.network.connections(consumer.host, "broker-a"):
            cluster.simulation.network.stall_connection(connection)  # the broker goes on believing in it
        offsets = cluster.brokers["broker-a"].running.broker.leases.offsets
        before = offsets.read("g", "t", 0)  # pulls have committed this already
        instance.heartbeats.run_id = "another-run"
        instance.remoting.drop("broker-a:10911")
        assert len(consumer.queues) == 1
        await anyio.sleep(OFFSET_PERSIST_INTERVAL_S + 1)
        assert consumer.queues == []
        assert (before, offsets.read("g", "t", 0)) == (8, 8)

    simulate(scenario, brokers=1)


def test_a_client_that_reconnects_while_its_old_connection_seems_alive_conflicts_with_no_one(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        consumer = await cluster.start_consumer("g", "t", **FIRST)
        await cluster.wait_converged(1)
        at = len(cluster.events)
        for connection in cluster.simulation.network.connections(consumer.host, "broker-a"):
            cluster.simulation.network.stall_connection(connection)  # the broker never hears that it was closed
        instance = consumer.consumer._instance
        assert instance is not None
        instance.remoting.drop("broker-a:10911")
        await anyio.sleep(40)
        assert len(consumer.queues) == 8
        assert cluster.events_of(EventKind.CLIENT_ID_CONFLICT, at) == []
        assert cluster.events_of(EventKind.MEMBER_LEAVE, at) == []

    simulate(scenario)


@pytest.mark.parametrize("quirks", [frozenset(), frozenset({Quirk.DUPLICATE_MEMBERS})])
def test_under_the_quirk_two_processes_with_one_client_id_consume_everything_of_theirs_twice(
    simulate: Simulate, quirks: frozenset[Quirk]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        first = await cluster.start_consumer("g", "t", **FIRST)
        if quirks:
            twin = await cluster.start_consumer("g", "t", **TWIN)
            await anyio.sleep(5)
            assert first.queues == twin.queues
            assert len(first.queues) == 4, "the share of the second in the list is nobody's"
            info = cluster.brokers["broker-a"].running.broker.groups.table.get("g")
            assert info is not None
            assert info.view().members_of("t") == ["10.0.0.7@app"] * 2
        else:
            with pytest.raises(ClientIdConflict):
                await cluster.start_consumer("g", "t", **TWIN)
        await (await cluster.start_producer()).send_many("t", 16)
        await anyio.sleep(5)
        counts = sorted(finished(cluster).values())
        assert counts == ([2] * 8 if quirks else [1] * 16)

    simulate(scenario, quirks=quirks)
