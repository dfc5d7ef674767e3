"""Leases and offsets over restarts: what is stored, and brought together with the log after a loss of power."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.leases.table import QueueKey
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from model.events import EventKind
from tests.unit.broker.harness import World, consumer, simulated
from tests.unit.broker.leases.rooms import Rooms, open_rooms

Q = QueueKey("t", 0)


def fill(rooms: Rooms) -> None:
    """Member A of group g leases the first queue of topic t, and has committed two of its three messages."""
    rooms.put_topic("t", messages=3)
    rooms.put_member("A", consumer("g"))
    assert rooms.leases.grant("g", Q, "A") is not None
    assert rooms.leases.commit("g", Q, 2)


def test_leases_and_offsets_are_there_in_the_next_run(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        fill(rooms)
        token = rooms.leases.table.newest_token
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert rooms.leases.table.check("g", Q, "A", token)
        assert rooms.leases.offsets.read("g", *Q) == 2
        assert rooms.leases.table.newest_token >= token


def test_the_newest_owner_and_offset_count(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        fill(rooms)
        rooms.put_member("B", consumer("g"))
        freed = rooms.leases.table.release("g", "A", Q, rooms.leases.table.newest_token)
        assert freed is not None
        rooms.leases.queues_freed([freed], "", "unlock")
        rooms.leases.grant("g", Q, "B")
        rooms.leases.commit("g", Q, 3)
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        lease = rooms.leases.table.owner_of("g", Q)
        assert lease is not None
        assert lease.owner == "B"
        assert rooms.leases.offsets.read("g", *Q) == 3


def test_a_lease_that_is_free_is_gone(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        fill(rooms)
        rooms.core.metadata.commit()
        leave = rooms.groups.table.unregister("g", "A", cause="", now=0.0)
        assert leave is not None
        rooms.groups.take_out(leave, "")
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert rooms.leases.table.owner_of("g", Q) is None
        assert rooms.leases.offsets.read("g", *Q) == 2


def test_the_lease_of_an_owner_that_is_no_member_any_more_is_freed_at_the_start(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        rooms.put_topic("t")
        rooms.leases.grant("g", Q, "A")
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert rooms.leases.table.owner_of("g", Q) is None
        [event] = [event for event in rooms.core.events.take() if event.kind == EventKind.LOCK_EXPIRED]
        assert (event.client, event.detail) == ("A", "restart")


def test_a_deleted_topic_takes_its_offsets_and_leases_along(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        fill(rooms)
        rooms.put_topic("u", messages=1)
        rooms.leases.commit("g", QueueKey("u", 0), 1)
        rooms.core.metadata.commit()
        rooms.topics.delete("t", "")
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert rooms.topics.table.get("t") is None
        assert rooms.leases.offsets.of_group("g") == [("u", 0, 1)]
        assert rooms.leases.table.owners() == []


def test_a_topic_that_is_made_again_in_the_same_turn_keeps_its_new_offsets_only(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        fill(rooms)
        old = rooms.topics.table.existing("t").topic_id
        rooms.leases.commit("g", QueueKey("t", 1), 0)
        rooms.topics.delete("t", "")
        rooms.put_topic("t", messages=1)
        rooms.leases.commit("g", Q, 1)
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert rooms.topics.table.existing("t").topic_id == old + 1
        assert rooms.leases.offsets.of_group("g") == [("t", 0, 1)]


def test_a_deleted_group_takes_its_offsets_and_leases_along(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        fill(rooms)
        rooms.leases.commit("h", Q, 1)
        assert rooms.leases.knows_group("g")
        rooms.leases.group_deleted("g", "")
        assert not rooms.leases.knows_group("g")
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert rooms.leases.table.owners() == []
        assert rooms.leases.offsets.groups() == ["h"]


def test_offsets_behind_the_end_are_lowered_to_it_and_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_rooms(tmp_path) as rooms:
        for topic in ("t", "u"):
            rooms.put_topic(topic, messages=2)
        for group, topic, offset in (("g", "t", 5), ("g", "u", 1), ("h", "t", 2), ("h", "gone", 9)):
            rooms.leases.save_offset(group, topic, 0, offset)
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        offsets = rooms.leases.offsets
        assert [offsets.of_group("g"), offsets.of_group("h")] == [
            [("t", 0, 2), ("u", 0, 1)],
            [("gone", 0, 9), ("t", 0, 2)],
        ]
        rooms.core.metadata.commit()
        [stored] = rooms.core.metadata.rows("select queue_offset from offsets where group_name = 'g' and topic = 't'")
        assert stored == (2,)
    [warning] = caplog.messages
    assert "group g had committed 5 on t:0, which ends at 2" in warning


@simulated
async def test_a_broker_brings_them_together_before_it_serves_anybody(world: World) -> None:
    broker = await world.start_broker()
    a = world.peer("a")
    for _ in range(3):
        await a.send()
    await a.commit(3)
    topic_id = broker.topics.table.existing("t").topic_id
    await world.stop_broker()
    # The end of the log is gone, and so is the deletion of a topic.
    for path in world.data_dir.glob("*.index"):
        path.unlink()
    [log] = [path for path in sorted(world.data_dir.glob("*.log")) if path.stat().st_size > 100]
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 1)
    with MessageStore.open(world.data_dir, StoreOptions(), world.simulation.clock_ms) as store:
        assert store.max_offset(topic_id, 0) == 2
        store.append(topic_id + 5, 0, b"of a topic that was deleted", 0)
        store.flush()
    broker = await world.start_broker()
    b = world.peer("b")
    assert await b.committed() == 2
    assert {key[0] for key in broker.store.queues()} == {topic_id}
    assert await b.send() == 2
    assert len((await b.pull(offset=2)).body or b"") > 0
