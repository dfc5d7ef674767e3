"""A replica gets finished segments: those that were damaged while it was the master, and indexes that it missed."""

from __future__ import annotations

import anyio
import pytest

from broker.store.disk.options import StoreOptions
from client.admin.admin import Admin
from model.events import EventKind
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_replicas import PAIR, the_set, wait_in_sync

pytestmark = pytest.mark.simulation

QUEUE = MessageQueue("orders", "broker-a", 0)
SEGMENT_BYTES = 4_000
N = 200


async def readable(cluster: SimulatedCluster) -> int:
    """How many messages can be read."""
    with cluster.simulation.on_host("reader"):
        async with Admin(cluster.addresses) as admin:
            n, offset = 0, 0
            while offset < N:
                messages, offset = await admin.read_queue(QUEUE, offset=offset, max_n=32)
                n += len(messages)
            return n


def test_a_master_with_damage_hands_over_and_its_segment_is_fetched_from_the_new_one(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await wait_in_sync(cluster, 1, 2)
        await cluster.create_topic("orders", queues=1)
        await (await cluster.start_producer()).send_many("orders", N)
        await anyio.sleep(5.0)  # replicas have the indexes of finished segments
        own, other = (cluster.data_dir / name for name in ("broker-a-1", "broker-a-2"))
        finished = sorted(path.name for path in own.glob("*.log"))
        damaged = finished[len(finished) // 2]
        whole = (other / damaged).read_bytes()
        assert (own / damaged).read_bytes() == whole
        (own / damaged).write_bytes(whole[:-1_000] + bytes(1_000))

        assert await readable(cluster) < N
        assert cluster.events_of(EventKind.MESSAGES_DAMAGED)
        with cluster.simulation.on_host("broker-a-1"):
            await cluster.replicas["broker-a-1"].running.hand_over(2)
        assert await readable(cluster) == N
        await anyio.sleep(len(finished) + 10.0)
        assert (own / damaged).read_bytes() == whole
        await wait_in_sync(cluster, 1, 2)
        with cluster.simulation.on_host("broker-a-2"):
            await cluster.replicas["broker-a-2"].running.hand_over(1)
        assert await readable(cluster) == N
        assert the_set(cluster).master is cluster.replicas["broker-a-1"]

    simulate(scenario, **PAIR, store=StoreOptions(segment_bytes=SEGMENT_BYTES, tail_bytes=SEGMENT_BYTES))


def test_a_replica_gets_the_indexes_that_it_missed_so_that_a_promotion_reads_no_segment(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await wait_in_sync(cluster, 1, 2)
        await cluster.create_topic("orders", queues=1)
        await (await cluster.start_producer()).send_many("orders", N)
        await anyio.sleep(5.0)
        own, other = (cluster.data_dir / name for name in ("broker-a-1", "broker-a-2"))
        wanted = {path.name: path.read_bytes() for path in own.glob("*.index")}
        assert len(wanted) > 3
        await cluster.replicas["broker-a-2"].stop()
        for path in other.glob("*.index"):
            path.unlink()
        await cluster.replicas["broker-a-2"].start()
        await anyio.sleep(10.0)
        assert {path.name: path.read_bytes() for path in other.glob("*.index")} == wanted

    simulate(scenario, **PAIR, store=StoreOptions(segment_bytes=SEGMENT_BYTES, tail_bytes=SEGMENT_BYTES))
