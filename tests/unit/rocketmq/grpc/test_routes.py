"""Routes for gRPC clients, from name servers and from brokers."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from model.topic_route import MessageType
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES
from rocketmq.grpc.routes import query_name_server, to_endpoints
from tests.unit.broker.harness import World, simulated
from tests.unit.rocketmq.grpc.grpc_client import GrpcClient


def route_of(topic: str) -> Any:
    return MESSAGES["QueryRouteRequest"](topic=MESSAGES["Resource"](name=topic))


@simulated
async def test_a_name_server_names_the_queues_with_their_brokers_address_and_types(world: World) -> None:
    name_server = await world.start_name_server()
    await world.start_broker(name_servers=(name_server,))
    await world.peer("a").put_topic("t", read=3, write=2)
    await world.sleep(1)
    client = await GrpcClient.connect(world, address=name_server)
    found = await client.one("QueryRoute", route_of("t"))
    assert found.status.code == proto.OK
    queues = [(queue.id, queue.permission) for queue in found.message_queues]
    assert queues == [(0, proto.READ_WRITE), (1, proto.READ_WRITE), (2, proto.READ)]
    queue = found.message_queues[0]
    [address] = queue.broker.endpoints.addresses
    assert (queue.topic.name, queue.broker.name, queue.broker.id) == ("t", "broker-a", 0)
    assert (queue.broker.endpoints.scheme, address.host, address.port) == (proto.IPV4, "10.0.0.1", 10911)
    assert list(queue.accept_message_types) == [proto.NORMAL, proto.FIFO, proto.DELAY, proto.TRANSACTION]


def test_the_brokers_of_a_route_take_turns_so_that_a_failed_send_is_repeated_at_another_one() -> None:
    brokers = [["c", f"broker-{letter}", [[0, f"10.0.0.{n}:10911"]]] for n, letter in enumerate("ba")]
    route = {"brokers": brokers, "queues": [["broker-b", 2, 2, 6], ["broker-a", 3, 3, 6]]}
    given: Any = None
    [found] = query_name_server(given, given, route_of("t")).answer({}, msgpack.packb(route), 0)
    names = [f"{queue.broker.name}:{queue.id}" for queue in found.message_queues]
    assert names == ["broker-a:0", "broker-b:0", "broker-a:1", "broker-b:1", "broker-a:2"]


@pytest.mark.parametrize(
    ("message_type", "accepted"),
    [
        (MessageType.NORMAL, proto.NORMAL),
        (MessageType.FIFO, proto.FIFO),
        (MessageType.DELAY, proto.DELAY),
        (MessageType.TRANSACTION, proto.TRANSACTION),
    ],
)
@simulated
async def test_a_topic_of_a_type_accepts_that_type_alone_at_name_servers_and_brokers(
    world: World, message_type: MessageType, accepted: int
) -> None:
    name_server = await world.start_name_server()
    await world.start_broker(name_servers=(name_server,))
    await world.peer("a").put_topic("t", read=1, message_type=message_type)
    await world.sleep(1)
    for client in (await GrpcClient.connect(world, address=name_server), await GrpcClient.connect(world)):
        found = await client.one("QueryRoute", route_of("t"))
        assert [list(queue.accept_message_types) for queue in found.message_queues] == [[accepted]]


@simulated
async def test_a_broker_answers_with_the_route_of_its_name_server(world: World) -> None:
    name_server = await world.start_name_server()
    await world.start_broker(name_servers=(name_server,))
    await world.peer("a").put_topic("t", read=1, write=1)
    await world.sleep(1)
    found = await (await GrpcClient.connect(world)).one("QueryRoute", route_of("t"))
    assert [queue.broker.name for queue in found.message_queues] == ["broker-a"]


@simulated
async def test_a_broker_without_a_name_server_answers_with_itself(world: World) -> None:
    await world.start_broker()
    await world.peer("a").put_topic("t", read=2, write=2)
    client = await GrpcClient.connect(world)
    found = await client.one("QueryRoute", route_of("t"))
    assert [queue.id for queue in found.message_queues] == [0, 1]
    assert (await client.one("QueryRoute", route_of("nowhere"))).status.code == proto.TOPIC_NOT_FOUND


@simulated
async def test_a_topic_without_a_name_is_refused(world: World) -> None:
    await world.start_broker()
    found = await (await GrpcClient.connect(world)).one("QueryRoute", route_of(""))
    assert (found.status.code, found.status.message) == (proto.ILLEGAL_TOPIC, "the name of the topic is missing")


@simulated
async def test_a_name_server_serves_routes_and_says_who_serves_the_rest(world: World) -> None:
    name_server = await world.start_name_server()
    client = await GrpcClient.connect(world, address=name_server)
    _, answer = client.begin("SendMessage", MESSAGES["SendMessageRequest"]())
    await answer.ended
    assert (answer.status, answer.text) == (
        "12",
        "SendMessage is not served here: a name server serves QueryRoute, which names the brokers to call",
    )


@pytest.mark.parametrize(
    ("address", "scheme"),
    [("10.0.0.1:1", proto.IPV4), ("[::1]:1", proto.IPV6), ("broker.example:1", proto.DOMAIN_NAME)],
)
def test_an_address_is_named_by_its_kind(address: str, scheme: int) -> None:
    found = to_endpoints(address)
    assert (found.scheme, found.addresses[0].port) == (scheme, 1)
