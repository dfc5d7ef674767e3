"""Queues without leases whose topic was created again, whose broker has a new disk, or whose clocks are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from client.leases.local_offset_store import offsets_path
from model.heartbeat import ConsumeFrom
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.lite import delete_topic
from tests.unit.client.rebalance.test_unleased_queues import document, member, numbers


async def sent(cluster: SimulatedCluster, n: int) -> None:
    await (await cluster.start_producer()).send_many("t", n)


@pytest.mark.parametrize("consume_from", [ConsumeFrom.FIRST_OFFSET, ConsumeFrom.LAST_OFFSET])
@pytest.mark.parametrize("is_away", [True, False])
def test_a_topic_that_was_deleted_and_recreated_is_read_from_its_first_message(
    simulate: Simulate,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    consume_from: ConsumeFrom,
    is_away: bool,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        first = await member(cluster, tmp_path, "m1", consume_from=consume_from)
        await sent(cluster, 30)
        await anyio.sleep(6)
        assert numbers(first) == list(range(30))
        if is_away:
            await first.stop()
        await delete_topic(cluster)
        await cluster.create_topic("t", queues=1)
        await sent(cluster, 50)
        second = await member(cluster, tmp_path, "m1", consume_from=consume_from) if is_away else first
        await anyio.sleep(8)
        assert numbers(second)[-50:] == sorted([*range(50), *(range(30) if not is_away else ())])[-50:]
        assert len(second.bodies) == (50 if is_away else 80)
        assert caplog.text.count("was deleted and created again") == 1
        topic = document(tmp_path, "m1")["topics"]["t"]
        assert topic["offsets"] == {"broker-a:0": 50}

    simulate(scenario, brokers=1)


def test_a_broker_with_a_new_disk_is_read_from_its_first_message(
    simulate: Simulate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await member(cluster, tmp_path / "offsets", "m1")
        await sent(cluster, 30)
        await anyio.sleep(6)
        before = document(tmp_path / "offsets", "m1")["topics"]["t"]["numbers"]["broker-a"]
        broker = cluster.brokers["broker-a"]
        await broker.crash()
        (cluster.data_dir / "broker-a").rename(tmp_path / "old")
        (cluster.data_dir / "broker-a").mkdir()
        await broker.start()
        await cluster.create_topic("t", queues=1)
        await sent(cluster, 50)
        await anyio.sleep(10)
        assert len(consumer.bodies) == 80
        after = document(tmp_path / "offsets", "m1")["topics"]["t"]["numbers"]["broker-a"]
        assert (after[0], after[1] != before[1]) == (before[0], True), "the same topic id on another disk"
        assert caplog.text.count("the broker has a new disk") == 1

    simulate(scenario, brokers=1)


def test_offsets_of_an_earlier_version_count_as_those_of_the_present_topic_once(
    simulate: Simulate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        first = await member(cluster, tmp_path, "m1")
        await sent(cluster, 5)
        await anyio.sleep(1)
        await first.stop()
        path = offsets_path(tmp_path, "m1@m1", "g")
        old = json.loads(path.read_text())
        del old["topics"]["t"]["numbers"], old["topics"]["t"]["since_at"]
        path.write_text(json.dumps(old))
        await (await cluster.start_producer()).send_many("t", 3, first=5)
        for got in ([5, 6, 7], []):
            again = await member(cluster, tmp_path, "m1")
            await anyio.sleep(1)
            assert numbers(again) == got
            await again.stop()
        assert caplog.text.count("offsets that were stored without its incarnation count as those of incarnation") == 1
        await delete_topic(cluster)
        await cluster.create_topic("t", queues=1)
        await sent(cluster, 9)
        last = await member(cluster, tmp_path, "m1")
        await anyio.sleep(1)
        assert numbers(last) == list(range(9))

    simulate(scenario, brokers=1)


def test_a_broker_that_does_not_answer_lets_a_queue_begin_by_its_stored_number(
    simulate: Simulate, tmp_path: Path
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        first = await member(cluster, tmp_path, "m1")
        await sent(cluster, 30)
        await anyio.sleep(1)
        await first.stop()
        await delete_topic(cluster)
        await cluster.create_topic("t", queues=1)
        await sent(cluster, 50)
        with cluster.simulation.network.partition("m1", "broker-a"):
            second = await member(cluster, tmp_path, "m1")
            await anyio.sleep(30)
            assert len(second.queues) == 1
        await anyio.sleep(30)
        assert numbers(second) == list(range(50)), "the pull is answered that the topic is another"

    simulate(scenario, brokers=1)


@pytest.mark.parametrize(("client_ms", "broker_ms"), [(5_000, 0), (60_000, 0), (-60_000, 0), (0, 60_000), (0, -60_000)])
@pytest.mark.parametrize("restarts", [False, True])
def test_no_wrong_clock_skips_what_was_sent_after_the_subscription_or_adds_what_was_sent_before(
    simulate: Simulate, tmp_path: Path, client_ms: int, broker_ms: int, restarts: bool
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.skewed_ms["broker-b"] = broker_ms
        wrong: dict[str, Any] = {"clock_ms": lambda: cluster.simulation.clock_ms() + client_ms}
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        on_b = MessageQueue("t", "broker-b", 0)
        for number in range(5):
            await producer.send("t", b"%d" % number, queue=on_b)
        # Broker-b is away at the subscription, and is read by time when it is back.
        await cluster.brokers["broker-b"].crash()
        await anyio.sleep(10)
        consumer = await member(cluster, tmp_path, "m1", **wrong)
        await anyio.sleep(2)
        broker_runs = [consumer]
        if restarts:
            await consumer.stop()
            await anyio.sleep(3)
            broker_runs.append(await member(cluster, tmp_path, "m1", **wrong))
        await cluster.brokers["broker-b"].start()
        producer = await cluster.start_producer()
        for number in range(5, 10):
            await producer.send("t", b"%d" % number, queue=on_b)
        await anyio.sleep(60)
        assert sorted(number for broker_run in broker_runs for number in numbers(broker_run)) == list(range(5, 10))

    simulate(scenario)
