"""Receives over gRPC: what messages look like, how long a receive waits, when messages come again."""

from __future__ import annotations

import hashlib

import pytest

from model.limits import MAX_INVISIBLE_MS
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES, duration_ms, to_duration, to_timestamp
from tests.unit.broker.harness import World, simulated
from tests.unit.rocketmq.grpc.grpc_client import (
    GROUP,
    GrpcClient,
    ack_of,
    bodies,
    message_of,
    messages_in,
    read,
    receive_of,
    received,
    send_of,
    with_messages,
)


@simulated
async def test_a_message_has_what_stock_clients_read_of_it(world: World) -> None:
    client = await with_messages(world, 0)
    sent = message_of(
        b"hello",
        properties={"mine": "ü"},
        tag="red",
        keys=["k1", "k2"],
        message_type=proto.FIFO,
        message_group="group",
        born_timestamp=to_timestamp(5_000),
    )
    await client.one("SendMessage", send_of(sent))
    [message] = await received(client)
    assert (message.topic.name, message.body, dict(message.user_properties)) == ("t", b"hello", {"mine": "ü"})
    system = message.system_properties
    assert (system.message_id, system.tag, list(system.keys)) == ("01AA", "red", ["k1", "k2"])
    assert (system.message_type, system.message_group) == (proto.FIFO, "group")
    assert (system.body_digest.type, system.body_digest.checksum) == (
        proto.MD5,
        hashlib.md5(b"hello", usedforsecurity=False).hexdigest().upper(),
    )
    assert (system.body_encoding, system.delivery_attempt) == (proto.IDENTITY, 1)
    assert duration_ms(system.born_timestamp) == 5_000
    assert duration_ms(system.invisible_duration) == 60_000
    assert system.store_host == "10.0.0.1:10911"
    assert system.receipt_handle


@simulated
async def test_all_queues_are_read_whatever_queue_the_client_names(world: World) -> None:
    client = await with_messages(world, 4)
    assert bodies(await received(client)) == [b"0", b"1", b"2", b"3"]


@simulated
async def test_a_receive_waits_until_a_message_comes(world: World) -> None:
    client = await with_messages(world, 0)
    _, waiting = client.begin("ReceiveMessage", receive_of(poll_ms=20_000))
    await world.sleep(7)
    assert not waiting.messages
    await client.send(b"late")
    await waiting.ended
    assert bodies(messages_in(read(waiting))) == [b"late"]


@simulated
async def test_an_empty_receive_ends_before_its_deadline(world: World) -> None:
    client = await with_messages(world, 0)
    for poll_ms, timeout, lasts_s in ((2_000, "5S", 2.0), (20_000, "5S", 4.8), (0, "5S", 0.0)):
        began = world.now
        [answer] = await client.call("ReceiveMessage", receive_of(poll_ms=poll_ms), grpc_timeout=timeout)
        assert answer.status.code == proto.MESSAGE_NOT_FOUND
        assert world.now - began == pytest.approx(lasts_s, abs=0.05)


@simulated
async def test_messages_are_filtered_by_tags_and_by_sql(world: World) -> None:
    client = await with_messages(world, 4, tags="abca")
    assert bodies(await received(client, tags="a || b")) == [b"0", b"1", b"3"]
    await client.one("SendMessage", send_of(message_of(b"five", properties={"n": "5"})))
    await client.one("SendMessage", send_of(message_of(b"six", properties={"n": "6"})))
    assert bodies(await received(client, tags="n > 5", kind=proto.SQL)) == [b"six"]
    [refused] = await client.call("ReceiveMessage", receive_of(tags="n >", kind=proto.SQL))
    assert refused.status.code == proto.ILLEGAL_FILTER


@simulated
async def test_a_message_whose_tag_has_only_the_same_hash_is_acknowledged_and_not_delivered(world: World) -> None:
    client = await with_messages(world, 0)
    for tag in ("Aa", "BB"):  # equal by Java's String.hashCode
        await client.send(tag.encode(), tag=tag)
    assert bodies(await received(client, tags="Aa", invisible_duration=to_duration(1_000))) == [b"Aa"]
    await world.sleep(2)
    assert bodies(await received(client, tags="Aa")) == [b"Aa"]


@simulated
async def test_a_message_that_is_not_acknowledged_comes_again_with_one_more_attempt(world: World) -> None:
    client = await with_messages(world, 1)
    await received(client, invisible_duration=to_duration(10_000))
    began = world.now
    [again] = await received(client, poll_ms=20_000)
    assert world.now - began == pytest.approx(10, abs=0.1)
    assert (again.system_properties.delivery_attempt, again.topic.name) == (2, "t")


@simulated
async def test_messages_of_a_push_consumer_stay_invisible_while_it_is_connected(world: World) -> None:
    push = await with_messages(world, 1)
    assert await received(push, auto_renew=True)
    await world.sleep(100)
    other = await GrpcClient.connect(world, "other")
    assert not await received(other, "other@1", poll_ms=0)
    push.close()
    began = world.now
    assert bodies(await received(other, "other@1", poll_ms=20_000)) == [b"0"]
    assert world.now - began <= 10.1


@simulated
async def test_a_receive_that_its_client_resets_keeps_no_message(world: World) -> None:
    client, other = await with_messages(world, 0), await GrpcClient.connect(world, "other")
    number, _ = client.begin("ReceiveMessage", receive_of(poll_ms=20_000))
    await world.sleep(1)
    client.cancel(number)
    await world.sleep(1)
    await client.send(b"m")
    began = world.now
    [message] = await received(other, "other@1", poll_ms=5_000)
    assert (message.body, message.system_properties.delivery_attempt) == (b"m", 1)
    assert world.now - began <= 0.1


@simulated
async def test_messages_that_are_on_their_way_to_a_call_that_is_reset_are_given_back_uncounted(world: World) -> None:
    client, other = await with_messages(world, 2), await GrpcClient.connect(world, "other")
    number, _ = client.begin("ReceiveMessage", receive_of(poll_ms=20_000))
    client.cancel(number)
    await world.sleep(0.1)
    found = await received(other, "other@1", poll_ms=5_000)
    assert bodies(found) == [b"0", b"1"]
    assert {each.system_properties.delivery_attempt for each in found} == {1}


@simulated
async def test_an_answer_whose_call_is_reset_before_it_arrives_is_given_back_uncounted(world: World) -> None:
    client, other = await with_messages(world, 0), await GrpcClient.connect(world, "other")
    number, _ = client.begin("ReceiveMessage", receive_of(poll_ms=20_000, auto_renew=True))
    await world.sleep(1)
    with world.simulation.network.partition("10.0.0.1", "stock", one_way=True):
        await other.send(b"m")
        await world.sleep(0.1)
        client.cancel(number)
        began = world.now
        [message] = await received(other, "other@1", poll_ms=5_000)
    assert (message.body, message.system_properties.delivery_attempt) == (b"m", 1)
    assert world.now - began <= 0.1


@simulated
async def test_messages_of_an_answer_that_was_lost_come_again_although_their_push_consumer_lives(world: World) -> None:
    client, other = await with_messages(world, 0), await GrpcClient.connect(world, "other")
    client.begin("ReceiveMessage", receive_of(poll_ms=20_000, auto_renew=True))
    await world.sleep(1)
    with world.simulation.network.partition("10.0.0.1", "stock", one_way=True):
        await other.send(b"m")
        await world.sleep(0.1)
        world.simulation.network.cut("stock")
    again = await GrpcClient.connect(world)
    assert not await received(again, poll_ms=0, auto_renew=True)
    began = world.now
    [message] = await received(other, "other@1", poll_ms=20_000)
    assert (message.body, message.system_properties.delivery_attempt) == (b"m", 2)
    assert world.now - began <= 10.1


@simulated
async def test_two_members_share_the_messages_of_one_topic(world: World) -> None:
    client = await with_messages(world, 4)
    first = await received(client, "one@1", n=1)
    second = await received(client, "two@1")
    assert bodies(first + second) == [b"0", b"1", b"2", b"3"]
    assert len(first) == 1


@simulated
async def test_a_handle_is_good_after_a_restart_of_the_broker(world: World) -> None:
    client = await with_messages(world, 1)
    [message] = await received(client)
    await world.stop_broker()
    await world.start_broker()
    again = await GrpcClient.connect(world)
    found = await again.one("AckMessage", ack_of(message))
    assert found.status.code == proto.OK
    assert not await received(again, poll_ms=0)


@simulated
async def test_a_receive_out_of_bounds_is_refused_by_name(world: World) -> None:
    client = await with_messages(world, 0)
    for more in ({"invisible_duration": to_duration(99)}, {"invisible_duration": to_duration(MAX_INVISIBLE_MS + 1)}):
        [answer] = await client.call("ReceiveMessage", receive_of(**more))
        assert answer.status.code == proto.ILLEGAL_INVISIBLE_TIME
    [answer] = await client.call("ReceiveMessage", receive_of(topic="nowhere"))
    assert answer.status.code == proto.TOPIC_NOT_FOUND
    request = receive_of()
    request.group.name = ""
    [answer] = await client.call("ReceiveMessage", request)
    assert (answer.status.code, answer.status.message) == (
        proto.ILLEGAL_GROUP,
        "the name of the consumer group is missing",
    )


@simulated
async def test_a_member_is_assigned_every_broker_that_can_be_read(world: World) -> None:
    client = await with_messages(world, 0)
    request = MESSAGES["QueryAssignmentRequest"](topic=MESSAGES["Resource"](name="t"), group=GROUP)
    found = await client.one("QueryAssignment", request)
    [queue] = [each.message_queue for each in found.assignments]
    [address] = queue.broker.endpoints.addresses
    assert (queue.broker.name, queue.id, queue.topic.name) == ("broker-a", -1, "t")
    assert (address.host, address.port) == ("10.0.0.1", 10911)
