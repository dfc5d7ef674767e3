from __future__ import annotations

from pathlib import Path

import pytest

import testbed.demo.cluster as cluster_module
from client import Message, Producer
from model.errors import ServiceNotAvailable
from model.events import Event, EventKind
from testbed.demo.cluster import EmbeddedCluster, run_cluster
from testbed.simulation.kernel.run import Simulation, run_simulation

pytestmark = pytest.mark.simulation


def test_its_brokers_are_registered_and_a_restarted_one_keeps_its_address_and_its_messages(tmp_path: Path) -> None:
    events: list[Event] = []

    async def main(simulation: Simulation) -> None:
        async with run_cluster(tmp_path, 2, events.append, simulation.clock_ms) as cluster:
            assert list(cluster.brokers) == ["broker-a", "broker-b"]
            route = await cluster.admin.create_topic("t", 1)
            assert [queues.broker_name for queues in route.queues] == ["broker-a", "broker-b"]
            before = dict(cluster.brokers)
            async with Producer(cluster.name_server, clock_ms=simulation.clock_ms) as producer:
                sent = [await producer.send(Message("t", b"x")) for _ in range(2)]
            await cluster.restart_broker("broker-b")
            assert cluster.brokers == before
            await cluster.wait_registered()
            info = await cluster.admin.broker_info("broker-b")
            stored = info.topic("t")
            assert stored is not None
            expected = sum(result.queue.broker_name == "broker-b" for result in sent)
            assert stored.ranges[0].max_offset == expected

    run_simulation(main)
    of_b = [event.kind for event in events if event.node == "broker-b" and event.kind.startswith("BROKER_")]
    assert of_b == [EventKind.BROKER_UP, EventKind.BROKER_DOWN, EventKind.BROKER_UP, EventKind.BROKER_DOWN]


def test_a_broker_that_does_not_register_in_time_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "REGISTERED_TIMEOUT_S", 0.5)
    monkeypatch.setattr(EmbeddedCluster, "start_broker", _start_nothing)

    async def main(simulation: Simulation) -> None:
        with pytest.raises(ServiceNotAvailable, match=r"did not register within 0\.5 s"):
            async with run_cluster(tmp_path, 1, lambda event: None, simulation.clock_ms):
                raise AssertionError("not reached")

    run_simulation(main)


async def _start_nothing(self: EmbeddedCluster, name: str, listen: str = "127.0.0.1:0") -> None:
    self.brokers[name] = "127.0.0.1:1"
