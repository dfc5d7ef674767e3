"""A replica as a daemon: its options, its announcement, and the faults of its connections in each role."""

from __future__ import annotations

from pathlib import Path
from random import Random

import anyio

from broker.config import BrokerConfig
from cli.servers.copies.options import CopiesGiven
from cli.servers.copies.serving import ReplicaOrders, announcement_fields, replica_config
from model.replica_set import Acks
from replica.registers.memory import MemoryRegister
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

BROKER = BrokerConfig(name="broker-a", data_dir=Path("d"))


def test_the_options_make_a_set_or_join_one() -> None:
    register = MemoryRegister()
    made = replica_config(
        CopiesGiven(copies=3, acks=Acks.MASTER, min_in_sync=2, replica_lease=3.0, replica_of=None), BROKER, register
    )
    assert (made.makes, made.copies, made.acks, made.min_in_sync, made.lease_s) == (True, 3, Acks.MASTER, 2, 3.0)
    joins = replica_config(
        CopiesGiven(copies=None, acks=None, min_in_sync=None, replica_lease=None, replica_of="broker-a"),
        BROKER,
        register,
    )
    assert not joins.makes


def test_the_announcement_and_the_faults_follow_the_role(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await anyio.sleep(1.0)
        first, second = (cluster.replicas[f"broker-a-{n}"].running for n in (1, 2))
        assert announcement_fields(first)["role"] == "master"
        assert "recovery" in announcement_fields(first)
        assert announcement_fields(second) == {"replica_id": 2, "role": "following"}
        orders = ReplicaOrders(second, Random(1))
        assert orders.answer({"do": "active"}) == {"active": []}
        with cluster.simulation.on_host("broker-a-1"):
            await first.hand_over(2)
        await anyio.sleep(1.0)
        assert announcement_fields(second)["role"] == "master"
        cause = orders.answer({"do": "tell", "kind": "FAULT_BEGAN", "process": "broker-b", "done": "kill"})["cause"]
        assert cause.startswith("broker-a/")

    simulate(scenario, brokers=1, copies=2)
