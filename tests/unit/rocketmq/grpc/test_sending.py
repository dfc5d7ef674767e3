"""Sends over gRPC: what is stored, how it is answered, what is refused."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import pytest

from model.limits import MAX_BODY_BYTES
from model.message import MAX_DELAY_MS
from model.recall import RecallHandle
from model.topic_route import MessageType
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES, to_duration, to_timestamp
from tests.unit.broker.harness import Peer, World, simulated
from tests.unit.rocketmq.grpc.grpc_client import GrpcClient, message_of, send_of
from tests.unit.rocketmq.test_sending import read


async def begin(world: World, *, queues: int = 2) -> tuple[GrpcClient, Peer]:
    await world.start_broker()
    peer = world.peer("a")
    await peer.put_topic("t", read=queues, write=queues)
    return await GrpcClient.connect(world), peer


@simulated
async def test_a_message_is_an_ordinary_message_for_our_consumers(world: World) -> None:
    client, peer = await begin(world, queues=1)
    more = {"tag": "red", "keys": ["k1", "k2"], "born_timestamp": to_timestamp(1_000), "trace_context": "trace"}
    message = message_of(b"hello", properties={"mine": "ü"}, message_id="01ID", **more)
    answer = await client.one("SendMessage", send_of(message))
    assert answer.status.code == proto.OK
    [entry] = answer.entries
    assert (entry.status.code, entry.message_id, entry.offset, entry.transaction_id) == (proto.OK, "01ID", 0, "")
    [stored] = await read(peer)
    assert (stored.body, stored.tags, list(stored.keys)) == (b"hello", "red", ["k1", "k2"])
    assert (stored.message_id, stored.born_ms) == ("01ID", 1_000)
    assert stored.properties == {"mine": "ü", "TRACE_CONTEXT": "trace"}


@simulated
async def test_messages_take_the_queues_in_turns_whatever_queue_the_client_names(world: World) -> None:
    client, peer = await begin(world)
    for _ in range(4):
        await client.send(queue_id=0)
    assert [len(await read(peer, queue_id=queue)) for queue in (0, 1)] == [2, 2]


@simulated
async def test_messages_of_a_group_are_in_one_queue_in_their_order(world: World) -> None:
    client, peer = await begin(world, queues=4)
    for n in range(8):
        await client.send(b"%d" % n, message_type=proto.FIFO, message_group=f"group-{n % 2}")
    queues = [await read(peer, queue_id=queue) for queue in range(4)]
    by_group: dict[str, list[bytes]] = {}
    for stored in queues:
        for message in stored:
            by_group.setdefault(message.properties["__SHARDINGKEY"], []).append(message.body)
    assert by_group == {"group-0": [b"0", b"2", b"4", b"6"], "group-1": [b"1", b"3", b"5", b"7"]}
    assert sum(bool(stored) for stored in queues) <= 2


@simulated
async def test_a_delayed_message_comes_at_its_time_and_one_of_the_past_at_once(world: World) -> None:
    client, peer = await begin(world, queues=1)
    now_ms = world.simulation.clock_ms()
    later = await client.send(b"later", message_type=proto.DELAY, delivery_timestamp=to_timestamp(int(now_ms) + 5_000))
    assert later.entries[0].offset == -1
    await client.send(b"past", message_type=proto.DELAY, delivery_timestamp=to_timestamp(1))
    assert [each.body for each in await read(peer)] == [b"past"]
    await world.sleep(5.1)
    assert [each.body for each in await read(peer)] == [b"past", b"later"]


@simulated
async def test_a_delayed_message_is_recalled_by_its_handle_and_only_once_it_waits(world: World) -> None:
    client, peer = await begin(world, queues=1)
    due = to_timestamp(int(world.simulation.clock_ms()) + 5_000)
    [recalled] = (await client.send(message_id="01A", message_type=proto.DELAY, delivery_timestamp=due)).entries
    [late] = (await client.send(message_id="01B", message_type=proto.DELAY, delivery_timestamp=due)).entries
    [plain] = (await client.send(message_id="01C")).entries
    assert plain.recall_handle == ""

    async def recall(handle: str, topic: str = "t") -> Any:
        named = {"topic": MESSAGES["Resource"](name=topic), "recall_handle": handle}
        return await client.one("RecallMessage", MESSAGES["RecallMessageRequest"](**named))

    for _ in range(2):
        answer = await recall(recalled.recall_handle)
        assert (answer.status.code, answer.message_id) == (proto.OK, "01A")
    await world.sleep(6)
    assert [each.message_id for each in await read(peer)] == ["01C", "01B"]
    refusals = [
        (late.recall_handle, "t", proto.MESSAGE_NOT_FOUND),
        (late.recall_handle, "nowhere", proto.TOPIC_NOT_FOUND),
        ("x", "t", proto.BAD_REQUEST),
        (recalled.recall_handle, "", proto.ILLEGAL_TOPIC),
    ]
    for handle, topic, code in refusals:
        assert (await recall(handle, topic)).status.code == code, (handle, topic)


@simulated
async def test_a_time_of_creation_that_no_clock_has_is_stored_as_one_that_can_be_read(world: World) -> None:
    client, peer = await begin(world, queues=1)
    born = MESSAGES["Timestamp"](seconds=2**63 - 1)
    assert (await client.send(born_timestamp=born)).status.code == proto.OK
    [message] = await read(peer)
    assert message.born_ms == 2**53


@simulated
async def test_a_recall_reaches_the_broker_of_its_handle_through_a_name_server(world: World) -> None:
    name_server = await world.start_name_server()
    await world.start_broker(name_servers=(name_server,))
    peer = world.peer("a")
    await peer.put_topic("t", read=1)
    at_broker, at_name_server = await GrpcClient.connect(world), await GrpcClient.connect(world, address=name_server)
    due = to_timestamp(int(world.simulation.clock_ms()) + 5_000)
    [entry] = (await at_broker.send(message_id="01A", message_type=proto.DELAY, delivery_timestamp=due)).entries

    async def recall(handle: str, topic: str = "t", client: GrpcClient = at_name_server) -> Any:
        named = {"topic": MESSAGES["Resource"](name=topic), "recall_handle": handle}
        return await client.one("RecallMessage", MESSAGES["RecallMessageRequest"](**named))

    for _ in range(2):
        answer = await recall(entry.recall_handle)
        assert (answer.status.code, answer.message_id) == (proto.OK, "01A")
    await world.sleep(6)
    assert await read(peer) == []
    unknown = RecallHandle("t", "broker-a", 5, "01B", 7).text()
    elsewhere = RecallHandle("t", "broker-z", 5, "01A", 0).text()
    refusals = [
        (unknown, at_name_server, proto.MESSAGE_NOT_FOUND, "has no delayed message '01B'"),
        ("x", at_name_server, proto.BAD_REQUEST, "not a recall handle"),
        (
            elsewhere,
            at_name_server,
            proto.INTERNAL_SERVER_ERROR,
            "'broker-z', which has the message, is not registered",
        ),
        (elsewhere, at_broker, proto.INTERNAL_SERVER_ERROR, "'broker-z', which has the message, is not registered"),
    ]
    for handle, client, code, text in refusals:
        answer = await recall(handle, client=client)
        assert answer.status.code == code
        assert text in answer.status.message


@simulated
async def test_a_broker_without_a_name_server_refuses_a_recall_of_another_broker(world: World) -> None:
    client, _ = await begin(world)
    named = {"topic": MESSAGES["Resource"](name="t"), "recall_handle": RecallHandle("t", "z", 5, "01A", 0).text()}
    answer = await client.one("RecallMessage", MESSAGES["RecallMessageRequest"](**named))
    assert answer.status.code == proto.INTERNAL_SERVER_ERROR
    assert answer.status.message == "broker-a has no name server to ask for the broker of a message"


@pytest.mark.parametrize("message_type", [each for each in MessageType if each is not MessageType.MIXED])
@simulated
async def test_a_topic_of_a_type_takes_its_messages_and_refuses_others_by_a_result_of_its_own(
    world: World, message_type: MessageType
) -> None:
    client, peer = await begin(world, queues=1)
    await peer.put_topic("t", read=1, message_type=message_type)
    sent: dict[MessageType, dict[str, Any]] = {
        MessageType.NORMAL: {},
        MessageType.FIFO: {"message_type": proto.FIFO, "message_group": "g"},
        MessageType.DELAY: {"message_type": proto.DELAY, "delivery_timestamp": to_timestamp(1)},  # of the past
        MessageType.TRANSACTION: {"message_type": proto.TRANSACTION},
    }
    for kind, fields in sent.items():
        status = (await client.send(kind.name.encode(), **fields)).status
        if kind is message_type:
            assert status.code == proto.OK, status.message
        else:
            assert status.code == proto.CONFLICT_WITH_TYPE
            assert f"topic 't' takes {message_type.name} messages only" in status.message
    await world.sleep(1)
    is_half = message_type is MessageType.TRANSACTION  # which only its commit publishes
    assert [each.body for each in await read(peer)] == ([] if is_half else [message_type.name.encode()])


@simulated
async def test_several_messages_are_stored_together_and_answered_one_by_one(world: World) -> None:
    client, peer = await begin(world, queues=1)
    sent = [message_of(b"%d" % n, message_id=f"0{n}") for n in range(3)]
    answer = await client.one("SendMessage", send_of(*sent))
    assert [(entry.message_id, entry.offset) for entry in answer.entries] == [("00", 0), ("01", 1), ("02", 2)]
    assert [each.body for each in await read(peer)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
@simulated
async def test_a_compressed_body_is_stored_as_it_was_before(world: World, pack: Any) -> None:
    client, peer = await begin(world, queues=1)
    await client.send(pack(b"x" * 9_000), body_encoding=proto.GZIP)
    [stored] = await read(peer)
    assert stored.body == b"x" * 9_000


@simulated
async def test_the_longest_body_fits_and_one_byte_more_is_refused(world: World) -> None:
    client, _ = await begin(world, queues=1)
    assert (await client.send(b"x" * MAX_BODY_BYTES)).status.code == proto.OK
    assert (await client.send(b"x" * (MAX_BODY_BYTES + 1))).status.code == proto.BODY_TOO_LARGE
    bomb = zlib.compress(b"x" * (MAX_BODY_BYTES + 1))
    assert (await client.send(bomb, body_encoding=proto.GZIP)).status.code == proto.BODY_TOO_LARGE


REFUSED: list[tuple[int, str, dict[str, Any]]] = [
    (proto.ILLEGAL_MESSAGE_ID, "the message has no id", {"message_id": " "}),
    (proto.CONFLICT_WITH_TYPE, "a FIFO message has a message group", {"message_group": "g"}),
    (proto.CONFLICT_WITH_TYPE, "a FIFO message has a message group", {"message_type": proto.FIFO}),
    (proto.CONFLICT_WITH_TYPE, "a FIFO message has a message group", {"message_type": proto.DELAY}),
    (proto.CONFLICT_WITH_TYPE, "the type 6 of a message is not known", {"message_type": 6}),
    (proto.CONFLICT_WITH_TYPE, "other messages neither", {"message_type": proto.TRANSACTION, "message_group": "g"}),
    (
        *(proto.BAD_REQUEST, "a transaction is checked within"),
        {"message_type": proto.TRANSACTION, "orphaned_transaction_recovery_duration": to_duration(10**10)},
    ),
    (proto.BODY_EMPTY, "the body is empty", {"body": b""}),
    (proto.ILLEGAL_PROPERTY_KEY, "'UNIQ_KEY'", {"properties": {"UNIQ_KEY": "x"}}),
    (proto.ILLEGAL_PROPERTY_KEY, "must not have the name", {"properties": {"a\nb": "x"}}),
    (proto.ILLEGAL_TOPIC, "the name of the topic is missing", {"topic": ""}),
    (proto.TOPIC_NOT_FOUND, "nowhere", {"topic": "nowhere"}),
    (proto.MESSAGE_CORRUPTED, "damaged", {"body": b"no zlib at all", "body_encoding": proto.GZIP}),
    (proto.MESSAGE_CORRUPTED, "one tag", {"tag": "a||b"}),
    (
        proto.ILLEGAL_DELIVERY_TIME,
        "within 40 days",
        {"message_type": proto.DELAY, "delivery_timestamp": to_timestamp(10**12 * 2 + MAX_DELAY_MS)},
    ),
]


@simulated
async def test_a_message_that_is_refused_is_named_with_the_reason_and_not_stored(world: World) -> None:
    await world.start_broker(auto_create_topics=False)
    peer = world.peer("a")
    await peer.put_topic("t", read=1, write=1)
    client = await GrpcClient.connect(world)
    for code, text, wrong in REFUSED:
        answer = await client.one("SendMessage", send_of(message_of(**{"body": b"m", **wrong})))
        assert (answer.status.code, text in answer.status.message) == (code, True), (wrong, answer.status)
    assert not await read(peer)


@simulated
async def test_sends_of_several_messages_have_one_topic_and_no_delay(world: World) -> None:
    client, peer = await begin(world)
    delayed = message_of(message_type=proto.DELAY, delivery_timestamp=to_timestamp(10**13))
    for sent in (send_of(), send_of(message_of(), message_of(topic="u")), send_of(message_of(), delayed)):
        answer = await client.one("SendMessage", sent)
        assert answer.status.code in (proto.BAD_REQUEST, proto.ILLEGAL_DELIVERY_TIME)
    near = message_of(
        message_type=proto.DELAY, delivery_timestamp=to_timestamp(int(world.simulation.clock_ms()) + 1_000)
    )
    answer = await client.one("SendMessage", send_of(message_of(), near))
    assert (answer.status.code, answer.status.message) == (
        proto.BAD_REQUEST,
        "a delayed message is sent by itself, not with others",
    )
    assert MESSAGES["SendMessageResponse"]() != answer
    assert not await read(peer)
