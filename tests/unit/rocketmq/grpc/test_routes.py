"""Routes for gRPC clients, from name servers and from brokers."""

from __future__ import annotations

from typing import Any

import pytest

from model.topic_route import MessageType
from rocketmq.grpc import words
from rocketmq.grpc.routes import endpoints_of
from rocketmq.grpc.words import WORDS
from tests.unit.broker.harness import World, simulated
from tests.unit.rocketmq.grpc.grpc_client import GrpcClient


def route_of(topic: str) -> Any:
    return WORDS["QueryRouteRequest"](topic=WORDS["Resource"](name=topic))


@simulated
async def test_a_name_server_names_the_queues_with_their_brokers_address_and_types(world: World) -> None:
    name_server = await world.start_name_server()
    await world.start_broker(name_servers=(name_server,))
    await world.peer("a").put_topic("t", read=3, write=2)
    await world.sleep(1)
    client = await GrpcClient.connect(world, address=name_server)
    found = await client.one("QueryRoute", route_of("t"))
    assert found.status.code == words.OK
    queues = [(queue.id, queue.permission) for queue in found.message_queues]
    assert queues == [(0, words.READ_WRITE), (1, words.READ_WRITE), (2, words.READ)]
    queue = found.message_queues[0]
    [address] = queue.broker.endpoints.addresses
    assert (queue.topic.name, queue.broker.name, queue.broker.id) == ("t", "broker-a", 0)
    assert (queue.broker.endpoints.scheme, address.host, address.port) == (words.IPV4, "10.0.0.1", 10911)
    assert list(queue.accept_message_types) == [words.NORMAL, words.FIFO, words.DELAY]


@pytest.mark.parametrize(
    ("message_type", "accepted"),
    [
        (MessageType.NORMAL, words.NORMAL),
        (MessageType.FIFO, words.FIFO),
        (MessageType.DELAY, words.DELAY),
        (MessageType.TRANSACTION, words.TRANSACTION),
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
    assert (await client.one("QueryRoute", route_of("nowhere"))).status.code == words.TOPIC_NOT_FOUND


@simulated
async def test_a_topic_without_a_name_is_refused(world: World) -> None:
    await world.start_broker()
    found = await (await GrpcClient.connect(world)).one("QueryRoute", route_of(""))
    assert (found.status.code, found.status.message) == (words.ILLEGAL_TOPIC, "the name of the topic is missing")


@simulated
async def test_a_name_server_serves_routes_and_says_who_serves_the_rest(world: World) -> None:
    name_server = await world.start_name_server()
    client = await GrpcClient.connect(world, address=name_server)
    _, answer = client.begin("SendMessage", WORDS["SendMessageRequest"]())
    await answer.ended
    assert (answer.status, answer.text) == (
        "12",
        "SendMessage is not served here: a name server serves QueryRoute, which names the brokers to call",
    )


@pytest.mark.parametrize(
    ("address", "scheme"),
    [("10.0.0.1:1", words.IPV4), ("[::1]:1", words.IPV6), ("broker.example:1", words.DOMAIN_NAME)],
)
def test_an_address_is_named_by_its_kind(address: str, scheme: int) -> None:
    found = endpoints_of(address)
    assert (found.scheme, found.addresses[0].port) == (scheme, 1)
