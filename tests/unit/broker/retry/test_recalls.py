"""Recalls of delayed messages: before, at and after their time, twice, after restarts, of copies, and refusals."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from broker.retry import recalls
from model.errors import InvalidParameter, QueryNotFound, RlabError, StorageFull, SystemBusy, TopicNotExist
from model.message import Message, encode_payload
from model.recall import RecallHandle
from remoting.request_code import RequestCode
from tests.unit.broker.harness import FailingDisk, Peer, World, records, simulated
from tests.unit.broker.retention.test_service import SEGMENT_BYTES, low, send, started


async def send_in(peer: Peer, delay_ms: int, message_id: str = "id", topic: str = "t", **more: Any) -> RecallHandle:
    """Send a delayed message; returns its handle."""
    header = {"topic": topic, "queue_id": 0, "tag_hash": 0, "delay_ms": delay_ms, **more}
    payload = encode_payload(Message(topic, b"x"), 0, message_id)
    answer = (await peer.call(RequestCode.SEND_MESSAGE, header, payload)).header
    assert answer["offset"] == -1
    return RecallHandle(topic, "broker-a", answer.get("due_ms", 0), message_id, answer.get("delayed_offset", -1))


async def recall(peer: Peer, handle: RecallHandle, topic: str = "t") -> str:
    header = {"topic": topic, "handle": handle.text()}
    return str((await peer.call(RequestCode.RECALL_MESSAGE, header)).header["message_id"])


async def refused(peer: Peer, handle: RecallHandle, error: type[RlabError], match: str, topic: str = "t") -> None:
    with pytest.raises(error, match=match):
        await recall(peer, handle, topic)


async def n_delivered(peer: Peer) -> int:
    return len(records(await peer.pull()))


@simulated
async def test_a_recalled_message_is_never_delivered_and_others_are(world: World) -> None:
    broker = await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    first, second = await send_in(a, 5_000, "one"), await send_in(a, 5_000, "two")
    assert await recall(a, first) == "one"
    assert len(broker.delays) == 1
    await world.sleep(6)
    [delivered] = records(await a.pull())
    assert delivered.payload.endswith(b"two")
    assert len(broker.delays) == 0
    assert second.offset == 1


@simulated
async def test_a_recall_that_is_repeated_because_its_answer_was_lost_is_answered_as_before(world: World) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await a.put_topic()
    handle = await send_in(a, 5_000)
    await send_in(a, 3_600_000, "later")
    for peer in (a, b, a):
        assert await recall(peer, handle) == "id"
    await world.sleep(6)
    assert await recall(b, handle) == "id", "also when its time has passed"
    await world.stop_broker()
    await world.start_broker()
    c = world.peer("c")
    assert await recall(c, handle) == "id", "and by a broker that was restarted"
    await world.sleep(1)
    assert await n_delivered(c) == 0


@simulated
async def test_the_only_delayed_message_is_known_as_recalled_after_a_restart(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    handle = await send_in(a, 5_000)
    await recall(a, handle)
    await world.stop_broker()
    await world.start_broker()
    assert await recall(world.peer("b"), handle) == "id"
    await world.sleep(6)
    assert await n_delivered(world.peer("b")) == 0


@simulated
async def test_of_two_recalls_of_a_message_at_a_time_the_second_has_to_be_repeated(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    handle = await send_in(a, 5_000)
    header = {"topic": "t", "handle": handle.text()}
    first, second = [await a.begin(RequestCode.RECALL_MESSAGE, header) for _ in range(2)]
    assert (await first).code == 0
    assert (await second).code in (0, SystemBusy.code)
    assert await recall(a, handle) == "id"


@simulated
async def test_what_was_delivered_cannot_be_recalled(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    handle = await send_in(a, 1_000)
    await world.sleep(2)
    await refused(a, handle, QueryNotFound, "no delayed message 'id' of topic 't' that waits: it was delivered")
    assert await n_delivered(a) == 1


@simulated
async def test_a_handle_that_does_not_fit_recalls_nothing(world: World) -> None:
    broker = await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await a.put_topic("u")
    handle, other = await send_in(a, 5_000), await send_in(a, 5_000, "theirs", "u")
    await refused(a, handle, InvalidParameter, "of topic 't', not of 'u'", topic="u")
    await refused(a, handle._replace(broker="broker-b"), InvalidParameter, "broker 'broker-b', and this is 'broker-a'")
    await refused(a, handle._replace(topic="nowhere"), TopicNotExist, "nowhere", topic="nowhere")
    for wrong in (
        handle._replace(message_id="other"),
        handle._replace(offset=other.offset),
        other._replace(topic="t"),
        handle._replace(offset=1_000, due_ms=handle.due_ms + 1),
    ):
        await refused(a, wrong, QueryNotFound, "has no delayed message")
    with pytest.raises(InvalidParameter, match="not a recall handle"):
        await a.call(RequestCode.RECALL_MESSAGE, {"topic": "t", "handle": "x"})
    assert len(broker.delays) == 2


@simulated
async def test_a_retry_of_a_failed_message_cannot_be_recalled(world: World) -> None:
    broker = await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    sent = await send_in(a, 5_000, times_delivered=1)
    assert sent.offset == -1, "the answer has no place"
    await refused(a, sent._replace(offset=0), QueryNotFound, "has no delayed message")
    assert len(broker.delays) == 1


@simulated
async def test_a_recall_that_cannot_be_written_is_an_error_and_the_message_comes(world: World) -> None:
    disk = FailingDisk()
    await world.start_broker(files=disk)
    a = world.peer("a")
    await a.put_topic()
    handle = await send_in(a, 2_000)
    disk.errno = errno.ENOSPC
    await refused(a, handle, StorageFull, "No space left")
    disk.errno = None
    await world.sleep(4)
    assert await n_delivered(a) == 1
    await refused(a, handle, QueryNotFound, "it was delivered")


@simulated
async def test_a_message_is_recalled_by_its_handle_after_it_was_copied_to_the_end_of_the_log(world: World) -> None:
    broker = await started(world, retain_ms=1, retain_bytes_max=2 * SEGMENT_BYTES)
    a = world.peer("a")
    await a.put_topic(read=1)
    handle = await send_in(a, 200_000)
    await send(a, 60)
    await world.sleep(50)
    assert low(broker) > 50, "the original is gone"
    assert list(broker.delays.table.waiting()) != [handle.offset]
    await refused(a, handle._replace(message_id="other"), QueryNotFound, "has no delayed message")
    assert await recall(a, handle) == "id"
    assert len(broker.delays) == 0
    assert await recall(a, handle) == "id"


@simulated
async def test_recalls_that_are_too_many_to_remember_are_forgotten_the_oldest_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recalls, "MAX_REMEMBERED_RECALLS", 2)
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    handles = [await send_in(a, 5_000, f"id{n}") for n in range(3)]
    for handle in handles:
        await recall(a, handle)
    assert [await recall(a, handle) for handle in handles[1:]] == ["id1", "id2"]
    await refused(a, handles[0], QueryNotFound, "recalled long ago")
