"""Topics over the wire and over restarts: they are created, scaled and deleted, and no number is given twice."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.durability.metadata import StoredNumber
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from model.errors import IllegalOperation, InvalidParameter, NoPermission, QueryNotFound, TopicNotExist
from model.events import EventKind
from model.limits import MAX_QUEUES_PER_TOPIC
from model.names import STAGE_TOPIC, TEMPLATE_TOPIC, TRACE_TOPIC
from model.response_code import ResponseCode
from model.topic_route import MessageType, TopicConfig
from remoting.request_code import RequestCode
from tests.unit.broker.harness import FailingDisk, Peer, World, consumer, records, simulated
from tests.unit.broker.leases.rooms import open_rooms


async def operator(world: World, **options: object) -> Peer:
    """Start a broker with topic `t`; returns a peer of it."""
    await world.start_broker(**options)
    peer = world.peer("operator")
    await peer.put_topic()
    world.events.clear()
    return peer


async def delete(peer: Peer, topic: str = "t") -> None:
    await peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})


def config_of(world: World, topic: str = "t") -> TopicConfig:
    return world.broker.topics.table.existing(topic).config


def store_messages_of(directory: Path, topic_id: int) -> None:
    with MessageStore.open(directory, StoreOptions(), lambda: 0) as store:
        for _ in range(2):
            store.append(topic_id, 0, b"m", 0)
        store.flush()


def a_topic_and_a_deleted_one(directory: Path) -> int:
    """Returns the number of the first, which has a message; the number of the other is the next one."""
    with open_rooms(directory) as rooms:
        known = rooms.put_topic("t", messages=1).topic_id
        rooms.put_topic("deleted")
        rooms.topics.delete("deleted", "")
        rooms.core.metadata.commit()
    return known


def test_a_topic_is_there_in_the_next_run_as_it_was_changed_last(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        topic_id = rooms.put_topic("t").topic_id
        rooms.put_topic("t", queues=8)
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        entry = rooms.topics.table.existing("t")
        assert (entry.topic_id, entry.config.read_queue_nums) == (topic_id, 8)


@simulated
async def test_a_message_type_stays_until_another_one_is_set_and_over_restarts(world: World) -> None:
    peer = await operator(world)
    assert config_of(world).message_type is MessageType.MIXED
    await peer.put_topic(message_type=MessageType.FIFO)
    await peer.put_topic(read=8)
    assert (config_of(world).message_type, config_of(world).read_queue_nums) == (MessageType.FIFO, 8)
    await world.stop_broker()
    await world.start_broker()
    assert config_of(world).message_type is MessageType.FIFO
    await world.peer("later").put_topic(read=8, message_type=MessageType.MIXED)
    await world.stop_broker()
    await world.start_broker()
    assert config_of(world).message_type is MessageType.MIXED


@simulated
async def test_a_message_type_is_checked_and_retry_topics_take_every_type(world: World) -> None:
    peer = await operator(world)
    for wrong in (5, -1):
        with pytest.raises(InvalidParameter, match="message_type"):
            await peer.put_topic(message_type=wrong)
    with pytest.raises(IllegalOperation, match="topic '%RETRY%g' takes messages of every type"):
        await peer.put_topic("%RETRY%g", message_type=MessageType.FIFO)
    await peer.put_topic("%RETRY%g", message_type=MessageType.MIXED)


def test_system_topics_are_made_once(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        with open_rooms(tmp_path) as rooms:
            found.append(
                (rooms.topics.table.existing(TRACE_TOPIC).topic_id, rooms.topics.ensure_own(STAGE_TOPIC).topic_id)
            )
            rooms.core.metadata.commit()
    assert found[0] == found[1]


def test_the_number_of_a_deleted_topic_stays_used(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        number = rooms.put_topic("new").topic_id
        rooms.topics.delete("new", "")
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert rooms.topics.table.get("new") is None
        assert rooms.put_topic("x").topic_id == number + 1


def test_a_retry_topic_and_a_dlq_are_made_and_announced_once(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        version = rooms.topics.registration._version
        assert rooms.topics.ensure_retry("g") is rooms.topics.ensure_retry("g")
        assert rooms.topics.ensure_dlq("g").config.topic == "%DLQ%g"
        assert rooms.topics.ensure_dlq("g") is rooms.topics.table.existing("%DLQ%g")
        assert rooms.topics.registration._version == version + 2


def test_messages_of_no_topic_are_dropped_and_their_number_is_not_given_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = a_topic_and_a_deleted_one(tmp_path)
    store_messages_of(tmp_path, known + 1)
    with open_rooms(tmp_path) as rooms:
        assert rooms.core.store.queues() == [(known, 0)]
        assert rooms.topics.ensure_dlq("g").topic_id == known + 2
        rooms.core.metadata.commit()
        assert StoredNumber(rooms.core.metadata, "last_topic_id", replicated=True).read() == known + 2
    assert f"topic id {known + 1}" in caplog.text
    with MessageStore.open(tmp_path, StoreOptions(), lambda: 0) as store:
        assert store.queues() == [(known, 0)]


def test_a_full_disk_leaves_them_for_the_next_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    known = a_topic_and_a_deleted_one(tmp_path)
    store_messages_of(tmp_path, known + 1)
    disk = FailingDisk()
    with open_rooms(tmp_path, files=disk, errno=errno.ENOSPC) as rooms:
        assert rooms.core.store.queues() == [(known, 0), (known + 1, 0)]
        assert rooms.topics.table.last_topic_id == known + 1
        disk.errno = None
    assert "could not be dropped now" in caplog.text


# --- over the wire ---------------------------------------------------------------------------------------------------
@simulated
async def test_a_topic_that_is_created_is_there_when_the_answer_comes(world: World) -> None:
    a = await operator(world)
    await a.put_topic("u", read=3, write=2, perm=6)
    config = config_of(world, "u")
    assert (config.read_queue_nums, config.write_queue_nums, int(config.perm)) == (3, 2, 6)
    [event] = world.of_kind(EventKind.ROUTE_CHANGED)
    assert (event.topic, event.n, event.detail) == ("u", 3, "read=3 write=2 perm=6")


@simulated
async def test_creating_the_same_topic_again_changes_nothing(world: World) -> None:
    a = await operator(world)
    await a.put_topic()
    assert world.events == []


@simulated
async def test_a_topic_grows_and_its_messages_stay(world: World) -> None:
    a = await operator(world)
    await a.send(queue_id=3)
    await a.put_topic(read=8)
    assert await a.send(queue_id=7) == 0
    assert [len(records(await a.pull(queue_id=queue_id))) for queue_id in (3, 7)] == [1, 1]


@simulated
async def test_a_topic_shrinks_by_writing_less_draining_and_then_reading_less(world: World) -> None:
    a = await operator(world)
    await a.send(queue_id=3)
    await a.put_topic(read=4, write=2)
    assert len(records(await a.pull(queue_id=3))) == 1
    await a.put_topic(read=2, write=2)
    assert (await a.pull(queue_id=3)).header["remark"] == "topic 't' has no queue 3 on this broker: refresh the route"
    with pytest.raises(InvalidParameter, match="no queue 3"):
        await a.send(queue_id=3)
    await a.put_topic(read=4, write=4)
    assert len(records(await a.pull(queue_id=3))) == 1


@simulated
async def test_a_topic_that_loses_a_permission_loses_it_at_once(world: World) -> None:
    a = await operator(world)
    await a.send()
    await a.put_topic(perm=4)
    with pytest.raises(NoPermission, match="not writable"):
        await a.send()
    assert len(records(await a.pull())) == 1
    await a.put_topic(perm=2)
    assert await a.send() == 1
    assert (await a.pull()).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("topic", "read", "write", "perm"),
    [("a topic", 1, 1, 6), ("", 1, 1, 6), ("u", 0, 0, 6), ("u", MAX_QUEUES_PER_TOPIC + 1, 1, 6), ("u", 1, 1, 8)],
)
@simulated
async def test_a_topic_that_cannot_be_is_refused(world: World, topic: str, read: int, write: int, perm: int) -> None:
    a = await operator(world)
    with pytest.raises(InvalidParameter):
        await a.put_topic(topic, read, write, perm)
    assert world.events == []


@simulated
async def test_the_largest_topic_is_taken(world: World) -> None:
    a = await operator(world)
    await a.put_topic("u", MAX_QUEUES_PER_TOPIC)
    assert await a.send("u", MAX_QUEUES_PER_TOPIC - 1) == 0


@pytest.mark.parametrize("topic", [TEMPLATE_TOPIC, TRACE_TOPIC])
@simulated
async def test_system_topics_are_not_an_operators(world: World, topic: str) -> None:
    a = await operator(world)
    with pytest.raises(IllegalOperation, match=topic):
        await a.put_topic(topic)
    with pytest.raises(IllegalOperation, match=topic):
        await delete(a, topic)


@simulated
async def test_a_deleted_topic_takes_messages_offsets_and_leases_along(world: World) -> None:
    a = await operator(world)
    await a.heartbeat(consumer())
    await a.send()
    token = await a.token_of(0)
    await a.commit(1, token)
    await delete(a)
    with pytest.raises(TopicNotExist):
        await delete(a)
    assert world.broker.leases.table.owners() == []
    await a.put_topic()
    assert records(await a.pull()) == []
    with pytest.raises(QueryNotFound):
        await a.committed()
    assert await a.token_of(0) > token
    details = [event.detail for event in world.of_kind(EventKind.ROUTE_CHANGED) if event.topic == "t"]
    assert details == ["deleted", "read=4 write=4 perm=6"]


@simulated
async def test_a_deleted_topic_stays_deleted_over_a_restart(world: World) -> None:
    a = await operator(world)
    await a.send()
    await delete(a)
    await world.stop_broker()
    await world.start_broker()
    await world.sleep(5)
    with pytest.raises(TopicNotExist):
        await delete(a)
    assert await a.send() == 0
    assert len(records(await a.pull())) == 1


@simulated
async def test_commits_for_a_deleted_topic_are_late_and_not_wrong(world: World) -> None:
    a = await operator(world)
    await a.send()
    await delete(a)
    assert await a.commit(1) == []
    assert world.broker.leases.offsets.of_group("g") == []


@simulated
async def test_the_end_of_a_queue_is_reported_with_the_number_of_its_topic_which_changes_when_it_is_recreated(
    world: World,
) -> None:
    peer = await operator(world)
    numbers = []
    for _ in range(2):
        await peer.put_topic()
        answer = await peer.call(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queue_id": 0})
        numbers.append(answer.header["topic_id"])
        await delete(peer)
    assert numbers[0] != numbers[1]
