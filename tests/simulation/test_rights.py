"""Users against each other, in a whole cluster with access control: what a body names takes a right, too."""

from __future__ import annotations

import json
from collections.abc import Sequence

import anyio
import msgpack
import pytest

from client.push.consumer import PushConsumer
from model.errors import MessageIllegal, NoPermission
from model.message import Message, MessageExt, encode_payload, topic_of_payload
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from remoting.security.policy import NamePatterns, Rights
from simulation.cluster.access import CLIENT_KEY, SERVER_ACCESS, made_key, made_user
from simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.signed import SECRET, Signed, connected

pytestmark = pytest.mark.simulation


EVE = made_user(
    "eve",
    Rights(
        produce=NamePatterns(["bobs"]),
        consume=NamePatterns(["bobs"]),
        groups=NamePatterns(["eves"]),
        manage=NamePatterns(["eves"]),
    ),
    rocketmq_secret=SECRET,
)
WITH_EVE = {**SERVER_ACCESS, "access": {**SERVER_ACCESS["access"], "eve": EVE}}


async def with_topics(cluster: SimulatedCluster, *topics: str) -> str:
    """Create topics with one queue; returns the address of the broker."""
    cluster.client_options["key"] = CLIENT_KEY
    for topic in topics:
        await cluster.create_topic(topic, queues=1)
    return cluster.brokers["broker-a"].address


def test_no_user_commits_releases_or_resets_its_group_on_the_topic_of_another(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        broker = await with_topics(cluster, "orders", "bobs")
        producer = await cluster.start_producer()
        await producer.send("orders", b"kept for ever, if eve's group had an offset there")
        member = {"group": "eves", "client_id": "e1"}
        both = msgpack.packb([["bobs", 0, 0, -1], ["orders", 0, 0, -1]])
        topic = {"group": "eves", "topic": "orders"}
        async with RemotingClient(key=made_key("eve")) as eve:
            for code, header, body in (
                (RequestCode.UPDATE_CONSUMER_OFFSET, member, both),
                (RequestCode.UNLOCK_BATCH_MQ, member, both),
                (RequestCode.LOCK_BATCH_MQ, member, msgpack.packb([["orders", 0]])),
                (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {**topic, "to": "earliest"}, None),
                (
                    RequestCode.SET_MESSAGE_REQUEST_MODE,
                    {**topic, "mode": "POP", "pop_share_queue_num": 0},
                    None,
                ),
            ):
                with pytest.raises(NoPermission, match=r"consume( or manage)? 'orders'"):
                    await eve.request(broker, code, header, body)
            own = {"group": "eves", "topic": "bobs", "to": "earliest"}
            await eve.request(broker, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, own)
            bobs = msgpack.packb([["bobs", 0, 0, -1]])
            await eve.request(broker, RequestCode.UPDATE_CONSUMER_OFFSET, member, bobs)
        offsets = cluster.brokers["broker-a"].running.broker.leases.offsets
        assert [topic for topic, *_ in offsets.of_group("eves")] == ["bobs"]

    simulate(scenario, brokers=1, **WITH_EVE)


def test_a_message_for_another_topic_than_that_of_its_request_is_refused_however_it_is_sent(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        broker = await with_topics(cluster, "orders", "bobs")
        got: list[tuple[str, bytes]] = []

        def listen(messages: Sequence[MessageExt]) -> None:
            got.extend((each.topic, each.body) for each in messages)

        consumer = PushConsumer(cluster.addresses, group="billing", key=CLIENT_KEY)
        await consumer.subscribe("orders", listen)
        await consumer.subscribe("bobs", lambda messages: None)
        async with consumer, RemotingClient(key=made_key("eve")) as eve:
            forged = encode_payload(Message("orders", b"forged"), 1, "id")
            own = encode_payload(Message("bobs", b"own"), 1, "id")
            queue = {"topic": "bobs", "queue_id": 0}
            batch = {"query_id": "q", "batch_id": 1, "partition": 0, "attempt": 0, "seq": 0}
            for code, header, body in (
                (RequestCode.SEND_MESSAGE, {**queue, "tag_hash": 0}, forged),
                (RequestCode.SEND_MESSAGE, {**queue, "tag_hash": 0, "delay_ms": 10}, forged),
                (RequestCode.SEND_BATCH_MESSAGE, queue, msgpack.packb([[0, own], [0, forged]])),
                (RequestCode.SEND_HALF_MESSAGE, {"group": "eves"}, msgpack.packb([["bobs", 0, 0, -1, forged]])),
                (RequestCode.SINK_STAGE, batch, msgpack.packb([["bobs", 0, 0, own], ["bobs", 0, 0, forged]])),
            ):
                with pytest.raises(MessageIllegal, match="a message for topic 'orders' was sent to 'bobs'"):
                    await eve.request(broker, code, header, body)
            # A copy for a retry of a group of its own has a topic that it may consume, or manage.
            retry = {"topic": "%RETRY%eves", "queue_id": 0, "tag_hash": 0}
            with pytest.raises(NoPermission, match="consume or manage 'orders'"):
                await eve.request(broker, RequestCode.SEND_MESSAGE, retry, forged)
            await eve.request(broker, RequestCode.SEND_MESSAGE, {**queue, "tag_hash": 0}, own)
            await eve.request(broker, RequestCode.SEND_MESSAGE, {**queue, "tag_hash": 0}, b"a payload of another make")
            await anyio.sleep(20)
        assert got == []

    simulate(scenario, brokers=1, **WITH_EVE)


def test_a_listener_gets_only_what_is_stored_in_its_topic_also_from_a_broker_that_compares_nothing(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for topic in ("orders", "bobs"):
            await cluster.create_topic(topic, queues=1)
        got: dict[str, list[bytes]] = {"orders": [], "bobs": []}
        consumer = PushConsumer(cluster.addresses, group="billing", consume_batch=1)
        for topic, bodies in got.items():
            await consumer.subscribe(topic, lambda messages, bodies=bodies: bodies.extend(m.body for m in messages))
        async with consumer, RemotingClient() as eve:
            await anyio.sleep(1)
            forged = encode_payload(Message("orders", b"forged"), 1, "id")
            queue = {"topic": "bobs", "queue_id": 0, "tag_hash": 0}
            await eve.request(cluster.brokers["broker-a"].address, RequestCode.SEND_MESSAGE, queue, forged)
            await anyio.sleep(5)
        assert got == {"orders": [], "bobs": [b"forged"]}

    simulate(scenario, brokers=1)


def test_the_names_in_bodies_of_rocketmqs_requests_take_the_same_rights(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        broker = await with_topics(cluster, "orders", "bobs")
        stock = await connected(cluster, broker, Signed("stock@1", "eve"))
        assert (await stock.heartbeat("eves", "bobs")).code == 16  # of a producer group that she may not join
        queue = {"topic": "orders", "brokerName": "broker-a", "queueId": 0}
        locks = json.dumps({"consumerGroup": "eves", "clientId": "stock@1", "mqSet": [queue]}).encode()
        commit = {"consumerGroup": "eves", "topic": "orders", "queueId": 0, "commitOffset": 0}
        reset = {"group": "eves", "topic": "orders", "timestamp": 0, "isForce": True}
        mode = json.dumps({"consumerGroup": "eves", "topic": "orders", "mode": "POP", "popShareQueueNum": 0}).encode()
        for code, fields, body in (
            (15, commit, None),
            (41, {}, locks),
            (42, {}, locks),
            (222, reset, None),
            (401, {}, mode),
        ):
            answer = await stock.call(code, fields, body)
            assert (answer.code, "'orders'" in str(answer.remark)) == (16, True), code
        assert (await stock.send(topic="bobs", body=b"forged", i="RETRY_TOPIC\x01orders\x02")).code == 0
        stock.close()
        store = cluster.brokers["broker-a"].running.broker.store
        topics = cluster.brokers["broker-a"].running.broker.topics.table
        record = store.read_one(topics.existing("bobs").topic_id, 0, 0)
        assert record is not None
        assert topic_of_payload(record.payload) == "bobs"

    simulate(scenario, brokers=1, **WITH_EVE)
