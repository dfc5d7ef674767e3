"""Commits that come with pulls: they count at once, are stored together within a second, and keep the fences."""

from __future__ import annotations

from pathlib import Path

from broker.leases.table import QueueKey
from broker.leases.unstored_commits import UnstoredCommits
from model.events import EventKind
from model.heartbeat import ConsumeFrom
from model.limits import COMMIT_STORE_S
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from tests.unit.broker.harness import Peer, World, consumer, simulated
from tests.unit.broker.leases.rooms import open_rooms

Q = QueueKey("t", 0)


def test_commits_wait_together_for_the_first_of_them() -> None:
    unstored = UnstoredCommits()
    assert unstored.next_deadline() is None
    assert unstored.add(("g", "t", 0), "A", 10.0) == 10 + COMMIT_STORE_S
    assert unstored.add(("g", "t", 1), "B", 10.9) == 10 + COMMIT_STORE_S
    assert unstored.add(("g", "t", 0), "C", 10.95) == unstored.next_deadline() == 10 + COMMIT_STORE_S
    assert unstored.remove_due(10.99) == {}
    assert unstored.remove_due(11.0) == {("g", "t", 0): "C", ("g", "t", 1): "B"}
    assert (len(unstored), unstored.next_deadline(), unstored.remove_due(99.0)) == (0, None, {})
    assert unstored.add(("g", "t", 0), "A", 11.5) == 11.5 + COMMIT_STORE_S


def test_a_commit_that_is_stored_for_another_reason_waits_no_longer() -> None:
    unstored = UnstoredCommits()
    unstored.add(("g", "t", 0), "A", 10.0)
    assert unstored.pop(("g", "t", 0)) == "A"
    assert unstored.pop(("g", "t", 0)) is None
    assert unstored.next_deadline() is None


def test_commits_of_what_is_deleted_are_forgotten() -> None:
    unstored = UnstoredCommits()
    for place in (("g", "t", 0), ("g", "u", 0), ("h", "t", 0)):
        unstored.add(place, "A", 10.0)
    unstored.forget(lambda place: place[1] == "t")
    assert list(unstored.remove_due(11.0)) == [("g", "u", 0)]


# --- at a broker -----------------------------------------------------------------------------------------------------
async def owner(world: World, messages: int = 5) -> tuple[Peer, int]:
    """A member with a lease of a queue with some messages, which it begins at; and the token."""
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    for _ in range(messages):
        await a.send()
    await a.heartbeat(consumer(consume_from=ConsumeFrom.FIRST_OFFSET))
    return a, await a.token_of(0)


async def pull(a: Peer, token: int, commit: int, offset: int = 0) -> int:
    """Pull with a commit; returns the response code."""
    return (await a.pull(offset=offset, client_id=a.client_id, token=token, commit=commit)).code


def commits(world: World) -> list[tuple[str, int, int]]:
    """(member, offset, lag) of each event of a commit."""
    return [(event.client, event.offset, event.n) for event in world.of_kind(EventKind.OFFSET_COMMITTED)]


def stored(world: World) -> list[int]:
    """What is in the file."""
    return [offset for *_, offset in world.broker.leases._offsets.rows()]


@simulated
async def test_the_commits_of_pulls_count_at_once_and_are_one_row_and_one_event_in_a_second(world: World) -> None:
    a, token = await owner(world)
    for offset in (1, 2, 4):
        assert await pull(a, token, offset) == ResponseCode.SUCCESS
        assert await a.committed() == offset
    assert (commits(world), stored(world)) == ([], [])
    await world.sleep(COMMIT_STORE_S)
    assert (commits(world), stored(world)) == ([(a.client_id, 4, 1)], [4])
    await pull(a, token, 4)
    await world.sleep(COMMIT_STORE_S)
    assert len(commits(world)) == 1, "nothing is new"


@simulated
async def test_a_parked_pull_commits_when_it_comes_and_not_again_when_a_message_wakes_it(world: World) -> None:
    a, token = await owner(world)
    answer = await a.begin_pull(offset=5, suspend_ms=15_000, client_id=a.client_id, token=token, commit=3)
    await world.sleep(0.1)
    assert await a.committed() == 3
    await a.commit(1, token, reset=True)
    await a.send()
    assert (await answer).header["next_offset"] == 6
    assert await a.committed() == 1


@simulated
async def test_a_pull_is_answered_although_its_commit_may_not_be(world: World) -> None:
    a, token = await owner(world)
    await pull(a, token, 3)
    assert await pull(a, token, 2) == ResponseCode.SUCCESS  # it would go back
    assert await pull(a, token, 6) == ResponseCode.SUCCESS  # the queue ends at 5
    assert (await a.pull(client_id=a.client_id, commit=4)).code == ResponseCode.SUCCESS  # without a lease
    assert await pull(a, token, -1) == ResponseCode.INVALID_PARAMETER
    assert await a.committed() == 3


@simulated
async def test_the_pull_of_an_earlier_owner_commits_nothing(world: World) -> None:
    a, token = await owner(world)
    b = world.peer("b")
    await b.heartbeat(consumer())
    assert await pull(b, token, 2) == ResponseCode.LEASE_LOST
    assert await a.unlock(("t", 0, 1, token)) == []
    assert await pull(a, token, 2) == ResponseCode.SUCCESS, "nobody else has the queue"
    assert await a.committed() == 1, "what was released is committed by the release"
    await b.token_of(0)
    assert await pull(a, token, 3) == ResponseCode.LEASE_LOST
    assert await a.committed() == 1


@simulated
async def test_a_token_alone_commits_nothing_over_the_connection_of_someone_else(world: World) -> None:
    a, token = await owner(world)
    outsider = world.peer("b")
    await outsider.pull(client_id=a.client_id, token=token, commit=5)
    await pull(a, token, 2)
    assert await a.committed() == 2


@simulated
async def test_what_ends_a_lease_stores_its_commit_at_once(world: World) -> None:
    a, token = await owner(world)
    await pull(a, token, 3)
    await a.unregister("g")
    reported = [event.kind for event in world.of_kind(EventKind.OFFSET_COMMITTED, EventKind.LOCK_EXPIRED)]
    assert reported == [EventKind.OFFSET_COMMITTED, EventKind.LOCK_EXPIRED]
    assert stored(world) == [3]
    await world.sleep(COMMIT_STORE_S)
    assert len(commits(world)) == 1


@simulated
async def test_a_late_commit_of_the_last_owner_is_notified_before_the_next_one_begins_there(world: World) -> None:
    a, token = await owner(world)
    b = world.peer("b")
    await b.heartbeat(consumer())
    assert await a.unlock(("t", 0, 1, token)) == []
    header = {"group": "g", "client_id": a.client_id, "soon": True}
    await a.call(RequestCode.UPDATE_CONSUMER_OFFSET, header, [["t", 0, 3, token]])
    await b.token_of(0)
    reported = [(e.kind, e.offset) for e in world.of_kind(EventKind.OFFSET_COMMITTED, EventKind.LOCK_GRANTED)]
    assert reported[-2:] == [(EventKind.OFFSET_COMMITTED, 3), (EventKind.LOCK_GRANTED, 3)]
    assert stored(world) == [3]


@simulated
async def test_a_commit_that_waits_for_its_answer_stores_what_pulls_have_committed(world: World) -> None:
    a, token = await owner(world)
    await pull(a, token, 3)
    assert await a.commit(3, token) == []
    assert (commits(world), stored(world)) == ([(a.client_id, 3, 2)], [3])
    await world.sleep(COMMIT_STORE_S)
    assert len(commits(world)) == 1


@simulated
async def test_commits_that_are_to_be_stored_soon_are_checked_now_and_stored_with_those_of_pulls(world: World) -> None:
    a, token = await owner(world)
    header = {"group": "g", "client_id": a.client_id, "soon": True}
    await a.call(RequestCode.UPDATE_CONSUMER_OFFSET, header, [["t", 0, 2, token]])
    assert (await a.committed(), stored(world)) == (2, [])
    await world.sleep(COMMIT_STORE_S)
    assert (commits(world), stored(world)) == ([(a.client_id, 2, 3)], [2])
    await a.call(RequestCode.UPDATE_CONSUMER_OFFSET, header, [["t", 0, 3, token - 1]])
    await a.call(RequestCode.UPDATE_CONSUMER_OFFSET, {**header, "reset": True}, [["t", 0, 1, token]])
    assert stored(world) == [1], "a reset is never late"


@simulated
async def test_a_broker_that_stops_stores_every_commit_first(world: World) -> None:
    a, token = await owner(world)
    await pull(a, token, 3)
    await world.stop_broker()
    await world.start_broker()
    await world.sleep(0.1)
    assert await world.peer("b").committed() == 3


@simulated
async def test_a_topic_that_is_deleted_takes_its_unstored_commits_along(world: World) -> None:
    a, token = await owner(world)
    await pull(a, token, 3)
    await a.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    await world.sleep(COMMIT_STORE_S)
    assert (commits(world), stored(world)) == ([], [])


def test_a_group_that_is_deleted_takes_its_unstored_commits_along(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        rooms.put_topic("t", messages=3)
        rooms.leases.commit_soon("g", Q, "A", 2)
        rooms.leases.group_deleted("g", "")
        assert rooms.leases.next_deadline() is None
        rooms.leases.close()
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert rooms.leases.offsets.groups() == []
