"""A master whose disk no longer takes writes, or hangs, hands over to a replica whose disk works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import anyio
import pytest

from broker.store.segments.sync_job import SyncJob
from model.errors import ReplicationTimeout, StorageFull
from model.message import Message
from model.record import FlushMode
from model.replica_limits import FAILING_DISK_S, STUCK_DISK_S
from model.replica_set import Elect
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.faults.full_disk import FillingDisks
from tests.simulation.conftest import Simulate
from tests.simulation.test_replicas import pair_with_topic, row_of, stored, the_set, wait_in_sync

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("way", [Elect.AUTO, Elect.OPERATOR])
def test_a_master_whose_disk_is_full_hands_over_at_once_or_when_an_operator_wants_it(
    simulate: Simulate, tmp_path: Path, way: Elect
) -> None:
    disks = FillingDisks(tmp_path / "1")  # where `simulate` has the first run

    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        await producer.send_many("orders", 20)
        disks.full["broker-a-1"] = None
        if way is Elect.OPERATOR:
            await anyio.sleep(3 * FAILING_DISK_S)
            master = the_set(cluster).master
            assert master is not None
            with cluster.simulation.on_host(master.host):
                await master.running.hand_over()
        else:
            with pytest.raises(StorageFull):
                await producer.producer.send(Message("orders", b"refused"))
            await anyio.sleep(FAILING_DISK_S + 0.5)
        row = await row_of(cluster)
        assert (row.master, row.epoch) == (2, 2)
        await producer.send_many("orders", 20)
        del disks.full["broker-a-1"]
        await wait_in_sync(cluster, 1, 2)
        assert (await row_of(cluster)).master == 2
        assert len(await stored(cluster)) == 40

    options: dict[str, Any] = {"brokers": 1, "copies": 2, "set_options": {"elect": way}}
    simulate(scenario, **options, files=disks)


class HangingSyncs:
    """Syncs of one host that neither fail nor end, until they are let go."""

    def __init__(self, cluster: SimulatedCluster, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._held: list[tuple[asyncio.Future[None], Callable[[], None]]] = []
        self.hangs = True
        simulation, go_on = cluster.simulation, cluster.simulation.loop.run_in_executor

        def run(executor: Executor | None, call: Callable[[], Any], *arguments: Any) -> asyncio.Future[Any]:
            if not self.hangs or simulation.network.here != host or not isinstance(owner_of(call), SyncJob):
                return go_on(executor, call, *arguments)
            future: asyncio.Future[None] = simulation.loop.create_future()
            self._held.append((future, call))
            return future

        monkeypatch.setattr(simulation.loop, "run_in_executor", run)

    def let_go(self) -> None:
        self.hangs = False
        for future, call in self._held:
            call()
            future.set_result(None)


def owner_of(call: Callable[[], Any]) -> object:
    return getattr(call, "__self__", None)


@pytest.mark.parametrize("way", [Elect.AUTO, Elect.OPERATOR])
def test_a_master_whose_disk_does_not_end_a_sync_hands_over_and_follows_when_the_disk_goes_on(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, way: Elect
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        await producer.send_many("orders", 20)
        disk = HangingSyncs(cluster, "broker-a-1", monkeypatch)
        began_at = anyio.current_time()
        if way is Elect.OPERATOR:
            with pytest.raises(ReplicationTimeout, match="stored here, but its disk has not synced it"):
                await producer.send_many("orders", 1, first=20)
            assert (await row_of(cluster)).master == 1
        else:
            await producer.send_many("orders", 10, first=20)
            assert anyio.current_time() - began_at < STUCK_DISK_S + 0.5
            row = await row_of(cluster)
            assert (row.master, row.in_sync) == (2, (2,))
        disk.let_go()
        await wait_in_sync(cluster, 1, 2)
        assert {*producer.acknowledged} <= {*await stored(cluster)}
        assert (await row_of(cluster)).master == (1 if way is Elect.OPERATOR else 2)

    simulate(scenario, brokers=1, copies=2, set_options={"elect": way}, flush=FlushMode.SYNC)
    assert any("the disk hangs" in record.message for record in caplog.records)
