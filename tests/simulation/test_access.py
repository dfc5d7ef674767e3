"""Access control in a whole cluster: everything goes on as without it, and nobody gets what is another's."""

from __future__ import annotations

from dataclasses import replace

import anyio
import msgpack
import pytest

from model.access_limits import UNAUTHENTICATED_S
from model.errors import ClientIdConflict, NoPermission, NotAuthenticated
from model.events import EventKind
from model.heartbeat import HeartbeatData
from model.response_code import ResponseCode
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from remoting.security.key import Key
from remoting.security.policy import NamePatterns, Rights
from testbed.simulation.cluster.access import CLIENT_KEY, SERVER_ACCESS, derived_key, derived_user
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

MALLORY = derived_user(
    "mallory",
    Rights(produce=NamePatterns(["own"]), consume=NamePatterns(["own"]), groups=NamePatterns(["hers", "billing"])),
)
WITH_MALLORY = {**SERVER_ACCESS, "access": {**SERVER_ACCESS["access"], "mallory": MALLORY}}


def test_a_group_rebalances_over_signed_connections_as_it_does_without(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options["key"] = CLIENT_KEY
        await cluster.create_topic("orders", queues=4)
        first = await cluster.start_consumer("billing", "orders")
        second = await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(0.5)
        producer = await cluster.start_producer()
        for n in range(20):
            await producer.send("orders", f"{n}".encode())
        await first.crash()
        await cluster.wait_converged(1.0)
        assert len(second.queues) == 8

    simulate(scenario, **SERVER_ACCESS)


def test_who_proves_no_key_or_a_wrong_one_gets_nothing_from_any_server(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        broker, name_server = cluster.brokers["broker-a"].address, cluster.addresses[0]
        wrong = Key("client", derived_key("another").secret)
        for client in (RemotingClient(), RemotingClient(key=wrong), RemotingClient(key=derived_key("nobody"))):
            for address in (broker, name_server):
                with pytest.raises(NotAuthenticated):
                    await client.request(address, RequestCode.GET_SERVER_STATE)
            await client.aclose()
        refused = cluster.brokers["broker-a"].running.server.gate
        assert refused is not None
        assert refused.refused["NOT_AUTHENTICATED"] == 3
        assert [event.detail for event in cluster.events if event.kind == EventKind.ACCESS_REFUSED]

    simulate(scenario, brokers=1, **SERVER_ACCESS)


def test_a_connection_that_proves_no_key_is_closed_after_five_seconds(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        client = RemotingClient()
        connection = await client.connect(cluster.brokers["broker-a"].address)
        await anyio.sleep(UNAUTHENTICATED_S - 0.1)
        assert not connection.closed
        await anyio.sleep(0.2)
        assert connection.closed
        await client.aclose()

    simulate(scenario, brokers=1, **SERVER_ACCESS)


def test_rights_of_one_user_give_nothing_of_anothers(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options["key"] = CLIENT_KEY
        await cluster.create_topic("orders", queues=1)
        await cluster.create_topic("own", queues=1)
        consumer = await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(1.0)
        broker, name_server = cluster.brokers["broker-a"].address, cluster.addresses[0]
        mallory = RemotingClient(key=derived_key("mallory"))
        queue = {"topic": "orders", "queue_id": 0}
        with pytest.raises(NoPermission, match=r"mallory.*SEND_MESSAGE.*produce 'orders'"):
            await mallory.request(broker, RequestCode.SEND_MESSAGE, {**queue, "tag_hash": 0}, b"")
        read = {"group": "hers", "offset": 0, "max_n": 1, "suspend_ms": 0}
        with pytest.raises(NoPermission, match="consume 'orders'"):
            await mallory.request(broker, RequestCode.PULL_MESSAGE, {**queue, **read})
        for code, header in (
            (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}),
            (RequestCode.GET_CONSUME_STATS, {"group": "reports"}),
            (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {"group": "billing", "topic": "orders", "to": "earliest"}),
            (RequestCode.GET_BROKER_RUNTIME_INFO, {}),
            (RequestCode.PULL_MESSAGE, {**read, "topic": "SYS_TRACE", "queue_id": 0}),
        ):
            with pytest.raises(NoPermission):
                await mallory.request(broker, code, header)
        # A right to the group is none to what another user's member does in it.
        its_id = consumer.consumer.client_id
        commit = {"group": "billing", "client_id": its_id}
        for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ, RequestCode.UPDATE_CONSUMER_OFFSET):
            with pytest.raises(ClientIdConflict, match="belongs to another user"):
                await mallory.request(broker, code, commit, msgpack.packb([]))
        with pytest.raises(ClientIdConflict):
            await mallory.request(broker, RequestCode.UNREGISTER_CLIENT, {"client_id": its_id, "groups": ["billing"]})
        heartbeat = HeartbeatData(client_id=its_id, consumers=())
        with pytest.raises(ClientIdConflict):
            await mallory.request(broker, RequestCode.HEART_BEAT, {}, msgpack.packb(heartbeat.to_wire()))
        # Nor is a client a broker.
        registration = {
            **{"cluster": "c", "broker_name": "broker-a", "broker_id": 0, "address": "h:1"},
            **{"version": 2**40, "expiry_ms": 1000},
        }
        with pytest.raises(NoPermission, match="brokers 'broker-a'"):
            await mallory.request(name_server, RequestCode.REGISTER_BROKER, registration, msgpack.packb([]))
        with pytest.raises(NoPermission):
            await mallory.request(name_server, RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"broker_name": "broker-a"})
        await mallory.request(broker, RequestCode.SEND_MESSAGE, {"topic": "own", "queue_id": 0, "tag_hash": 0}, b"x")
        await mallory.aclose()
        assert len(consumer.queues) == 1

    simulate(scenario, brokers=1, **WITH_MALLORY)


def test_a_policy_that_takes_a_right_or_a_key_holds_at_once_for_those_who_are_connected(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("own", queues=1)
        broker = cluster.brokers["broker-a"]
        gate = broker.running.server.gate
        assert gate is not None
        mallory, send = RemotingClient(key=derived_key("mallory")), {"topic": "own", "queue_id": 0, "tag_hash": 0}
        await mallory.request(broker.address, RequestCode.SEND_MESSAGE, send, b"x")
        policy = dict(WITH_MALLORY["access"])
        gate.apply({**policy, "mallory": derived_user("mallory", Rights())})
        with pytest.raises(NoPermission):
            await mallory.request(broker.address, RequestCode.SEND_MESSAGE, send, b"x")
        changed = replace(MALLORY, keys=(derived_key("new").hash(),))
        gate.apply({**policy, "mallory": changed})
        await anyio.sleep(0.1)
        with pytest.raises(NotAuthenticated):
            await mallory.request(broker.address, RequestCode.SEND_MESSAGE, send, b"x")
        # Two keys are good while one replaces the other.
        gate.apply({**policy, "mallory": replace(MALLORY, keys=(*MALLORY.keys, *changed.keys))})
        await anyio.sleep(10)
        await mallory.request(broker.address, RequestCode.SEND_MESSAGE, send, b"x")
        await mallory.aclose()

    simulate(scenario, brokers=1, **WITH_MALLORY)


def test_a_consumer_whose_key_is_refused_for_a_while_goes_on_when_it_is_taken_again(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options["key"] = CLIENT_KEY
        await cluster.create_topic("orders", queues=2)
        consumer = await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(0.5)
        gate = cluster.brokers["broker-a"].running.server.gate
        assert gate is not None
        policy = SERVER_ACCESS["access"]
        gate.apply({name: user for name, user in policy.items() if name != CLIENT_KEY.user})
        await anyio.sleep(30)
        gate.apply(policy)
        await anyio.sleep(20)
        producer = await cluster.start_producer()
        await producer.send("orders", b"after it")
        await anyio.sleep(2)
        assert consumer.bodies == [b"after it"]

    simulate(scenario, brokers=1, **SERVER_ACCESS)


def test_a_user_beyond_its_quota_is_asked_to_wait_and_others_are_not(simulate: Simulate) -> None:
    quota = derived_user("mallory", replace(MALLORY.rights, requests_per_s=5.0))

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("own", queues=1)
        broker, client = cluster.brokers["broker-a"].address, RemotingClient(key=derived_key("mallory"))
        send = {"topic": "own", "queue_id": 0, "tag_hash": 0}
        connection = await client.connect(broker)
        answers = [await connection.request(RequestCode.SEND_MESSAGE, send, b"x") for _ in range(6)]
        assert [answer.code for answer in answers] == [0, 0, 0, 0, 0, ResponseCode.SYSTEM_BUSY]
        assert 0 < answers[5].header["retry_after_ms"] <= 200
        await client.request(broker, RequestCode.SEND_MESSAGE, send, b"x")  # waits by itself
        await client.aclose()

    simulate(scenario, brokers=1, **{**SERVER_ACCESS, "access": {**SERVER_ACCESS["access"], "mallory": quota}})
