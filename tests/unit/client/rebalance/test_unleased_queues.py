"""In BROADCASTING every member gets every message, and finds the place again where it was, whatever happens to it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from client.leases.local_offset_store import offsets_path
from client.listeners.listener import ConsumeResult
from client.rebalance.unleased_queues import UnleasedQueues
from model.errors import ConfigError, SystemError_
from model.events import EventKind
from model.heartbeat import ConsumeFrom, MessageModel
from model.message import MessageExt
from testbed.simulation.cluster.clients import SimulatedConsumer, Work
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

EVERYBODY: dict[str, Any] = {"model": MessageModel.BROADCASTING}


async def member(
    cluster: SimulatedCluster, offsets_dir: Path, name: str, topic: str = "t", work: Work | None = None, **options: Any
) -> SimulatedConsumer:
    """A broadcasting member on a host of its own; the same name is the same machine again."""
    made = {**EVERYBODY, "host": name, "instance_name": name, "offsets_dir": offsets_dir, **options}
    return await cluster.start_consumer("g", topic, work=work, **made)


def numbers(consumer: SimulatedConsumer) -> list[int]:
    return sorted(int(body) for body in consumer.bodies)


def document(offsets_dir: Path, name: str) -> dict[str, Any]:
    (folder,) = [path for path in offsets_dir.iterdir() if path.name.startswith(f"{name}@")]
    found: dict[str, Any] = json.loads((folder / "g" / "offsets.json").read_text())
    return found


def test_every_member_gets_every_message_and_no_broker_grants_or_commits_anything(
    simulate: Simulate, tmp_path: Path
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=3)
        members = [await member(cluster, tmp_path / "o", name) for name in ("m1", "m2", "m3")]
        await (await cluster.start_producer()).send_many("t", 50)
        await anyio.sleep(1)
        for each in members:
            assert numbers(each) == list(range(50))
            assert len(each.queues) == 6
        assert not cluster.events_of(EventKind.LOCK_GRANTED)
        assert not cluster.events_of(EventKind.OFFSET_COMMITTED)
        assert not cluster.events_of(EventKind.NOTIFY_SENT)

    simulate(scenario)


def test_a_member_that_was_away_goes_on_where_it_was_and_one_that_was_killed_repeats_little(
    simulate: Simulate, tmp_path: Path
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        first = await member(cluster, tmp_path, "m1")
        producer = await cluster.start_producer()
        await producer.send_many("t", 10)
        await anyio.sleep(1)
        await first.stop()
        await producer.send_many("t", 10, first=10)
        second = await member(cluster, tmp_path, "m1")
        await anyio.sleep(7)
        await producer.send_many("t", 10, first=20)
        await anyio.sleep(1)
        await second.crash()
        third = await member(cluster, tmp_path, "m1")
        await anyio.sleep(2)
        assert numbers(first) == list(range(10))
        assert numbers(second) == list(range(10, 30))
        assert numbers(third) == list(range(20, 30)), "what was finished since the last time that offsets were stored"

    simulate(scenario)


def test_a_new_member_begins_at_its_own_start_and_not_at_that_of_the_group(simulate: Simulate, tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await member(cluster, tmp_path, "m1")
        producer = await cluster.start_producer()
        await producer.send_many("t", 10)
        await anyio.sleep(100)
        late = await member(cluster, tmp_path, "m2")
        await producer.send_many("t", 5, first=10)  # at once: the start has said where 'last' is
        eager = await member(cluster, tmp_path, "m3", consume_from=ConsumeFrom.FIRST_OFFSET)
        now_ms = int(cluster.simulation.clock_ms())
        timed = await member(
            cluster, tmp_path, "m4", consume_from=ConsumeFrom.TIMESTAMP, consume_timestamp_ms=now_ms - 50_000
        )
        await anyio.sleep(1)
        assert numbers(late) == list(range(10, 15))
        assert numbers(eager) == list(range(15))
        assert numbers(timed) == list(range(10, 15))

    simulate(scenario)


def test_only_an_unsubscribe_forgets_a_topic_and_its_broker_sees_it(simulate: Simulate, tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await member(cluster, tmp_path, "m1")
        producer = await cluster.start_producer()
        await producer.send_many("t", 4)
        await anyio.sleep(6)
        assert set(document(tmp_path, "m1")["topics"]) == {"t"}
        await consumer.unsubscribe("t")
        await anyio.sleep(6)
        assert document(tmp_path, "m1")["topics"] == {}
        assert consumer.queues == []
        info = cluster.brokers["broker-a"].running.broker.groups.table.get("g")
        assert info is not None
        assert [each.data.subscriptions for each in info.members.values()] == [()]
        await producer.send_many("t", 4, first=4)
        await consumer.subscribe("t")
        await producer.send_many("t", 4, first=8)
        await anyio.sleep(1)
        assert numbers(consumer) == [0, 1, 2, 3, 8, 9, 10, 11]
        await consumer.stop()
        assert not info.members

    simulate(scenario, brokers=1)


def test_a_message_that_fails_is_tried_again_here_and_then_passed_over(
    simulate: Simulate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails_on_one(message: MessageExt) -> ConsumeResult | None:
        if message.body == b"1":
            raise ValueError("no")
        return None

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        options: dict[str, Any] = {"max_attempts": 2, "consume_retry_s": 3}
        failing = await member(cluster, tmp_path, "m1", work=fails_on_one, **options)
        other = await member(cluster, tmp_path, "m2", **options)
        await (await cluster.start_producer()).send_many("t", 3)
        await anyio.sleep(5.5)
        assert document(tmp_path, "m1")["topics"]["t"]["offsets"] == {"broker-a:0": 1}, "it would survive a restart"
        await anyio.sleep(7)
        tries = [(delivery.body, delivery.times_delivered) for delivery in failing.deliveries]
        assert tries == [(b"0", 0), (b"1", 0), (b"2", 0), (b"1", 1), (b"1", 2)]
        times = [delivery.time_s for delivery in failing.deliveries if delivery.body == b"1"]
        assert [later - earlier for earlier, later in pairwise(times)] == pytest.approx([3, 3])
        assert document(tmp_path, "m1")["topics"]["t"]["offsets"] == {"broker-a:0": 3}
        assert other.bodies == [b"0", b"1", b"2"]
        assert "failed 3 times and is passed over" in caplog.text
        assert cluster.brokers["broker-a"].running.broker.topics.table.get("%DLQ%g") is None

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("order", ["queue", "key"])
def test_in_order_what_follows_a_failure_waits_for_it(simulate: Simulate, tmp_path: Path, order: str) -> None:
    async def raises(message: MessageExt) -> None:
        if message.body == b"1":
            raise ValueError("no")

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        options: dict[str, Any] = {"max_attempts": 2, "order": order, "suspend_s": 1}
        consumer = await member(cluster, tmp_path, "m1", work=raises, **options)
        producer = await cluster.start_producer()
        for body in (b"0", b"1", b"2"):
            await producer.send("t", body, key="k")
        await anyio.sleep(9)
        assert consumer.bodies == [b"0", b"1", b"1", b"1", b"2"]
        assert document(tmp_path, "m1")["topics"]["t"]["offsets"] == {"broker-a:0": 3}

    simulate(scenario, brokers=1)


def test_a_queue_that_lost_its_newest_messages_is_read_from_its_end(simulate: Simulate, tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await member(cluster, tmp_path, "m1")
        producer = await cluster.start_producer()
        await producer.send_many("t", 3)
        await anyio.sleep(1)
        await consumer.stop()
        path = offsets_path(tmp_path, "m1@m1", "g")
        path.write_text(path.read_text().replace(": 3", ": 90"))
        again = await member(cluster, tmp_path, "m1")
        await producer.send("t", b"3")
        await anyio.sleep(6)
        assert document(tmp_path, "m1")["topics"]["t"]["offsets"] == {"broker-a:0": 4}
        assert numbers(again) in ([], [3])

    simulate(scenario, brokers=1)


def test_without_a_name_that_lasts_there_is_no_broadcasting(simulate: Simulate, tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with pytest.raises(ConfigError, match="needs an instance_name that stays the same"):
            cluster.make_consumer("g", **EVERYBODY, instance_name=None)

    simulate(scenario, brokers=1)


def test_a_folder_that_cannot_be_written_stops_the_start(simulate: Simulate, tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigError, match="cannot be stored") as info:
            await member(cluster, tmp_path / "file", "m1")
        assert "Not a directory" in str(info.value)
        (tmp_path / "o").mkdir()
        (tmp_path / "o" / "m2@m2").write_text("")
        with pytest.raises((ConfigError, SystemError_)):
            await member(cluster, tmp_path / "o", "m2")

    simulate(scenario, brokers=1)


def test_it_is_the_share_of_a_broadcasting_consumer(simulate: Simulate, tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await member(cluster, tmp_path, "m1")
        await anyio.sleep(1)
        share = consumer.consumer._ownership
        assert isinstance(share, UnleasedQueues)
        assert {owned.token for owned in share.owned.values()} == {-1}
        share.offsets_reset(consumer.queues, 99, "")
        assert len(share.owned) == 1

    simulate(scenario, brokers=1)
