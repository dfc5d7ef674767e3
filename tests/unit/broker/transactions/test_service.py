from __future__ import annotations

from typing import Any

import pytest

from broker.config import Part
from broker.transactions import service
from model.errors import (
    InvalidParameter,
    MessageIllegal,
    NoPermission,
    RequestCodeNotSupported,
    StorageFull,
    SystemBusy,
    TopicNotExist,
)
from model.events import EventKind
from model.message import Message, encode_payload
from model.topic_route import MessageType
from remoting.request_code import RequestCode
from tests.unit.broker.harness import FailingDisk, Peer, World, records, simulated, unpacked

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
DONE, ENDED_BEFORE, NOT_FOUND = 0, 1, 2


async def half(peer: Peer, *ids: str, topic: str = "t", queue_id: int = 0, group: str = "p", after_ms: int = -1) -> int:
    """Send half messages with these ids; returns the offset of the first."""
    rows = [[topic, queue_id, 0, after_ms, encode_payload(Message(topic, each.encode()), 0, each)] for each in ids]
    return int((await peer.call(RequestCode.SEND_HALF_MESSAGE, {"group": group}, rows)).header["offset"])


async def end(peer: Peer, *rows: tuple[int, str, int], group: str = "p", **fields: Any) -> list[int]:
    outcomes: list[int] = unpacked(await peer.call(RequestCode.END_TRANSACTION, {"group": group, **fields}, rows))
    return outcomes


async def stored(peer: Peer, topic: str = "t", queue_id: int = 0) -> list[bytes]:
    found: list[bytes] = []
    offset = end = 0
    while offset <= end:
        answer = await peer.pull(topic, queue_id, offset)
        found += [record.payload[-1:] for record in records(answer)]
        offset, end = max(offset + 1, answer.header["next_offset"]), answer.header["max_offset"]
    return found


@simulated
async def test_a_commit_publishes_in_its_own_queue_and_a_rollback_nowhere(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic("t", read=2)
    assert await half(a, "x", "y") == 0
    assert await half(a, "z", queue_id=1) == 2
    assert await stored(a) == []
    assert await end(a, (0, "x", COMMIT), (1, "y", ROLLBACK), (2, "z", COMMIT)) == [DONE] * 3
    assert await stored(a) == [b"x"]
    assert await stored(a, queue_id=1) == [b"z"]
    assert len(world.broker.transactions.table) == 0


@simulated
async def test_a_commit_wakes_a_pull_that_is_parked_on_its_queue(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic("t", read=2)
    await half(a, "x", "y")
    await half(a, "z", queue_id=1)
    held = [await a.begin_pull(queue_id=n, suspend_ms=15_000) for n in (0, 1)]
    await end(a, (0, "x", COMMIT), (2, "z", COMMIT))
    assert [records(await each)[0].payload[-1:] for each in held] == [b"x", b"z"]
    assert world.now < 1


@simulated
async def test_the_first_end_counts_in_one_request_as_in_several(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await half(a, "x", "y")
    assert await end(a, (0, "x", ROLLBACK), (0, "x", COMMIT)) == [DONE, ENDED_BEFORE]
    both = [await a.begin(RequestCode.END_TRANSACTION, {"group": "p"}, [(1, "y", state)]) for state in (8, 8)]
    assert [unpacked(await each) for each in both] == [[DONE], [ENDED_BEFORE]]
    assert await end(a, (1, "y", ROLLBACK), (1, "y", UNKNOWN)) == [ENDED_BEFORE, ENDED_BEFORE]
    assert await stored(a) == [b"y"]


@simulated
async def test_an_end_that_names_another_message_or_group_changes_nothing(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await half(a, "x")
    assert await end(a, (0, "other", COMMIT), (1, "x", COMMIT), (10**9, "x", COMMIT)) == [NOT_FOUND] * 3
    assert await end(a, (0, "x", COMMIT), group="q") == [NOT_FOUND]
    assert await end(a, (0, "x", UNKNOWN)) == [DONE]
    assert await stored(a) == []
    assert await end(a, (0, "x", COMMIT)) == [DONE]


@simulated
async def test_a_commit_for_a_topic_that_was_deleted_is_reported(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic("gone")
    await half(a, "x", topic="gone")
    await a.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "gone"})
    assert await end(a, (0, "x", COMMIT)) == [NOT_FOUND]
    (event,) = world.of_kind(EventKind.TRANSACTION_GIVEN_UP)
    assert event.detail == "topic deleted"
    assert await end(a, (0, "x", COMMIT)) == [ENDED_BEFORE]


@simulated
async def test_a_commit_for_a_queue_that_is_gone_publishes_in_one_that_is_left(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic("t", read=8)
    await half(a, "x", queue_id=7)
    await a.put_topic("t", read=4)
    assert await end(a, (0, "x", COMMIT)) == [DONE]
    assert await stored(a, queue_id=3) == [b"x"]


@simulated
async def test_a_request_ends_so_many_bytes_of_messages_and_one_with_more_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_ENDED_BYTES", 10_000)
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    ids = [f"{number:02}" + 1_000 * "x" for number in range(20)]
    await half(a, *ids)
    rows = [(offset, each, COMMIT) for offset, each in enumerate(ids)]
    with pytest.raises(MessageIllegal, match="16 of the messages that this request ends have 10000 bytes or more"):
        await end(a, *rows)
    assert await stored(a) == []
    assert await end(a, *rows[:16]) == [DONE] * 16
    assert await end(a, *rows[16:]) == [DONE] * 4


@simulated
async def test_a_half_message_that_could_never_be_published_is_refused(world: World) -> None:
    await world.start_broker(auto_create_topics=False)
    a = world.peer("a")
    await a.put_topic("read-only", perm=4)
    await a.put_topic()
    with pytest.raises(TopicNotExist):
        await half(a, "x", topic="unknown")
    with pytest.raises(NoPermission):
        await half(a, "x", topic="read-only")
    with pytest.raises(InvalidParameter, match="queue 9"):
        await half(a, "x", queue_id=9)
    with pytest.raises(InvalidParameter, match="group"):
        await half(a, "x", group="no group")
    with pytest.raises(InvalidParameter, match="got none"):
        await half(a)
    with pytest.raises(InvalidParameter, match="check after ms of row 0"):
        await half(a, "x", after_ms=3_600_001)
    with pytest.raises(MessageIllegal):
        await a.call(RequestCode.SEND_HALF_MESSAGE, {"group": "p"}, [["t", 0, 0, -1, b""]])
    assert len(world.broker.transactions.table) == 0


@simulated
async def test_a_state_that_is_none_is_refused_and_ends_nothing(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await half(a, "x", "y")
    with pytest.raises(InvalidParameter, match="got 4"):
        await end(a, (0, "x", COMMIT), (1, "y", 4))
    assert len(world.broker.transactions.table) == 2


@simulated
async def test_a_full_disk_leaves_a_transaction_open_and_its_end_can_be_repeated(world: World) -> None:
    disk = FailingDisk()
    await world.start_broker(files=disk)
    a = world.peer("a")
    await a.put_topic()
    await half(a, "x")
    disk.errno = 28
    with pytest.raises(StorageFull):
        await end(a, (0, "x", COMMIT))
    with pytest.raises(StorageFull):
        await half(a, "y")
    disk.errno = None
    assert len(world.broker.transactions.table) == 1
    assert await stored(a) == []
    await world.sleep(6)  # the broker has looked whether there is room again
    assert await end(a, (0, "x", COMMIT)) == [DONE]
    assert await half(a, "z") == 1, "the offset of the one that was refused"
    assert await stored(a) == [b"x"]


@simulated
async def test_too_many_open_transactions_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    monkeypatch.setattr(world.broker.transactions.table, "_max_open", 2)
    await half(a, "x")
    with pytest.raises(SystemBusy):
        await half(a, "y", "z")
    await half(a, "y")


@simulated
async def test_a_broker_without_the_part_refuses_half_messages_and_serves_the_rest(world: World) -> None:
    await world.start_broker(parts=frozenset(Part) - {Part.TRANSACTIONS})
    a = world.peer("a")
    await a.put_topic()
    with pytest.raises(RequestCodeNotSupported):
        await half(a, "x")
    assert await a.send() == 0


@simulated
async def test_retention_keeps_the_log_from_the_first_open_message_on(world: World) -> None:
    broker = await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await half(a, "x", "y", "z")
    (key,) = broker.transactions.needed_from()
    assert broker.features.needed_from()[key] == 0
    await end(a, (1, "y", COMMIT))
    assert broker.features.needed_from()[key] == 0
    await end(a, (0, "x", ROLLBACK))
    assert broker.features.needed_from()[key] == 2
    await end(a, (2, "z", COMMIT))
    assert broker.features.needed_from()[key] == 3
    assert (
        broker.features.stats().items()
        >= {
            "open_transactions": 0,
            "committed_transactions": 2,
            "rolled_back_transactions": 1,
        }.items()
    )


@simulated
async def test_ends_of_one_request_are_one_event_for_each_cause(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await a.heartbeat(producer_groups=("p",))
    await half(a, "x", "y")
    await half(a, "z")
    await end(a, *[(n, name, COMMIT) for n, name in enumerate("xyz")])
    causes = [event.id for event in world.of_kind(EventKind.HALF_STORED)]
    reported = world.of_kind(EventKind.TRANSACTION_COMMITTED)
    assert [(event.cause, event.n, event.client) for event in reported] == [
        (causes[0], 2, a.client_id),
        (causes[1], 1, a.client_id),
    ]


@simulated
async def test_a_topic_of_another_type_takes_no_half_messages_and_publishes_those_of_before(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    offset = await half(a, "x")
    await a.put_topic(message_type=MessageType.NORMAL)
    with pytest.raises(MessageIllegal, match="takes NORMAL messages only, and this is a TRANSACTION message"):
        await half(a, "y")
    assert await end(a, (offset, "x", COMMIT)) == [DONE]
    assert await stored(a) == [b"x"]
    await a.put_topic(message_type=MessageType.TRANSACTION)
    await half(a, "z")
