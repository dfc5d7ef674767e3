"""Users against each other, in a whole cluster with access control: what a body names takes a right, too."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

import anyio
import msgpack
import pytest

from broker.store.disk.directory import METADATA_NAME
from client.push.consumer import PushConsumer
from model.access_limits import CLAIM_KEPT_S
from model.errors import ClientIdConflict, MessageIllegal, NoPermission
from model.events import EventKind
from model.heartbeat import HeartbeatData
from model.message import Message, MessageExt, encode_payload, topic_of_payload
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from remoting.security.gate import Gate
from remoting.security.policy import NamePatterns, Rights, User
from testbed.simulation.cluster.access import CLIENT_KEY, SERVER_ACCESS, derived_key, derived_user
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.signed import SECRET, Signed, connected

pytestmark = pytest.mark.simulation


EVE = derived_user(
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
        async with RemotingClient(key=derived_key("eve")) as eve:
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
        async with consumer, RemotingClient(key=derived_key("eve")) as eve:
            forged = encode_payload(Message("orders", b"forged"), 1, "id")
            own = encode_payload(Message("bobs", b"own"), 1, "id")
            queue = {"topic": "bobs", "queue_id": 0}
            batch = {"query_id": "q", "batch_id": 1, "partition": 0, "attempt": 0, "seq": 0}
            for code, header, body in (
                (RequestCode.SEND_MESSAGE, {**queue, "tag_hash": 0}, forged),
                (RequestCode.SEND_MESSAGE, {**queue, "tag_hash": 0, "delay_ms": 10}, forged),
                (RequestCode.SEND_BATCH_MESSAGE, queue, msgpack.packb([[0, own], [0, forged]])),
                (RequestCode.SEND_MESSAGES, {"topic": "bobs"}, msgpack.packb([[0, 0, own], [0, 0, forged]])),
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


def changed(policy: Mapping[str, User], name: str, **lists: Sequence[str]) -> dict[str, User]:
    """A policy in which one user has other rights."""
    rights = Rights(**cast("Any", {option: NamePatterns(names) for option, names in lists.items()}))
    return {**policy, name: replace(policy[name], rights=rights)}


def gate_of(cluster: SimulatedCluster) -> Gate:
    gate = cluster.brokers["broker-a"].running.server.gate
    assert gate is not None
    return gate


BOB = derived_user(
    "bob",
    Rights(produce=NamePatterns(["orders"]), consume=NamePatterns(["orders"]), groups=NamePatterns(["billing"])),
    rocketmq_secret=SECRET,
)
WITH_BOB = {**SERVER_ACCESS, "access": {**SERVER_ACCESS["access"], "bob": BOB}}
TAKEN = {"the topic": {"groups": ["billing"]}, "the group": {"consume": ["orders"]}, "both": {}}


@pytest.mark.parametrize("taken", TAKEN)
def test_a_member_whose_user_loses_a_right_leaves_its_group_at_once_and_the_others_get_its_queues(
    simulate: Simulate, taken: str
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options["key"] = CLIENT_KEY
        await cluster.create_topic("orders", queues=4)
        own_rows = await cluster.start_consumer("billing", "orders")
        bobs = await cluster.start_consumer("billing", "orders", key=derived_key("bob"))
        await cluster.wait_converged(1.0)
        assert len(bobs.queues) == 2
        await anyio.sleep(65)  # its heartbeats are fingerprints by now, and take no right
        began = len(cluster.events)
        gate_of(cluster).apply(changed(WITH_BOB["access"], "bob", **TAKEN[taken]))
        await anyio.sleep(2)
        assert len(own_rows.queues) == 4
        producer = await cluster.start_producer()
        for n in range(8):
            await producer.send("orders", b"%d" % n)
        await anyio.sleep(120)  # and it does not come back
        assert sorted(own_rows.bodies) == [b"%d" % n for n in range(8)]
        leaves = [event for event in cluster.events[began:] if event.kind == EventKind.MEMBER_LEAVE]
        assert [(event.client, event.detail) for event in leaves] == [(bobs.consumer.client_id, "right")]
        leases = cluster.brokers["broker-a"].running.broker.leases.table
        assert leases.held_by("billing", bobs.consumer.client_id) == []
        gate_of(cluster).apply(WITH_BOB["access"])
        await anyio.sleep(60)
        assert len(bobs.queues) == 2

    simulate(scenario, brokers=1, **WITH_BOB)


def test_a_pull_and_a_pop_that_are_held_are_refused_when_their_user_loses_the_right(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        broker = await with_topics(cluster, "orders")
        async with RemotingClient(key=derived_key("bob")) as bob:
            connection = await bob.connect(broker)
            held = {"group": "billing", "topic": "orders", "max_n": 1, "suspend_ms": 60_000}
            pull = {**held, "queue_id": 0, "offset": 0}
            pop = {**held, "queue_id": -1, "client_id": "b1", "invisible_ms": 60_000}
            answers: list[int] = []

            async def ask(code: RequestCode, header: dict[str, object]) -> None:
                answers.append((await connection.request(code, header)).code)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, RequestCode.PULL_MESSAGE, pull)
                tasks.start_soon(ask, RequestCode.POP_MESSAGE, pop)
                await anyio.sleep(1)
                gate_of(cluster).apply(changed(WITH_BOB["access"], "bob", groups=["billing"]))
                await anyio.sleep(1)
                assert answers == [16, 16]

    simulate(scenario, brokers=1, **WITH_BOB)


def test_a_member_that_was_stored_leaves_if_its_user_lost_the_right_while_the_broker_was_down(
    simulate: Simulate,
) -> None:
    access = dict(WITH_BOB["access"])

    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options["key"] = CLIENT_KEY
        await cluster.create_topic("orders", queues=4)
        own_rows = await cluster.start_consumer("billing", "orders")
        await cluster.start_consumer("billing", "orders", key=derived_key("bob"))
        await cluster.wait_converged(1.0)
        assert len(own_rows.queues) == 2
        broker = cluster.brokers["broker-a"]
        await broker.stop()
        access.update(changed(access, "bob", consume=["orders"]))
        await broker.start()
        await anyio.sleep(5)
        assert len(own_rows.queues) == 4

    simulate(scenario, brokers=1, **{**WITH_BOB, "access": access})


def test_a_producer_that_may_not_end_transactions_of_its_group_any_more_is_asked_about_none(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        broker = await with_topics(cluster, "orders")
        beat = HeartbeatData(client_id="b1", consumers=(), producer_groups=("billing",), checkers=("billing",))
        async with RemotingClient(key=derived_key("bob")) as bob:
            await bob.request(broker, RequestCode.HEART_BEAT, {"fingerprint": 1}, msgpack.packb(beat.to_wire()))
            groups = cluster.brokers["broker-a"].running.broker.groups
            assert list(groups.checkers) == ["billing"]
            gate_of(cluster).apply(changed(WITH_BOB["access"], "bob", produce=["orders"]))
            assert list(groups.checkers) == []
            answer = await bob.request(broker, RequestCode.HEART_BEAT, {"fingerprint": 1})
            assert answer.header["unknown"] is True

    simulate(scenario, brokers=1, **WITH_BOB)


def test_a_client_id_is_its_users_as_long_as_the_member_lives_also_behind_a_restart(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        broker = await with_topics(cluster, "orders", "bobs")
        own_rows = await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(1.0)
        its_id = own_rows.consumer.client_id
        pull = {"group": "billing", "topic": "orders", "queue_id": 0, "offset": 0, "max_n": 1, "suspend_ms": 0}
        pull["client_id"] = its_id

        async def take_the_id() -> None:
            async with RemotingClient(key=derived_key("bob")) as bob:
                with pytest.raises(ClientIdConflict, match="belongs to another user"):
                    await bob.request(broker, RequestCode.PULL_MESSAGE, pull)

        await anyio.sleep(1000)  # all that the owner sends has been allowed before, or is a fingerprint
        await take_the_id()
        await cluster.brokers["broker-a"].stop()
        await cluster.brokers["broker-a"].start()
        await take_the_id()
        producer = await cluster.start_producer()
        await producer.send("orders", b"to its owner")
        await anyio.sleep(60)
        assert own_rows.bodies == [b"to its owner"]
        await own_rows.crash()
        await anyio.sleep(CLAIM_KEPT_S - 100)
        await take_the_id()
        await anyio.sleep(100)
        async with RemotingClient(key=derived_key("bob")) as bob:
            await bob.request(broker, RequestCode.PULL_MESSAGE, pull)

    simulate(scenario, brokers=1, **WITH_BOB)


def test_no_user_makes_the_batches_of_anothers_query_vanish_also_behind_a_restart(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        broker = await with_topics(cluster, "orders")
        batch = {"query_id": "q", "batch_id": 7}
        chunk = {**batch, "partition": 0, "attempt": 1, "seq": 0}
        row = ["orders", 0, 0, encode_payload(Message("orders", b"of batch 7"), 1, "id")]
        async with RemotingClient(key=CLIENT_KEY) as etl, RemotingClient(key=derived_key("bob")) as bob:
            await etl.request(broker, RequestCode.SINK_STAGE, chunk, msgpack.packb([row]))
            await cluster.brokers["broker-a"].stop()
            await cluster.brokers["broker-a"].start()
            for code, header in (
                (RequestCode.SINK_ABORT, batch),
                (RequestCode.SINK_COMMIT, {**batch, "batch_id": 10**9}),
                (RequestCode.SINK_SPREAD, {**batch, "topic": "orders"}),
                (RequestCode.SINK_STAGE, {**chunk, "attempt": 2}),
            ):
                body = [row] if code is RequestCode.SINK_STAGE else ["broker-a"] * (code is RequestCode.SINK_SPREAD)
                with pytest.raises(ClientIdConflict, match="'query q' belongs to another user"):
                    await bob.request(broker, code, header, msgpack.packb(body))
            answer = await etl.request(broker, RequestCode.SINK_COMMIT, batch, msgpack.packb([[0, 1, 1]]))
            assert answer.header["published"] is True

    simulate(scenario, brokers=1, **WITH_BOB)


def test_a_member_and_a_query_of_an_earlier_version_belong_to_the_user_who_names_them_next(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        broker = await with_topics(cluster, "orders")
        own_rows = await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(1.0)
        batch = {"query_id": "q", "batch_id": 1}
        async with RemotingClient(key=CLIENT_KEY) as etl:
            await etl.request(broker, RequestCode.SINK_COMMIT, batch, msgpack.packb([]))
        await cluster.brokers["broker-a"].stop()
        with closing(sqlite3.connect(cluster.data_dir / "broker-a" / METADATA_NAME)) as db:
            db.executescript("drop table owners; drop table sink_owners")  # such a version has neither
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(5)
        features = cluster.brokers["broker-a"].running.broker.features
        assert features.user_of_id(own_rows.consumer.client_id) == "user client"  # it has come back
        assert features.user_of_id("query q") is None
        async with RemotingClient(key=CLIENT_KEY) as etl, RemotingClient(key=derived_key("bob")) as bob:
            await etl.request(broker, RequestCode.SINK_COMMIT, {**batch, "batch_id": 2}, msgpack.packb([]))
            with pytest.raises(ClientIdConflict):
                await bob.request(broker, RequestCode.SINK_COMMIT, {**batch, "batch_id": 3}, msgpack.packb([]))

    simulate(scenario, brokers=1, **WITH_BOB)
