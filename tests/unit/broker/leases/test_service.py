"""Leases and offsets over restarts: what is stored, and brought together with the log after a loss of power."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker.leases.table import QueueKey
from broker.store.disk.options import StoreOptions
from broker.store.ends import FILE_NAME
from broker.store.message_store import MessageStore
from model.events import EventKind
from model.heartbeat import ConsumeFrom
from remoting.request_code import RequestCode
from tests.unit.broker.durability.test_replication import ReplicatorByHand
from tests.unit.broker.harness import Peer, World, consumer, simulated
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
        rooms.groups.record_leave(leave, "")
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert rooms.leases.table.owner_of("g", Q) is None
        assert rooms.leases.offsets.read("g", *Q) == 2


def test_the_token_of_a_lease_that_is_free_is_not_given_again_on_a_machine_whose_clock_is_behind(
    tmp_path: Path,
) -> None:
    with open_rooms(tmp_path, now_ms=10_000) as rooms:
        fill(rooms)
        token = rooms.leases.table.newest_token
        freed = rooms.leases.table.release("g", "A", Q, token)
        assert freed is not None
        rooms.leases.queues_freed([freed], "", "unlock")
        rooms.core.metadata.commit()
    for tokens_ahead, expected in ((0, token + 1), (1_000_000, token + 1_000_001)):
        with open_rooms(tmp_path, now_ms=5_000, tokens_ahead=tokens_ahead) as rooms:
            rooms.put_member("A", consumer("g"))
            lease = rooms.leases.grant("g", Q, "A")
            assert lease is not None
            assert lease.token == expected


def test_members_that_come_ask_for_a_queue_and_go_are_not_remembered(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        fill(rooms)
        for number in range(3):
            rooms.put_member(f"B{number}", consumer("g"))
            assert rooms.leases.grant("g", Q, f"B{number}") is None
            leave = rooms.groups.table.unregister("g", f"B{number}", cause="", now=0.0)
            assert leave is not None
            rooms.groups.record_leave(leave, "")
        lease = rooms.leases.table.owner_of("g", Q)
        assert lease is not None
        assert lease.waiters == {}


def test_the_lease_of_an_owner_that_is_not_a_member_any_more_is_freed_at_the_start(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        rooms.put_topic("t")
        rooms.leases.grant("g", Q, "A")
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert rooms.leases.table.owner_of("g", Q) is None
        [event] = [event for event in rooms.core.events.remove_all() if event.kind == EventKind.LOCK_EXPIRED]
        assert (event.client, event.detail) == ("A", "restart")


@dataclass
class Grants:
    """Grants and ends of leases of a broker that has another replica; `replicator` commits them."""

    rooms: Rooms
    replicator: ReplicatorByHand

    def request(self, client_id: str) -> int:
        """Request the queue; returns the token."""
        lease = self.rooms.leases.request("g", Q, client_id, lambda: 0)
        assert lease is not None
        self.rooms.core.barrier.flush_now()
        return lease.token

    def release(self, client_id: str, token: int) -> None:
        freed = self.rooms.leases.table.release("g", client_id, Q, token)
        assert freed is not None
        self.rooms.leases.queues_freed([freed], "", "unlock")
        self.rooms.core.barrier.flush_now()

    def recorded(self) -> list[tuple[str, str]]:
        """Kind and client of the events since the last call."""
        kinds = (EventKind.LOCK_GRANTED, EventKind.QUEUE_RELEASED)
        return [(e.kind, e.client) for e in self.rooms.core.events.remove_all() if e.kind in kinds]


@contextmanager
def grants_of_a_set(directory: Path) -> Iterator[Grants]:
    with open_rooms(directory) as rooms:
        rooms.put_topic("t")
        for client_id in "AB":
            rooms.put_member(client_id, consumer("g"))
        replicator = ReplicatorByHand()
        rooms.core.barrier.replicate(replicator)
        replicator.commit()
        yield Grants(rooms, replicator)


def test_a_grant_of_a_set_is_an_event_once_every_replica_in_sync_has_it(tmp_path: Path) -> None:
    with grants_of_a_set(tmp_path) as grants:
        grants.request("A")
        assert grants.recorded() == []
        grants.replicator.commit()
        assert grants.recorded() == [("LOCK_GRANTED", "A")]


def test_a_grant_that_the_next_master_may_not_have_is_no_event(tmp_path: Path) -> None:
    with grants_of_a_set(tmp_path) as grants:
        grants.request("A")
        grants.replicator.end()
        assert grants.recorded() == []


def test_a_lease_of_a_set_that_ends_before_every_replica_has_it_leaves_no_grant_behind_its_end(tmp_path: Path) -> None:
    with grants_of_a_set(tmp_path) as grants:
        grants.release("A", grants.request("A"))
        grants.request("B")
        grants.request("B")  # confirmed
        grants.replicator.commit()
        assert grants.recorded() == [("QUEUE_RELEASED", "A"), ("LOCK_GRANTED", "B"), ("LOCK_GRANTED", "B")]


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


def test_a_topic_that_is_recreated_in_the_same_turn_keeps_its_new_offsets_only(tmp_path: Path) -> None:
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
        assert rooms.leases.has_group_data("g")
        rooms.leases.group_deleted("g", "")
        assert not rooms.leases.has_group_data("g")
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert rooms.leases.table.owners() == []
        assert rooms.leases.offsets.groups() == ["h"]


def test_a_queue_that_ends_before_a_committed_offset_goes_on_there_and_no_other_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_rooms(tmp_path) as rooms:
        for topic in ("t", "u"):
            rooms.put_topic(topic, messages=2)
        for group, topic, offset in (("g", "t", 5), ("g", "u", 1), ("h", "t", 2), ("h", "gone", 9)):
            rooms.leases.save_offset(group, topic, 0, offset)
        rooms.core.metadata.commit()
    for _ in range(2):
        with open_rooms(tmp_path) as rooms:
            offsets, store = rooms.leases.offsets, rooms.core.store
            assert [offsets.of_group("g"), offsets.of_group("h")] == [
                [("t", 0, 5), ("u", 0, 1)],
                [("gone", 0, 9), ("t", 0, 2)],
            ]
            t, u = (rooms.topics.table.existing(topic).topic_id for topic in ("t", "u"))
            assert (store.max_offset(t, 0), store.max_offset(u, 0)) == (5, 2)
            assert (store.damage.total((t, 0)), store.damage.total((u, 0))) == (3, 0)
    [warning] = caplog.messages
    assert "group g had committed 5 on t:0, which ends at 2: 3 messages were lost" in warning


@simulated
async def test_a_broker_brings_them_together_before_it_serves_anyone(world: World) -> None:
    broker = await world.start_broker()
    a = world.peer("a")
    for _ in range(3):
        await a.send()
    await a.commit(3)
    topic_id = broker.topics.table.existing("t").topic_id
    await a.put_topic("deleted")
    deleted_id = broker.topics.table.existing("deleted").topic_id
    await a.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "deleted"})
    await world.stop_broker()
    # The end of the log is gone, and so is the deletion of a topic.
    for path in world.data_dir.glob("*.index"):
        path.unlink()
    [log] = [path for path in sorted(world.data_dir.glob("*.log")) if path.stat().st_size > 100]
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 1)
    (world.data_dir / FILE_NAME).unlink()
    with MessageStore.open(world.data_dir, StoreOptions(), world.simulation.clock_ms) as store:
        assert store.max_offset(topic_id, 0) == 2
        store.append(deleted_id, 0, b"of a topic that was deleted", 0)
        store.flush()
    broker = await world.start_broker()
    b = world.peer("b")
    assert await b.committed() == 3
    assert {key[0] for key in broker.store.queues()} == {topic_id}
    # The offset of the message that is lost was committed, so it is not given again: the group would never get it.
    assert await b.send() == 3
    assert len((await b.pull(offset=3)).body or b"") > 0
    [event] = world.of_kind(EventKind.MESSAGES_DAMAGED)
    assert (event.offset, event.n) == (2, 1)


# --- what may come twice ----------------------------------------------------------------------------------------------
def left_by(world: World) -> list[tuple[int, int]]:
    """(where the next owner starts, messages that may come twice) of each lease that ended without a release."""
    return [(event.offset, event.n) for event in world.of_kind(EventKind.LOCK_EXPIRED)]


@simulated
async def test_the_broker_says_how_many_messages_a_member_that_leaves_was_sent_and_did_not_commit(world: World) -> None:
    a, token = await owner_of_five(world)
    await a.pull(offset=0, max_n=2, client_id=a.client_id, token=token)
    await a.pull(offset=2, max_n=2, client_id=a.client_id, token=token)
    await a.commit(1, token)
    world.simulation.network.cut("a")
    await world.sleep(1)
    assert left_by(world) == [(1, 3)]


async def owner_of_five(world: World, **data: Any) -> tuple[Peer, int]:
    """A member with a lease of a queue of five messages, which it begins at; and the token."""
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    for _ in range(5):
        await a.send()
    await a.heartbeat(consumer(consume_from=ConsumeFrom.FIRST_OFFSET, **data))
    return a, await a.token_of(0)


@simulated
async def test_without_a_commit_what_may_come_twice_counts_from_where_the_member_began(world: World) -> None:
    a, token = await owner_of_five(world)
    await a.pull(offset=0, max_n=4, client_id=a.client_id, token=token)
    await a.unregister("g")
    assert left_by(world) == [(0, 4)]


@simulated
async def test_a_member_that_pulled_nothing_leaves_nothing_that_may_come_twice(world: World) -> None:
    a, token = await owner_of_five(world)
    await a.commit(2, token)
    await a.unregister("g")
    assert left_by(world) == [(2, 0)]


@simulated
async def test_a_pull_that_is_parked_says_how_far_its_member_is(world: World) -> None:
    a, token = await owner_of_five(world)
    _ = await a.begin_pull(offset=5, suspend_ms=15_000, client_id=a.client_id, token=token)
    await world.sleep(0.1)
    assert left_by(world) == []
    await a.unregister("g")
    assert left_by(world) == [(0, 5)]


@simulated
async def test_a_reset_leaves_nothing_that_may_come_twice_unasked(world: World) -> None:
    a, token = await owner_of_five(world)
    await a.pull(offset=0, client_id=a.client_id, token=token)
    await a.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {"group": "g", "topic": "t", "to": "earliest"})
    assert left_by(world) == [(0, 0)]


@pytest.mark.parametrize(("pulls_again", "n"), [(True, 3), (False, 4)])
@simulated
async def test_after_a_restart_what_may_come_twice_is_known_with_the_next_pull_and_everything_before(
    world: World, pulls_again: bool, n: int
) -> None:
    a, token = await owner_of_five(world, session_timeout_s=3.0)
    await a.pull(offset=0, max_n=3, client_id=a.client_id, token=token)
    await a.commit(1, token)
    await world.stop_broker()
    await world.start_broker()
    await world.sleep(0.1)
    if pulls_again:
        await a.heartbeat(consumer(session_timeout_s=3.0))
        _ = await a.begin_pull(offset=3, suspend_ms=15_000, max_n=1, client_id=a.client_id, token=token)
    await a.close()
    await world.sleep(20)
    assert left_by(world) == [(1, n)]


@simulated
async def test_an_owner_that_gets_its_queue_back_may_still_have_what_it_was_sent_before(world: World) -> None:
    a, token = await owner_of_five(world)
    await a.pull(offset=0, max_n=3, client_id=a.client_id, token=token)
    await a.unregister("g")
    await a.heartbeat(consumer(consume_from=ConsumeFrom.FIRST_OFFSET))
    assert await a.token_of(0) > token
    await a.unregister("g")
    assert left_by(world) == [(0, 3), (0, 3)]
