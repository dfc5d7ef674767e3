"""A broker can be without assignment, POP, sink or retention: requests of that part are refused, all else works."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from broker.config import Part
from client.admin.admin import Admin
from model.errors import RequestCodeNotSupported
from model.heartbeat import ConsumeFrom
from model.message import Message
from model.names import STAGE_TOPIC
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = [pytest.mark.simulation, pytest.mark.walk]

REQUESTS: dict[Part, tuple[RequestCode, dict[str, Any]]] = {
    Part.ASSIGNMENT: (RequestCode.GET_GROUP_ASSIGNMENT, {"group": "g"}),
    Part.POP: (RequestCode.GET_POP_STATS, {"group": "g"}),
    Part.SINK: (RequestCode.SINK_ABORT, {"query_id": "q", "batch_id": 0}),
}


async def ask(cluster: SimulatedCluster, part: Part) -> str:
    """Send a request of a part to the broker; returns how it was answered."""
    code, header = REQUESTS[part]
    with cluster.simulation.on_host("operator"):
        remoting = RemotingClient()
        try:
            await remoting.request("broker-a:10911", code, header)
        except RequestCodeNotSupported:
            return "refused"
        finally:
            await remoting.aclose()
    return "served"


@pytest.mark.parametrize("missing", [*Part, None])
def test_a_broker_without_a_part_serves_everything_else(simulate: Simulate, missing: Part | None) -> None:
    parts = frozenset(Part) - {missing}

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        producer = await cluster.start_producer()
        consumers = [await cluster.start_consumer("g", "t", consume_from=ConsumeFrom.FIRST_OFFSET) for _ in range(2)]
        await cluster.wait_converged(5)
        await producer.send_many("t", 20)
        with cluster.simulation.on_host(producer.host):
            await producer.producer.send(Message("t", b"later"), delay_ms=2_000)
        await anyio.sleep(5)
        if Part.POP in parts:
            popper = await cluster.start_popper("poppers", "t", consume_from=ConsumeFrom.FIRST_OFFSET)
            messages = await popper.receive()
            assert messages
            assert await popper.ack(messages) == []
        if Part.ASSIGNMENT in parts:
            assigned = await cluster.start_consumer("assigned", "t", assignment="broker")
            await cluster.wait_converged(10)
            assert len([queue for queue in assigned.queues if queue.topic == "t"]) == 4
        await consumers[0].stop()
        await cluster.wait_converged(5)
        received = {body for consumer in consumers for body in consumer.bodies}
        assert received == {b"%d" % number for number in range(20)} | {b"later"}
        assert (STAGE_TOPIC in cluster.brokers["broker-a"].running.broker.topics.table.names().values()) == (
            Part.SINK in parts
        )
        for part in REQUESTS:
            assert await ask(cluster, part) == ("served" if part in parts else "refused"), part
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                info = await admin.group("g")
                assert [member.client_id for member in info.members] == [consumers[1].client_id]
                assert not info.unreachable
                await consumers[1].stop()
                await admin.delete_group("g")
        await cluster.brokers["broker-a"].stop()
        await cluster.brokers["broker-a"].start()
        await producer.send_many("t", 1, first=20)

    simulate(scenario, brokers=1, parts=parts, restore_grace_s=0.0)
