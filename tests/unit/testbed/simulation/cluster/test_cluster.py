"""The cluster itself: it starts and stops everything, and says what has not converged."""

from __future__ import annotations

from pathlib import Path

import pytest

from client.trigger import Trigger
from model.errors import ConfigError
from model.events import EventKind
from testbed.simulation.cluster.cluster import NotConverged, SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation

pytestmark = pytest.mark.simulation


def test_a_cluster_has_as_many_servers_as_asked_for_and_a_new_topic_is_shown_by_all(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path, name_servers=2, brokers=3) as cluster:
            assert cluster.addresses == ["namesrv-1:9876", "namesrv-2:9876"]
            assert list(cluster.brokers) == ["broker-a", "broker-b", "broker-c"]
            await cluster.create_topic("t", queues=2, brokers=["broker-a", "broker-c"])
            for name_server in cluster.name_servers.values():
                queues = name_server.running.table.route("t").queues
                assert [(data.broker_name, data.read_queue_nums) for data in queues] == [
                    ("broker-a", 2),
                    ("broker-c", 2),
                ]
            await cluster.name_servers["namesrv-1"].stop()
            await cluster.create_topic("t", queues=2, write=1)
            left = cluster.name_servers["namesrv-2"].running
            assert {data.write_queue_nums for data in left.table.route("t").queues} == {1}

    run_simulation(main)


def test_at_the_end_everything_is_stopped_clients_first_and_faults_do_not_hold_it_up(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path) as cluster:
            await cluster.create_topic("t")
            await cluster.start_consumer("g", "t")
            await cluster.start_producer()
            await cluster.wait_converged(1)
            simulation.network.stall("broker-a")
        assert simulation.network.connections() == ()
        kinds = [event.kind for event in cluster.events]
        assert kinds.count(EventKind.CLIENT_STOP) == 2
        assert kinds.index(EventKind.CLIENT_STOP) < kinds.index(EventKind.BROKER_DOWN)
        assert [event.detail for event in cluster.events_of(EventKind.MEMBER_LEAVE)] == ["unregister", "unregister"]

    run_simulation(main)


def test_a_cluster_that_cannot_start_says_why_as_itself_and_leaves_nothing(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        (tmp_path / "broker-a").mkdir()
        (tmp_path / "broker-a" / "metadata.sqlite").write_bytes(b"not a database at all, of any kind" * 100)
        with pytest.raises(ConfigError, match=r"metadata\.sqlite"):
            async with SimulatedCluster(simulation, tmp_path):
                pass
        assert simulation.network.connections() == ()

    run_simulation(main)


def test_what_has_not_converged_is_listed_with_the_seed(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path, brokers=1) as cluster:
            await cluster.create_topic("t", queues=1)
            consumer = await cluster.start_consumer("g", "t", triggers=frozenset())
            with pytest.raises(NotConverged) as caught:
                await cluster.wait_converged(1)
            assert f"t@broker-a:0 should belong to {consumer.client_id}, and belongs to no member" in str(caught.value)
            assert "seed 7" in str(caught.value)

    run_simulation(main, seed=7)


def test_how_long_it_took_is_returned_to_within_one_look(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path, brokers=1) as cluster:
            await cluster.create_topic("t", queues=1)
            only_timer = frozenset({Trigger.TIMER})
            await cluster.start_consumer("g", "t", triggers=only_timer, rebalance_interval_s=2.0)
            assert await cluster.wait_converged(5) == pytest.approx(2.0, abs=0.01)

    run_simulation(main)


def test_events_are_found_by_kind_column_and_position(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path, brokers=2) as cluster:
            assert len(cluster.events_of(EventKind.BROKER_UP)) == 2
            assert [e.node for e in cluster.events_of(EventKind.BROKER_UP, broker="broker-b")] == ["broker-b"]
            assert cluster.events_of(EventKind.BROKER_UP, len(cluster.events)) == []

    run_simulation(main)


def test_clients_are_on_hosts_of_their_own_and_options_reach_them(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path, brokers=1) as cluster:
            await cluster.create_topic("t", queues=1)
            cluster.client_options["heartbeat_interval_s"] = 7.0
            first = await cluster.start_consumer("g", "t")
            second = await cluster.start_consumer("g", "t", host="192.168.0.9", instance_name="15959", max_workers=3)
            producer = await cluster.start_producer()
            await producer.send("t", b"x")
            assert (first.host, first.client_id.partition("@")[0]) == ("c1", "c1")
            assert second.client_id == "192.168.0.9@15959"
            assert second.consumer.config.heartbeat_interval_s == 7.0
            assert second.consumer.options.max_workers == 3
            clients = {connection.client[0] for connection in simulation.network.connections(b="broker-a")}
            assert {"c1", "192.168.0.9", "p3"} <= clients

    run_simulation(main)
