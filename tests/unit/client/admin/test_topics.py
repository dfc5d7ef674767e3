from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from client.admin.topics import VISIBLE_TIMEOUT_S
from model.errors import IllegalOperation, InvalidParameter, NetworkError, RequestTimeout, TopicNotExist
from model.limits import RECONNECT_MAX_S
from model.topic_route import MessageType
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.unit.client.admin.admin_cluster import administer

pytestmark = pytest.mark.simulation

AT_ONCE_S = 0.1
"""Some round trips of the simulated network, which take 1 ms each."""


async def counts(admin: Admin, topic: str) -> dict[str, tuple[int, int]]:
    route = await admin.route(topic)
    return {data.broker_name: (data.read_queue_nums, data.write_queue_nums) for data in route.queues}


def test_a_created_topic_is_shown_by_every_name_server_when_create_returns(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        started = cluster.simulation.loop.time()
        route = await admin.create_topic("t", 3)
        assert cluster.simulation.loop.time() - started < AT_ONCE_S
        for server in cluster.name_servers.values():
            assert server.running.table.route("t") == route
        assert await counts(admin, "t") == {"broker-a": (3, 3), "broker-b": (3, 3)}
        assert await admin.topics() == ("SYS_TRACE", "TBW102", "t", "warm-up")
        assert await admin.routes(["t", "no-such-topic"]) == [route]

    administer(scenario, tmp_path, name_servers=2)


def test_read_and_write_queues_and_the_brokers_may_be_chosen(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", read=8, write=4, brokers=["broker-b"])
        assert await counts(admin, "t") == {"broker-b": (8, 4)}
        with pytest.raises(InvalidParameter, match="broker 'broker-x' is not registered"):
            await admin.create_topic("u", brokers=["broker-a", "broker-x"])
        with pytest.raises(TopicNotExist, match="rlab topic create u"):
            await admin.route("u")

    administer(scenario, tmp_path)


def test_creating_a_topic_again_is_harmless_and_completes_it_on_new_brokers(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 2, brokers=["broker-a"])
        await admin.create_topic("t", 2)
        assert await counts(admin, "t") == {"broker-a": (2, 2), "broker-b": (2, 2)}
        with pytest.raises(IllegalOperation, match="exists on broker-a with 2 read and 2 write queues: scale it"):
            await admin.create_topic("t", 4)
        assert await counts(admin, "t") == {"broker-a": (2, 2), "broker-b": (2, 2)}

    administer(scenario, tmp_path)


def test_illegal_names_and_counts_and_system_topics_are_refused(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        with pytest.raises(InvalidParameter, match="characters"):
            await admin.create_topic("no spaces")
        with pytest.raises(InvalidParameter, match="at least one queue"):
            await admin.create_topic("t", 0)
        with pytest.raises(InvalidParameter, match="read or the write queues"):
            await admin.scale_topic("warm-up")
        for refused in (
            admin.create_topic("SYS_TRACE"),
            admin.scale_topic("SYS_TRACE", read=2),
            admin.delete_topic("SYS_TRACE"),
        ):
            with pytest.raises(IllegalOperation, match="SYS_TRACE is a system topic"):
                await refused
        for unknown in (admin.scale_topic("nope", read=2), admin.delete_topic("nope"), admin.route("nope")):
            with pytest.raises(TopicNotExist, match="'nope'"):
                await unknown

    administer(scenario, tmp_path)


async def types(admin: Admin, topic: str) -> dict[str, str]:
    return {data.broker_name: data.message_type.name for data in (await admin.route(topic)).queues}


def test_a_message_type_is_on_every_broker_and_in_every_route_when_the_call_returns(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 2, brokers=["broker-a"], message_type=MessageType.FIFO)
        await admin.create_topic("t", 2)
        assert await types(admin, "t") == {"broker-a": "FIFO", "broker-b": "FIFO"}, "a new broker takes that of others"
        await admin.scale_topic("t", read=4, write=4)
        assert await types(admin, "t") == {"broker-a": "FIFO", "broker-b": "FIFO"}
        found = (await admin.broker_info("broker-b")).topic("t")
        assert found is not None
        assert found.config.message_type is MessageType.FIFO
        route = await admin.set_topic("t", message_type=MessageType.DELAY)
        for server in cluster.name_servers.values():
            assert server.running.table.route("t") == route
        assert await types(admin, "t") == {"broker-a": "DELAY", "broker-b": "DELAY"}
        assert await counts(admin, "t") == {"broker-a": (4, 4), "broker-b": (4, 4)}
        await admin.set_topic("t", message_type=MessageType.MIXED)
        assert await types(admin, "t") == {"broker-a": "MIXED", "broker-b": "MIXED"}

    administer(scenario, tmp_path, name_servers=2)


def test_a_message_type_that_cannot_be_set_is_refused(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", message_type=MessageType.FIFO)
        with pytest.raises(IllegalOperation, match="exists on broker-a with messages of the type FIFO: set its type"):
            await admin.create_topic("t", message_type=MessageType.NORMAL)
        wrong: Any = "FIFO"
        for refused in (admin.set_topic("t", message_type=wrong), admin.create_topic("u", message_type=wrong)):
            with pytest.raises(InvalidParameter, match="must be a MessageType, got 'FIFO'"):
                await refused
        with pytest.raises(IllegalOperation, match="SYS_TRACE is a system topic"):
            await admin.set_topic("SYS_TRACE", message_type=MessageType.FIFO)
        with pytest.raises(TopicNotExist, match="'nope'"):
            await admin.set_topic("nope", message_type=MessageType.FIFO)

    administer(scenario, tmp_path)


def test_a_name_server_that_is_away_does_not_delay_a_new_topic(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.name_servers["namesrv-2"].crash()
        started = cluster.simulation.loop.time()
        await admin.create_topic("t")
        assert cluster.simulation.loop.time() - started < AT_ONCE_S

    administer(scenario, tmp_path, name_servers=2)


def test_a_name_server_that_the_brokers_cannot_reach_is_named(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        started = cluster.simulation.loop.time()
        with (
            cluster.simulation.network.partition("namesrv-2", ["broker-a", "broker-b"]),
            pytest.raises(RequestTimeout, match=r"namesrv-2:9876 does not show it .* register with every"),
        ):
            await admin.create_topic("t")
        assert cluster.simulation.loop.time() - started < VISIBLE_TIMEOUT_S + 1

    administer(scenario, tmp_path, name_servers=2)


def test_scaling_up_and_down_keeps_what_is_not_named(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 2)
        await admin.scale_topic("t", read=6, write=6)
        assert await counts(admin, "t") == {"broker-a": (6, 6), "broker-b": (6, 6)}
        await admin.scale_topic("t", write=3)
        await admin.scale_topic("t", read=4)
        assert await counts(admin, "t") == {"broker-a": (4, 3), "broker-b": (4, 3)}

    administer(scenario, tmp_path)


def test_a_topic_cannot_shrink_over_messages_that_no_one_has_consumed(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 2, brokers=["broker-a"])
        producer = await cluster.start_producer()
        await producer.send_many("t", 4)
        with pytest.raises(IllegalOperation, match="queue t@broker-a:1 holds messages that no group has consumed"):
            await admin.scale_topic("t", read=1, write=1)
        consumer = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(5.0)
        await consumer.stop()
        await admin.scale_topic("t", read=1, write=1, force=True)
        assert await counts(admin, "t") == {"broker-a": (1, 1)}

    administer(scenario, tmp_path)


def test_a_topic_can_shrink_once_every_group_has_drained_the_queues_that_go(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 2, brokers=["broker-a"])
        slow = await cluster.start_consumer("slow", "t")
        fast = await cluster.start_consumer("fast", "t")
        await cluster.wait_converged(5.0)
        await (await cluster.start_producer()).send_many("t", 4)
        await slow.stop()
        await (await cluster.start_producer()).send_many("t", 4, first=4)
        await anyio.sleep(1)
        await fast.stop()
        with pytest.raises(IllegalOperation, match="queue t@broker-a:1 holds messages that group 'slow' has not"):
            await admin.scale_topic("t", read=1)
        drain = await cluster.start_consumer("slow", "t")
        await cluster.wait_converged(5.0)
        await drain.stop()
        await admin.scale_topic("t", read=1, write=1)

    administer(scenario, tmp_path)


def test_a_deleted_topic_is_gone_everywhere_and_stays_away(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 2)
        await admin.delete_topic("t")
        for server in cluster.name_servers.values():
            with pytest.raises(TopicNotExist):
                server.running.table.route("t")
        for broker in cluster.brokers.values():
            assert broker.running.broker.topics.table.get("t") is None
        await cluster.brokers["broker-a"].stop()
        await cluster.brokers["broker-a"].start()
        await admin.create_topic("other")  # registered again, with every topic that it has
        assert "t" not in await admin.topics()

    administer(scenario, tmp_path, name_servers=2)


def test_name_servers_forget_a_deleted_topic_without_waiting_for_its_brokers(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 2)
        with cluster.simulation.network.partition("namesrv-1", ["broker-a", "broker-b"]):
            await admin.delete_topic("t")
            assert "t" not in await admin.topics()

    administer(scenario, tmp_path)


def test_a_topic_stays_listed_while_a_broker_that_has_it_cannot_be_reported_to_delete_it(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 1)
        with (
            cluster.simulation.network.stall("broker-b"),
            pytest.raises(NetworkError, match="topic 't' could not be deleted on broker broker-b: "),
        ):
            await admin.delete_topic("t")
        assert "t" in await admin.topics()

    administer(scenario, tmp_path)


def test_a_broker_that_refuses_is_named(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        with cluster.simulation.network.stall("broker-b"):
            with pytest.raises(NetworkError, match=r"^broker broker-b: "):
                await admin.create_topic("t", 1)
            with pytest.raises(NetworkError, match=r"^topic 'warm-up' has queues on broker broker-b: "):
                await admin.scale_topic("warm-up", read=2)
        await anyio.sleep(RECONNECT_MAX_S)
        await admin.create_topic("t", 1)
        assert await counts(admin, "t") == {"broker-a": (1, 1), "broker-b": (1, 1)}

    administer(scenario, tmp_path)
