"""The client of the gRPC service, against a simulated broker: its answers, its deadline and its errors."""

from __future__ import annotations

import pytest

from model.errors import ConnectFailed, ConnectionLost, RequestTimeout, ServiceNotAvailable
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES
from testbed.load.grpc import GrpcClientConnection
from tests.unit.broker.harness import HOST, World, simulated
from tests.unit.rocketmq.grpc.grpc_client import message_of, receive_of, send_of

BEAT = MESSAGES["HeartbeatRequest"](client_type=proto.PRODUCER)


async def connected(world: World) -> GrpcClientConnection:
    await world.start_broker()
    await world.peer("a").put_topic("t", read=1, write=1)
    client = await GrpcClientConnection.to_server(HOST, 10911)
    world.at_end.append(client.close)
    return client


@simulated
async def test_a_call_has_the_messages_of_its_answer(world: World) -> None:
    client = await connected(world)
    [beat] = await client.ask("Heartbeat", BEAT, "c@1", 3.0)
    assert beat.status.code == proto.OK
    big = send_of(message_of(b"x" * 1_000_000))
    [sent] = await client.ask("SendMessage", big, "c@1", 3.0)
    assert sent.status.code == proto.OK, "a request longer than a window"


@simulated
async def test_a_call_without_an_answer_in_time_is_reset_and_keeps_no_message(world: World) -> None:
    client = await connected(world)
    await client.ask("ReceiveMessage", receive_of(poll_ms=0), "c@1", 3.0)
    began = world.now
    with world.simulation.network.partition(HOST, "127.0.0.1", one_way=True), pytest.raises(RequestTimeout):
        await client.ask("ReceiveMessage", receive_of(poll_ms=20_000), "c@1", 3.0)
    assert world.now - began == pytest.approx(3.0)
    await client.ask("SendMessage", send_of(message_of(b"m")), "c@1", 3.0)
    answers = await client.ask("ReceiveMessage", receive_of(poll_ms=1_000), "c@1", 3.0)
    assert answers[1].message.system_properties.delivery_attempt == 1


@simulated
async def test_a_closed_connection_and_a_failed_call_are_errors_of_their_own(world: World) -> None:
    client = await connected(world)
    with pytest.raises(ServiceNotAvailable, match="Nowhere failed with status 12 of gRPC: Nowhere is not served here"):
        await client.ask("Nowhere", BEAT, "c@1", 3.0)
    world.simulation.network.cut(HOST)
    await client.closed
    with pytest.raises(ConnectionLost, match="nothing was sent"):
        await client.ask("Heartbeat", BEAT, "c@1", 3.0)
    with pytest.raises(ConnectFailed, match=f"no connection to {HOST}:1:"):
        await GrpcClientConnection.to_server(HOST, 1)
