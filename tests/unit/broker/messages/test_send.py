"""Sending: where a message may go, what is refused, and that an answer means that it is written."""

from __future__ import annotations

import errno

import msgpack
import pytest

from model.errors import (
    InvalidParameter,
    MessageIllegal,
    NoPermission,
    RlabError,
    ServiceNotAvailable,
    StorageFull,
    TopicNotExist,
)
from model.limits import DEFAULT_TOPIC_QUEUES, MAX_BATCH_MESSAGES, MAX_PAYLOAD_BYTES
from model.message import MESSAGE_GROUP, Message, encode_payload, tag_hash
from model.response_code import ResponseCode
from model.topic_route import MessageType
from remoting.request_code import RequestCode
from tests.unit.broker.harness import FailingDisk, Peer, World, payload_of, records, simulated

BATCH = {"topic": "t", "queue_id": 0}


async def send_batch(peer: Peer, *bodies: bytes, tag: str = "") -> int:
    batch = [[tag_hash(tag), payload_of(body)] for body in bodies]
    answer = await peer.call(RequestCode.SEND_BATCH_MESSAGE, BATCH, batch)
    return int(answer.header["offset"])


# --- one message -----------------------------------------------------------------------------------------------------
@simulated
async def test_a_message_gets_the_next_offset_of_its_queue_and_can_be_pulled(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    assert [await a.send(queue_id=queue_id, body=b"%d" % queue_id) for queue_id in (0, 1, 0)] == [0, 0, 1]
    answer = await a.pull()
    assert [record.payload for record in records(answer)] == [payload_of(b"0"), payload_of(b"0")]
    assert [record.stored_ms for record in records(answer)] == sorted(record.stored_ms for record in records(answer))


@simulated
async def test_pipelined_sends_are_stored_in_their_order(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    header = {"topic": "t", "queue_id": 0, "tag_hash": 0}
    answers = [await a.begin(RequestCode.SEND_MESSAGE, header, payload_of(b"%d" % n)) for n in range(100)]
    assert [(await answer).header["offset"] for answer in answers] == list(range(100))
    assert [record.payload for record in records(await a.pull())] == [payload_of(b"%d" % n) for n in range(32)]


@simulated
async def test_the_first_send_makes_a_topic_from_the_template(world: World) -> None:
    broker = await world.start_broker()
    a = world.peer("a")
    assert await a.send("new", queue_id=DEFAULT_TOPIC_QUEUES - 1) == 0
    assert broker.topics.table.existing("new").config.write_queue_nums == DEFAULT_TOPIC_QUEUES
    with pytest.raises(InvalidParameter, match=f"no queue {DEFAULT_TOPIC_QUEUES}"):
        await a.send("new", queue_id=DEFAULT_TOPIC_QUEUES)


@simulated
async def test_without_automatic_creation_an_unknown_topic_is_refused(world: World) -> None:
    broker = await world.start_broker(auto_create_topics=False)
    a = world.peer("a")
    with pytest.raises(TopicNotExist, match="rlab topic create"):
        await a.send("new")
    with pytest.raises(TopicNotExist, match="rlab topic create"):
        await send_batch(a, b"x")
    assert broker.topics.table.get("new") is None


@simulated
async def test_a_send_to_a_queue_that_is_only_read_is_taken_while_the_topic_shrinks(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic(read=4, write=2)
    assert await a.send(queue_id=3) == 0
    with pytest.raises(InvalidParameter, match="no queue 4"):
        await a.send(queue_id=4)


@simulated
async def test_a_topic_that_is_not_writable_takes_nothing(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic(perm=4)
    with pytest.raises(NoPermission, match="not writable"):
        await a.send()


@simulated
async def test_a_message_of_the_greatest_size_is_taken_and_one_byte_more_is_refused(world: World) -> None:
    broker = await world.start_broker()
    a = world.peer("a")
    header = {"topic": "t", "queue_id": 0, "tag_hash": 0}
    with pytest.raises(MessageIllegal, match=f"more than {MAX_PAYLOAD_BYTES}"):
        await a.call(RequestCode.SEND_MESSAGE, header, bytes(MAX_PAYLOAD_BYTES + 1))
    assert broker.topics.table.get("t") is None  # what cannot be stored makes no topic either
    answer = await a.call(RequestCode.SEND_MESSAGE, header, bytes(MAX_PAYLOAD_BYTES))
    assert answer.header["offset"] == 0
    assert len(records(await a.pull())) == 1


@simulated
async def test_a_send_without_a_payload_is_refused(world: World) -> None:
    await world.start_broker()
    with pytest.raises(InvalidParameter, match="got nothing"):
        await world.peer("a").call(RequestCode.SEND_MESSAGE, {"topic": "t", "queue_id": 0, "tag_hash": 0})


# --- batches ---------------------------------------------------------------------------------------------------------
@simulated
async def test_a_batch_gets_consecutive_offsets_and_each_message_its_own_tag(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.send()
    assert await send_batch(a, b"x", b"y", tag="red") == 1
    assert await send_batch(a, b"z") == 3
    red = records(await a.pull(tag_hashes=[tag_hash("red")]))
    assert [(record.queue_offset, record.payload) for record in red] == [(1, payload_of(b"x")), (2, payload_of(b"y"))]


@simulated
async def test_the_greatest_batch_is_taken_and_an_empty_or_greater_one_is_refused(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    batch = [[0, b"x"]] * MAX_BATCH_MESSAGES
    assert (await a.call(RequestCode.SEND_BATCH_MESSAGE, BATCH, batch)).header["offset"] == 0
    for size, wrong in ((0, []), (MAX_BATCH_MESSAGES + 1, [*batch, [0, b"x"]])):
        with pytest.raises(MessageIllegal, match=f"got {size}"):
            await a.call(RequestCode.SEND_BATCH_MESSAGE, BATCH, wrong)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgpack.packb(5),
        msgpack.packb([5]),
        msgpack.packb([[0]]),
        msgpack.packb([[0, "text"]]),
        msgpack.packb([[0, b"x"], [2**31, b"x"]]),
        msgpack.packb([[0, b"x"], [True, b"x"]]),
        msgpack.packb([[0, b"x", 1]]),
        msgpack.packb({"ab": 1}),
    ],
)
@simulated
async def test_a_malformed_batch_is_refused_and_nothing_of_it_is_stored(world: World, body: bytes) -> None:
    broker = await world.start_broker()
    with pytest.raises(InvalidParameter, match="batch"):
        await world.peer("a").call(RequestCode.SEND_BATCH_MESSAGE, BATCH, body)
    assert broker.topics.table.get("t") is None


@simulated
async def test_one_message_that_is_too_long_refuses_its_batch(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    with pytest.raises(MessageIllegal, match="split it"):
        await a.call(RequestCode.SEND_BATCH_MESSAGE, BATCH, [[0, b"x"], [0, bytes(MAX_PAYLOAD_BYTES + 1)]])
    assert await a.send() == 0


# --- messages of several queues --------------------------------------------------------------------------------------
async def send_messages(peer: Peer, *rows: tuple[int, bytes]) -> list[int]:
    """Send (queue id, body) pairs in one request; returns the offsets."""
    body = [[queue_id, 0, payload_of(body)] for queue_id, body in rows]
    answer = await peer.call(RequestCode.SEND_MESSAGES, {"topic": "t"}, body)
    assert answer.body is None
    offsets: list[int] = answer.header["offset"]
    return offsets


@simulated
async def test_messages_of_several_queues_get_their_offsets_in_the_order_of_the_request(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await a.send(queue_id=1)
    assert await send_messages(a, (1, b"a"), (0, b"b"), (3, b"c"), (1, b"d")) == [1, 0, 0, 2]
    assert [record.payload for record in records(await a.pull(queue_id=1, offset=1))] == [
        payload_of(b"a"),
        payload_of(b"d"),
    ]
    assert [record.payload for record in records(await a.pull(queue_id=3))] == [payload_of(b"c")]


@simulated
async def test_a_pull_of_each_queue_is_answered_by_a_request_for_several(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    held = [await a.begin_pull(queue_id=queue_id, suspend_ms=10_000) for queue_id in range(4)]
    await send_messages(a, *[(queue_id, b"%d" % queue_id) for queue_id in range(4)])
    assert [records(await pull)[0].payload for pull in held] == [payload_of(b"%d" % n) for n in range(4)]


@simulated
async def test_one_queue_that_is_not_there_refuses_all_messages_of_its_request(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    with pytest.raises(InvalidParameter, match="no queue 4"):
        await send_messages(a, (0, b"a"), (4, b"b"))
    assert await send_messages(a, (0, b"c")) == [0]


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"\xc1", msgpack.packb(5), msgpack.packb([5]), msgpack.packb([[0, 0]]), msgpack.packb({"abc": 1})),
        *[
            msgpack.packb([[0, 0, b"x"], row])
            for row in ([-1, 0, b"x"], [0, 2**31, b"x"], [0, True, b"x"], [0.0, 0, b"x"], [0, 0, "text"], [0, 0, None])
        ],
    ],
)
@simulated
async def test_malformed_messages_are_refused_and_none_of_them_is_stored(world: World, body: bytes) -> None:
    broker = await world.start_broker()
    with pytest.raises(InvalidParameter, match="SEND_MESSAGES"):
        await world.peer("a").call(RequestCode.SEND_MESSAGES, {"topic": "t"}, body)
    assert broker.topics.table.get("t") is None


@simulated
async def test_too_many_messages_or_one_that_is_too_long_refuse_all(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    rows = [[n % 4, 0, b"x"] for n in range(MAX_BATCH_MESSAGES)]
    answer = await a.call(RequestCode.SEND_MESSAGES, {"topic": "t"}, rows)
    assert answer.header["offset"] == [n // 4 for n in range(MAX_BATCH_MESSAGES)]
    for wrong, text in (
        ([], "got 0"),
        ([*rows, rows[0]], "split it"),
        ([[0, 0, bytes(MAX_PAYLOAD_BYTES + 1)]], "split"),
    ):
        with pytest.raises(MessageIllegal, match=text):
            await a.call(RequestCode.SEND_MESSAGES, {"topic": "t"}, wrong)
    assert await a.send() == MAX_BATCH_MESSAGES // 4


@simulated
async def test_messages_that_find_no_room_are_refused_together(world: World) -> None:
    disk, a = await full_broker(world)
    with pytest.raises(StorageFull):
        await send_messages(a, (0, b"a"), (1, b"b"))
    disk.errno = None
    assert await send_messages(a, (0, b"a"), (1, b"b")) == [1, 0]


# --- a disk that fails -----------------------------------------------------------------------------------------------
async def full_broker(world: World) -> tuple[FailingDisk, Peer]:
    """A broker with one message of topic `t`, whose disk is full now, and a peer of it."""
    disk = FailingDisk()
    await world.start_broker(files=disk)
    a = world.peer("a")
    await a.put_topic()
    await a.send()
    disk.errno = errno.ENOSPC
    return disk, a


async def outcome_of_a_send(peer: Peer) -> int | type[RlabError]:
    try:
        return await peer.send()
    except RlabError as error:
        return type(error)


@simulated
async def test_a_full_disk_refuses_sends_while_pulls_and_commits_go_on_and_sends_resume(world: World) -> None:
    disk, a = await full_broker(world)
    refused = await outcome_of_a_send(a)
    assert refused is StorageFull
    assert len(records(await a.pull())) == 1
    assert await a.commit(1) == []
    assert await a.committed() == 1
    disk.errno = None
    assert await a.send() == 1


@simulated
async def test_commits_of_the_very_turn_in_which_a_send_finds_no_room_are_taken(world: World) -> None:
    disk, a = await full_broker(world)
    send = await a.begin(RequestCode.SEND_MESSAGE, {"topic": "t", "queue_id": 0, "tag_hash": 0}, payload_of(b"x"))
    header = {"group": "g", "client_id": a.client_id}
    commit = await a.begin(RequestCode.UPDATE_CONSUMER_OFFSET, header, [["t", 0, 1, -1]])
    assert [(await send).code, (await commit).code] == [ResponseCode.STORAGE_FULL, ResponseCode.SUCCESS]
    disk.errno = None


@simulated
async def test_a_held_pull_is_not_reported_of_a_message_that_was_not_stored(world: World) -> None:
    disk = FailingDisk()
    await world.start_broker(files=disk)
    a = world.peer("a")
    await a.put_topic()
    held = await a.begin_pull(suspend_ms=10_000)
    disk.errno = errno.EIO
    assert await outcome_of_a_send(a) is ServiceNotAvailable
    await world.sleep(1)
    assert not held.done()
    disk.errno = None
    assert await a.send() == 0
    assert len(records(await held)) == 1


# --- message types ---------------------------------------------------------------------------------------------------
GROUPED = encode_payload(Message("t", b"in order", properties={MESSAGE_GROUP: "g"}), 0, "id")
PLAIN = payload_of(b"plain")


async def outcomes(peer: Peer) -> list[bool]:
    """Whether a plain send, one with a message group, and a delayed one is taken; by itself, then with others."""
    one = {"topic": "t", "queue_id": 0, "tag_hash": 0}
    found: list[bool] = []
    for code, header, body in (
        (RequestCode.SEND_MESSAGE, one, PLAIN),
        (RequestCode.SEND_MESSAGE, one, GROUPED),
        (RequestCode.SEND_MESSAGE, {**one, "delay_ms": 0}, GROUPED),
        (RequestCode.SEND_BATCH_MESSAGE, BATCH, [[0, PLAIN], [0, PLAIN]]),
        (RequestCode.SEND_BATCH_MESSAGE, BATCH, [[0, GROUPED], [0, GROUPED]]),
        (RequestCode.SEND_BATCH_MESSAGE, BATCH, [[0, GROUPED], [0, PLAIN]]),
        (RequestCode.SEND_MESSAGES, {"topic": "t"}, [[0, 0, PLAIN], [1, 0, PLAIN]]),
        (RequestCode.SEND_MESSAGES, {"topic": "t"}, [[0, 0, GROUPED], [1, 0, GROUPED]]),
        (RequestCode.SEND_MESSAGES, {"topic": "t"}, [[0, 0, PLAIN], [1, 0, GROUPED]]),
    ):
        try:
            await peer.call(code, header, body)
        except MessageIllegal:
            found.append(False)
        else:
            found.append(True)
    return found


@pytest.mark.parametrize(
    ("message_type", "taken"),
    [
        (MessageType.MIXED, [True] * 9),
        (MessageType.NORMAL, [True, False, False, True, False, False, True, False, False]),
        (MessageType.FIFO, [False, True, False, False, True, False, False, True, False]),
        (MessageType.DELAY, [False, False, True, *[False] * 6]),
        (MessageType.TRANSACTION, [False] * 9),
    ],
)
@simulated
async def test_a_topic_takes_only_messages_of_its_type(
    world: World, message_type: MessageType, taken: list[bool]
) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic(message_type=message_type)
    assert await outcomes(a) == taken
    await world.sleep(1)  # the delayed one
    stored = [len(records(await a.pull(queue_id=queue_id))) for queue_id in (0, 1)]
    assert stored == [sum(taken[:3]) + 2 * sum(taken[3:6]) + sum(taken[6:]), sum(taken[6:])], "refused: not in part"
