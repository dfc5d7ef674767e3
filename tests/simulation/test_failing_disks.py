"""A master whose disk takes no writes any more hands over to a replica whose disk does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from model.errors import StorageFull
from model.message import Message
from model.replica_limits import FAILING_DISK_S
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
