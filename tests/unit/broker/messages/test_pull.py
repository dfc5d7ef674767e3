"""Pulls: answered at once, at the arrival of a message, or at their time, and never under a lease that is lost."""

from __future__ import annotations

import errno

import pytest

from broker.messages.parked import ParkedRequests
from broker.messages.pull import SKIPPED_PARK_S
from broker.store.disk.options import StoreOptions
from model.errors import InvalidParameter, TopicNotExist
from model.message import tag_hash
from model.response_code import ResponseCode
from remoting.command import Command
from remoting.request_code import RequestCode
from tests.unit.broker.harness import (
    LATENCY_S,
    ROUND_TRIP_S,
    FailingDisk,
    Peer,
    World,
    consumer,
    payload_of,
    records,
    simulated,
)


async def topic(world: World, **options: object) -> Peer:
    """Start a broker with a topic `t`; returns a peer of it."""
    await world.start_broker(**options)
    peer = world.peer("a")
    await peer.put_topic()
    return peer


def offsets(answer: Command) -> tuple[int, int, int]:
    return answer.header["next_offset"], answer.header["min_offset"], answer.header["max_offset"]


# --- at once ---------------------------------------------------------------------------------------------------------
@simulated
async def test_what_is_stored_is_answered_at_once_with_where_to_go_on(world: World) -> None:
    a = await topic(world)
    for n in range(3):
        await a.send(body=b"%d" % n)
    answer = await a.pull(offset=1, suspend_ms=15_000)
    assert [record.payload for record in records(answer)] == [payload_of(b"1"), payload_of(b"2")]
    assert offsets(answer) == (3, 0, 3)


@simulated
async def test_no_more_messages_come_than_were_asked_for(world: World) -> None:
    a = await topic(world)
    for _ in range(3):
        await a.send()
    answer = await a.pull(max_n=2)
    assert (len(records(answer)), offsets(answer)) == (2, (2, 0, 3))


@simulated
async def test_a_pull_that_may_not_be_held_is_answered_at_once(world: World) -> None:
    a = await topic(world)
    began = world.now
    answer = await a.pull()
    assert (answer.code, offsets(answer)) == (ResponseCode.PULL_NOT_FOUND, (0, 0, 0))
    assert world.now == began + ROUND_TRIP_S


@simulated
async def test_an_offset_beyond_the_end_is_moved_to_the_end(world: World) -> None:
    a = await topic(world)
    await a.send()
    answer = await a.pull(offset=5, suspend_ms=15_000)
    assert (answer.code, offsets(answer)) == (ResponseCode.PULL_OFFSET_MOVED, (1, 0, 1))


@simulated
async def test_an_offset_that_was_deleted_is_moved_to_the_oldest_that_is_left(world: World) -> None:
    a = await topic(world, store=StoreOptions(segment_bytes=1))
    for _ in range(4):
        await a.send()
    assert world.broker.store.trim(world.broker.store.written_position) > 0
    oldest = world.broker.store.min_offset(world.broker.topics.table.existing("t").topic_id, 0)
    assert oldest > 0
    answer = await a.pull(suspend_ms=15_000)
    assert (answer.code, offsets(answer)) == (ResponseCode.PULL_OFFSET_MOVED, (oldest, oldest, 4))


@simulated
async def test_a_pull_that_cannot_be_served_says_why(world: World) -> None:
    a = await topic(world)
    await a.put_topic("half", read=2, write=4)
    await a.put_topic("blind", perm=2)
    answers = [
        await a.pull("nowhere"),
        await a.pull("half", 2),
        await a.pull("blind"),
        await a.pull(tag_hashes=["red"]),
    ]
    assert [answer.code for answer in answers] == [
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.INVALID_PARAMETER,
        ResponseCode.NO_PERMISSION,
        ResponseCode.INVALID_PARAMETER,
    ]
    assert "refresh the route" in answers[1].header["remark"]
    assert "tag_hashes" in answers[3].header["remark"]


@simulated
async def test_a_disk_that_cannot_be_read_costs_the_pull_and_nothing_else(world: World) -> None:
    disk = FailingDisk()
    a = await topic(world, files=disk, store=StoreOptions(tail_bytes=0))
    held = await a.begin_pull(suspend_ms=15_000)
    disk.read_errno = errno.EIO
    await a.send()
    for answer in (await held, await a.pull()):
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "check the disk" in answer.header["remark"]
    disk.read_errno = None
    assert len(records(await a.pull())) == 1


# --- held ------------------------------------------------------------------------------------------------------------
@simulated
async def test_a_held_pull_is_answered_at_the_arrival_of_a_message(world: World) -> None:
    a = await topic(world)
    b = world.peer("b")
    held = await a.begin_pull(suspend_ms=15_000)
    await world.sleep(5)
    assert (len(world.broker.pulls._parked), held.done()) == (1, False)
    await b.send()
    sent = world.now
    answer = await held
    assert (len(records(answer)), offsets(answer), world.now) == (1, (1, 0, 1), sent)


@simulated
async def test_a_held_pull_is_answered_at_its_time(world: World) -> None:
    a = await topic(world)
    began = world.now
    answer = await a.pull(suspend_ms=1_500)
    assert (answer.code, offsets(answer)) == (ResponseCode.PULL_NOT_FOUND, (0, 0, 0))
    assert world.now == began + 1.5 + ROUND_TRIP_S
    assert len(world.broker.pulls._parked) == 0


@simulated
async def test_every_pull_of_the_queue_is_answered_and_none_of_another(world: World) -> None:
    a = await topic(world)
    b = world.peer("b")
    own = [await peer.begin_pull(suspend_ms=15_000) for peer in (a, b, a)]
    other = await b.begin_pull(queue_id=1, suspend_ms=15_000)
    await a.send()
    assert [len(records(await answer)) for answer in own] == [1, 1, 1]
    await world.sleep(1)
    assert not other.done()


@simulated
async def test_a_held_pull_holds_nothing_else_of_its_connection(world: World) -> None:
    a = await topic(world)
    held = await a.begin_pull(suspend_ms=15_000)
    began = world.now
    assert await a.send(queue_id=1) == 0
    assert world.now == began + ROUND_TRIP_S
    assert not held.done()


@simulated
async def test_the_pulls_of_a_connection_that_is_gone_are_forgotten(world: World) -> None:
    a = await topic(world)
    b = world.peer("b")
    held = await b.begin_pull(suspend_ms=15_000)
    await world.sleep(1)
    assert len(world.broker.pulls._parked) == 1
    world.simulation.network.cut("b")
    await world.sleep(1)
    assert len(world.broker.pulls._parked) == 0
    assert held.exception() is not None
    await a.send()
    await world.sleep(20)


@simulated
async def test_a_held_pull_of_a_deleted_topic_is_answered_that_it_is_gone(world: World) -> None:
    a = await topic(world)
    held = await a.begin_pull(suspend_ms=15_000)
    await a.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    assert (await held).code == ResponseCode.TOPIC_NOT_EXIST


@simulated
async def test_as_many_pulls_are_held_as_the_limit_says_and_the_next_is_notified_to_come_later(world: World) -> None:
    a = await topic(world)
    world.broker.pulls._parked = ParkedRequests(max_per_place=2)
    held = [await world.peer(name).begin_pull(suspend_ms=15_000) for name in "bc"]
    assert (await a.pull()).code == ResponseCode.PULL_NOT_FOUND
    assert (await a.pull(suspend_ms=15_000)).code == ResponseCode.SYSTEM_BUSY
    await a.send()
    assert [len(records(await one)) for one in held] == [1, 1]


# --- tags ------------------------------------------------------------------------------------------------------------
@simulated
async def test_a_filtered_pull_brings_only_what_matches(world: World) -> None:
    a = await topic(world)
    for tag in ("red", "blue", "red", "green"):
        await a.send(tag=tag)
    answer = await a.pull(tag_hashes=[tag_hash("red"), tag_hash("green")])
    assert [record.queue_offset for record in records(answer)] == [0, 2, 3]
    assert offsets(answer) == (4, 0, 4)


@simulated
async def test_a_filtered_pull_that_may_not_be_held_is_reported_how_far_nothing_matches(world: World) -> None:
    a = await topic(world)
    await a.send(tag="blue")
    answer = await a.pull(tag_hashes=[tag_hash("red")])
    assert (answer.code, offsets(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, (1, 0, 1))


@simulated
async def test_a_filtered_pull_stays_held_until_a_message_matches(world: World) -> None:
    a = await topic(world)
    await a.send(tag="blue")
    held = await a.begin_pull(suspend_ms=15_000, tag_hashes=[tag_hash("red")])
    for _ in range(50):
        await a.send(tag="blue")
    assert not held.done()
    await a.send(tag="red")
    answer = await held
    assert ([record.queue_offset for record in records(answer)], offsets(answer)) == ([51], (52, 0, 52))


@pytest.mark.parametrize(("suspend_ms", "held_s"), [(15_000, 5 + SKIPPED_PARK_S), (5_500, 5.5)])
@simulated
async def test_a_filtered_pull_that_nothing_matches_is_reported_a_moment_later_how_far_it_came(
    world: World, suspend_ms: int, held_s: float
) -> None:
    a = await topic(world)
    b = world.peer("b")
    await b.send(queue_id=1)
    began = world.now
    held = await a.begin_pull(suspend_ms=suspend_ms, tag_hashes=[tag_hash("red")])
    for moment in (5.0, 5.25):
        await world.sleep_until(began + moment)
        await b.send(tag="blue")
    answer = await held
    assert (answer.code, offsets(answer)) == (ResponseCode.PULL_NOT_FOUND, (2, 0, 2))
    assert world.now == began + held_s + ROUND_TRIP_S


@simulated
async def test_a_filter_that_skips_more_than_one_read_may_is_asked_to_go_on_at_once(world: World) -> None:
    a = await topic(world, store=StoreOptions(scan_records=4))
    for _ in range(10):
        await a.send(tag="blue")
    answer = await a.pull(suspend_ms=15_000, tag_hashes=[tag_hash("red")])
    assert (answer.code, offsets(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, (4, 0, 10))


# --- leases ----------------------------------------------------------------------------------------------------------
async def leased(world: World, session_timeout_s: float = 30.0) -> tuple[Peer, Peer, int]:
    """Two members of `g`, the first of which has queue 0 of `t`, and its token."""
    a = await topic(world)
    b = world.peer("b")
    await a.heartbeat(consumer(session_timeout_s=session_timeout_s))
    await b.heartbeat(consumer(session_timeout_s=3_600.0))
    return a, b, await a.token_of(0)


@simulated
async def test_a_pull_under_a_lease_is_served_to_its_owner_only(world: World) -> None:
    a, b, token = await leased(world)
    await a.send()
    assert len(records(await a.pull(client_id=a.client_id, token=token))) == 1
    for client_id, other in ((b.client_id, token), (a.client_id, token - 1), (a.client_id, -1)):
        assert (await b.pull(client_id=client_id, token=other)).code == ResponseCode.LEASE_LOST
    assert len(records(await b.pull())) == 1


@simulated
async def test_a_pull_held_under_a_lease_is_answered_when_another_member_is_granted_the_queue(world: World) -> None:
    a, b, token = await leased(world)
    held = await a.begin_pull(suspend_ms=60_000, client_id=a.client_id, token=token)
    await a.unlock(("t", 0, -1, token))
    await world.sleep(1)
    assert not held.done()
    granted_at = world.now + LATENCY_S
    await b.token_of(0)
    assert (await held).code == ResponseCode.LEASE_LOST
    assert world.now == granted_at + LATENCY_S


@simulated
async def test_an_owner_that_asks_for_its_queue_again_keeps_its_held_pull(world: World) -> None:
    a, _, token = await leased(world)
    held = await a.begin_pull(suspend_ms=60_000, client_id=a.client_id, token=token)
    assert await a.token_of(0) == token
    await world.sleep(1)
    assert not held.done()
    await a.send()
    assert len(records(await held)) == 1


@simulated
async def test_pulls_under_a_lease_keep_a_member_that_sends_no_heartbeats(world: World) -> None:
    a, b, token = await leased(world, session_timeout_s=3.0)
    for _ in range(5):
        await a.pull(client_id=a.client_id, token=token, suspend_ms=2_000)
    assert await b.members() == [a.client_id, b.client_id]
    await world.sleep(3)
    assert await b.members() == [b.client_id]


@simulated
async def test_messages_for_a_held_pull_are_not_sign_of_life_of_the_member_that_sent_it(world: World) -> None:
    a, b, _ = await leased(world, session_timeout_s=3.0)
    joined = world.now
    queues = range(4)
    tokens = [await a.token_of(queue_id) for queue_id in queues]
    held = [
        await a.begin_pull(queue_id=queue_id, suspend_ms=60_000, client_id=a.client_id, token=tokens[queue_id])
        for queue_id in queues
    ]
    await world.sleep_until(joined + 1)
    world.simulation.network.stall("a")
    for queue_id in queues:
        await b.send(queue_id=queue_id)
        await world.sleep(1)
    assert await b.members() == [b.client_id]
    assert not any(answer.done() for answer in held)


@pytest.mark.parametrize("suspend_ms", [0, 15_000])
@simulated
async def test_a_pull_without_a_token_needs_no_membership(world: World, suspend_ms: int) -> None:
    a = await topic(world)
    await a.send()
    assert len(records(await a.pull(suspend_ms=suspend_ms))) == 1


QUESTIONS = (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)


async def ask(peer: Peer, code: RequestCode, queue_id: int = 0, topic: str = "t", timestamp_ms: int = 0) -> int:
    header = {"topic": topic, "queue_id": queue_id, "timestamp_ms": timestamp_ms}
    return int((await peer.call(code, header)).header["offset"])


@simulated
async def test_an_empty_queue_begins_and_ends_at_0(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    assert [await ask(a, code) for code in QUESTIONS] == [0, 0, 0]


@simulated
async def test_a_queue_reports_its_oldest_and_its_next_offset(world: World) -> None:
    await world.start_broker(store=StoreOptions(segment_bytes=1))
    a = world.peer("a")
    for _ in range(4):
        await a.send()
    assert [await ask(a, code) for code in QUESTIONS] == [0, 4, 0]
    store = world.broker.store
    store.trim(store.written_position)
    oldest = store.min_offset(world.broker.topics.table.existing("t").topic_id, 0)
    assert oldest > 0
    assert [await ask(a, code) for code in QUESTIONS] == [oldest, 4, oldest]


@simulated
async def test_a_time_is_found_as_the_first_offset_stored_then_or_later(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    times_ms = []
    for _ in range(3):
        await world.sleep(10)
        times_ms.append(world.simulation.clock_ms())
        await a.send()
    assert [await ask(a, QUESTIONS[2], timestamp_ms=time_ms) for time_ms in times_ms] == [0, 1, 2]
    assert [await ask(a, QUESTIONS[2], timestamp_ms=time_ms + 1_000) for time_ms in times_ms] == [1, 2, 3]
    assert await ask(a, QUESTIONS[2], timestamp_ms=2**63 - 1) == 3


@pytest.mark.parametrize("code", QUESTIONS)
@simulated
async def test_a_queue_that_does_not_exist_has_no_offsets(world: World, code: RequestCode) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic("t", read=2, write=4)
    assert await ask(a, code, queue_id=3) == 0
    with pytest.raises(InvalidParameter, match="no queue 4"):
        await ask(a, code, queue_id=4)
    with pytest.raises(TopicNotExist, match="nowhere"):
        await ask(a, code, topic="nowhere")
