"""Attacks in virtual time, in both dialects: none gets in, and whoever is beside them is served."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from random import Random
from typing import Any, cast

import anyio
import msgpack
import pytest

from model.access_limits import MAX_REFUSALS_UNAUTHENTICATED, UNAUTHENTICATED_S
from model.errors import NotAuthenticated, RequestCodeNotSupported
from model.limits import FRAME_TIMEOUT_S, MAX_FRAME_BYTES, MAX_FRAMES_UNDER_WAY_BYTES
from model.response_code import ResponseCode
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from remoting.security.policy import NamePatterns, Rights
from remoting.wire.schema import SCHEMA
from rocketmq.dialects import broker_dialect, name_server_dialect
from rocketmq.edge import ServerFacts
from testbed.simulation.cluster.access import CLIENT_KEY, SERVER_ACCESS, derived_key, derived_user
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.signed import SECRET, Signed, connected
from tests.unit.rocketmq.stock_client import StockClient

pytestmark = pytest.mark.simulation

MALLORY = derived_user(
    "mallory",
    Rights(produce=NamePatterns(["own"]), consume=NamePatterns(["own"]), groups=NamePatterns(["billing", "p"])),
    rocketmq_secret=SECRET,
)
WITH_MALLORY = {**SERVER_ACCESS, "access": {**SERVER_ACCESS["access"], "mallory": MALLORY}}
HANDSHAKE = {RequestCode.GET_CHALLENGE, RequestCode.AUTHENTICATE}
PUSHED = [
    code for code, schema in SCHEMA.items() if schema.sender.startswith("broker -> ") and "one-way" in schema.sender
]
STOCK_NOTIFICATIONS = (39, 40, 220, 221)
"""The check of a transaction, the change of a group, the reset of a member, and the question for its offsets."""
REGISTER_BROKER, LOCK, UNREGISTER, COMMIT, MAX_OFFSET = 103, 41, 35, 15, 30
NO_PERMISSION = 16
HALF_FRAMES = {"msgpack": b"\0\0\4\0\x96", "rocketmq": b"\0\0\4\0\0\0"}
"""The beginning of a frame of each dialect, of which 1,024 bytes are announced."""


class Vandal(asyncio.Protocol):
    """A connection that writes what it likes."""

    def __init__(self) -> None:
        self.closed = False
        self.received = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True


@pytest.mark.walk
def test_no_request_of_either_dialect_is_served_without_a_key(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        servers = (
            (cluster.brokers["broker-a"].address, broker_dialect(ServerFacts())),
            (cluster.addresses[0], name_server_dialect()),
        )
        for address, dialect in servers:
            codes = [code for code in RequestCode if code not in HANDSHAKE]
            for start in range(0, len(codes), MAX_REFUSALS_UNAUTHENTICATED):
                async with RemotingClient() as unauthenticated:
                    connection = await unauthenticated.connect(address)
                    for code in codes[start : start + MAX_REFUSALS_UNAUTHENTICATED]:
                        answer = await connection.request(code, {"topic": "orders", "group": "billing"})
                        assert answer.code == NotAuthenticated.code, code
            stock = await connected(cluster, address, StockClient("stock@1"))
            for number in (*dialect.translators, 361_000):
                assert (await stock.call(number, {"topic": "orders"})).code == NO_PERMISSION, number
            stock.close()

    simulate(scenario, brokers=1, **SERVER_ACCESS)


def test_a_signature_of_a_stock_client_gives_the_rights_of_its_user_and_nothing_of_anothers(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options["key"] = CLIENT_KEY
        for topic in ("orders", "own"):
            await cluster.create_topic(topic, queues=1)
        victim = await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(1.0)
        broker = cluster.brokers["broker-a"].address
        stock = await connected(cluster, broker, Signed("stock@1"))
        assert (await stock.send(topic="own")).code == 0
        assert (await stock.send(topic="orders")).code == NO_PERMISSION
        assert (await stock.call(MAX_OFFSET, {"topic": "orders", "queueId": 0})).code == NO_PERMISSION
        assert (await stock.pull(topic="orders")).code == 24  # SUBSCRIPTION_NOT_EXIST: it may not have one
        for group, topic in (("reports", "own"), ("billing", "orders")):
            assert (await stock.heartbeat(group, topic)).code == NO_PERMISSION
        own = {
            "consumerGroup": "reports",
            "topic": "own",
            "queueId": 0,
            "extraInfo": "7 0 0 0 0 broker-a 0 0",
            "offset": 0,
        }
        assert (await stock.call(RequestCode.ACK_MESSAGE, own)).code == NO_PERMISSION
        # A right to the group is none to what another user's member has in it.
        stock.client_id = victim.consumer.client_id
        queue = {"topic": "own", "brokerName": "broker-a", "queueId": 0}
        locks = {"consumerGroup": "billing", "clientId": stock.client_id, "mqSet": [queue]}
        for code, fields, body in (
            (UNREGISTER, {"clientID": stock.client_id, "consumerGroup": "billing"}, None),
            (LOCK, {}, json.dumps(locks).encode()),
            (LOCK + 1, {}, json.dumps(locks).encode()),
        ):
            assert "belongs to another user" in str((await stock.call(code, fields, body)).remark), code
        assert "belongs to another user" in str((await stock.heartbeat("billing", "own")).remark)
        commit = {"consumerGroup": "billing", "topic": "own", "queueId": 0, "commitOffset": 0}
        assert "belongs to another user" in str((await stock.call(COMMIT, commit)).remark)
        # Nor is a signature good for more than what was signed.
        stock.tampered = b"x"
        assert (await stock.send(topic="own")).code == NO_PERMISSION
        assert (await StockClient.begin(stock, 310, {"b": "own"}, b"m")).code == NO_PERMISSION
        stock.close()
        assert victim.queues

    simulate(scenario, brokers=1, **WITH_MALLORY)


def test_what_brokers_say_and_register_is_taken_from_no_client(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options["key"] = CLIENT_KEY
        await cluster.create_topic("orders", queues=1)
        consumer = await cluster.start_consumer("billing", "orders")
        await anyio.sleep(30)
        before = len(cluster.events)
        broker, name_server = cluster.brokers["broker-a"].address, cluster.addresses[0]
        async with RemotingClient(key=derived_key("mallory")) as mallory:
            for address in (broker, name_server):
                for code in PUSHED:
                    header = {"group": "billing", "topic": "orders", "version": 2**40}
                    with pytest.raises(RequestCodeNotSupported):
                        await mallory.request(address, code, header, msgpack.packb([]))
                stock = await connected(cluster, address, Signed("stock@1"))
                for number in (*STOCK_NOTIFICATIONS, REGISTER_BROKER):
                    answer = await stock.call(number, {"brokerName": "broker-a", "consumerGroup": "billing"}, b"{}")
                    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED, number
                stock.close()
        await anyio.sleep(1)
        assert len(consumer.queues) == 1
        assert [event.kind for event in cluster.events[before:] if event.client == consumer.consumer.client_id] == []

    assert PUSHED
    simulate(scenario, brokers=1, **WITH_MALLORY)


@pytest.mark.parametrize(("options", "closed_after_s"), [(SERVER_ACCESS, UNAUTHENTICATED_S), ({}, FRAME_TIMEOUT_S)])
def test_five_hundred_connections_that_send_a_frame_byte_by_byte_are_closed_and_a_client_is_served_beside_them(
    simulate: Simulate, options: dict[str, Any], closed_after_s: float
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options.update({"key": CLIENT_KEY} if options else {})
        await cluster.create_topic("orders", queues=1)
        broker, producer = cluster.brokers["broker-a"], await cluster.start_producer()
        await producer.send("orders", b"before")
        before = len(broker.running.server.connections)
        halves = [await connected(cluster, broker.address, Vandal()) for _ in range(250) for _ in HALF_FRAMES]
        for half, data in zip(halves, [*HALF_FRAMES.values()] * 250, strict=True):
            half.transport.write(data)
        drips = 4
        for _ in range(drips):
            await anyio.sleep((closed_after_s - 1) / drips)
            began = cluster.simulation.loop.time()
            await producer.send("orders", b"beside them")
            assert cluster.simulation.loop.time() - began < 0.1
            for half in halves:
                half.transport.write(b"\0")
        assert not any(half.closed for half in halves)
        await anyio.sleep(1.5)
        assert all(half.closed for half in halves)
        assert len(broker.running.server.connections) == before

    simulate(scenario, brokers=1, **options)


def test_a_user_whose_large_frames_never_end_takes_no_room_of_another(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options["key"] = CLIENT_KEY
        await cluster.create_topic("orders", queues=1)
        producer = await cluster.start_producer()
        async with AsyncExitStack() as stack:
            for n in range(2 * MAX_FRAMES_UNDER_WAY_BYTES // MAX_FRAME_BYTES):
                with cluster.simulation.on_host(f"bad-{n}"):
                    mallory = await stack.enter_async_context(RemotingClient(key=derived_key("mallory")))
                    connection = await mallory.connect(cluster.brokers["broker-a"].address)
                connection.send_frame(MAX_FRAME_BYTES.to_bytes(4, "big") + b"\x96")
            await anyio.sleep(0.1)
            began = cluster.simulation.loop.time()
            await producer.send("orders", bytes(1_000_000))
            assert cluster.simulation.loop.time() - began < 1

    simulate(scenario, brokers=1, **WITH_MALLORY)


@pytest.mark.parametrize("dialect", HALF_FRAMES)
@pytest.mark.parametrize("options", [SERVER_ACCESS, {}], ids=["access", "open"])
def test_a_million_bytes_of_garbage_in_a_frame_of_either_dialect_cost_their_sender_the_connection(
    simulate: Simulate, dialect: str, options: dict[str, Any]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options.update({"key": CLIENT_KEY} if options else {})
        await cluster.create_topic("orders", queues=1)
        producer = await cluster.start_producer()
        for address in (cluster.brokers["broker-a"].address, cluster.addresses[0]):
            vandal = await connected(cluster, address, Vandal())
            vandal.transport.write(HALF_FRAMES[dialect] + Random(dialect).randbytes(1_000_000))
            await anyio.sleep(1)
            assert vandal.closed
            assert len(vandal.received) < 2_000
        await producer.send("orders", b"still served")

    simulate(scenario, brokers=1, **options)
