"""A reset over the wire: all queues or none, stored before it is answered, and final for whoever had them."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import IllegalOperation, InvalidParameter, LeaseLost, NoPermission, TopicNotExist
from model.events import EventKind
from model.heartbeat import MessageModel
from model.response_code import ResponseCode
from remoting.client import raise_for_code
from remoting.request_code import RequestCode
from testbed.simulation.kernel.run import EPOCH_MS
from tests.unit.broker.harness import LATENCY_S, ROUND_TRIP_S, Peer, World, consumer, simulated, unpacked


async def reset(peer: Peer, to: str, value: int | None = None, *, topic: str = "t", **fields: Any) -> list[Any]:
    """Reset group `g`; returns [queue id, before, after, clamped, owner] of each queue."""
    header = {"group": "g", "topic": topic, "to": to, "value": value, **fields}
    rows: list[Any] = unpacked(await peer.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header))
    return rows


async def consuming(world: World, *, messages: int = 10, **options: Any) -> tuple[Peer, Peer, int]:
    """An operator, a member that has queue 0 of topic `t` and has committed 4, and its token."""
    await world.start_broker(**options)
    operator, member = world.peer("operator"), world.peer("a")
    await operator.put_topic(read=2)
    await member.heartbeat(consumer())
    for _ in range(messages):
        await operator.send()
    token = await member.token_of(0)
    await member.commit(4, token)
    member.pushes.clear()
    return operator, member, token


@simulated
async def test_every_queue_of_the_topic_is_reset_and_the_answer_reports_from_where_to_where(world: World) -> None:
    operator, member, _ = await consuming(world)
    assert await reset(operator, "earliest") == [[0, 4, 0, False, member.client_id], [1, -1, 0, False, ""]]
    assert await reset(operator, "latest") == [[0, 0, 10, False, ""], [1, 0, 0, False, ""]]
    assert (await member.committed(0), await member.committed(1)) == (10, 0)


@simulated
async def test_a_time_is_that_of_the_first_message_stored_then_or_later(world: World) -> None:
    operator, _, _ = await consuming(world)
    await world.sleep(10)
    now_ms = EPOCH_MS + int(world.now * 1000)
    await operator.send()
    assert [row[2] for row in await reset(operator, "time", now_ms)] == [10, 0]
    assert [row[2] for row in await reset(operator, "time", now_ms + 60_000)] == [11, 0]
    assert [row[2] for row in await reset(operator, "time", 0)] == [0, 0]


@simulated
async def test_only_the_named_queues_are_reset(world: World) -> None:
    operator, member, _ = await consuming(world)
    assert await reset(operator, "offset", 7, queue_ids=[0]) == [[0, 4, 7, False, member.client_id]]
    for wrong in ([2], [-1], ["0"], [], [0, 2]):
        with pytest.raises(InvalidParameter):
            await reset(operator, "earliest", queue_ids=wrong)
    assert await member.committed(0) == 7


@simulated
async def test_what_lies_beyond_an_end_becomes_that_end_and_the_answer_says_so(world: World) -> None:
    operator, _, _ = await consuming(world)
    assert [row[1:4] for row in await reset(operator, "shift", -100, queue_ids=[0])] == [[4, 0, True]]
    assert [row[1:4] for row in await reset(operator, "shift", 3, queue_ids=[0])] == [[0, 3, False]]
    assert [row[1:4] for row in await reset(operator, "offset", 11, queue_ids=[0])] == [[3, 10, True]]


@simulated
async def test_one_queue_that_cannot_be_reset_leaves_all_as_they_were(world: World) -> None:
    operator, member, token = await consuming(world)
    with pytest.raises(InvalidParameter, match=r"t:1, group 'g': .* nothing to shift from"):
        await reset(operator, "shift", -1)
    assert await member.committed(0) == 4
    assert await member.commit(5, token) == []
    assert world.of_kind(EventKind.OFFSET_RESET) == []


@simulated
async def test_a_dry_run_reports_all_and_changes_nothing(world: World) -> None:
    operator, member, token = await consuming(world)
    assert await reset(operator, "earliest", dry_run=True) == [
        [0, 4, 0, False, member.client_id],
        [1, -1, 0, False, ""],
    ]
    assert await member.commit(5, token) == []
    assert member.pushes == []


@simulated
async def test_the_owner_is_notified_and_its_token_is_not_a_good_from_then_on(world: World) -> None:
    operator, member, token = await consuming(world)
    held = await member.begin_pull(offset=10, suspend_ms=10_000, client_id=member.client_id, token=token)
    await world.sleep(1)
    started = world.now
    await reset(operator, "earliest")
    await world.sleep(LATENCY_S)
    with pytest.raises(LeaseLost):
        raise_for_code(held.result())
    [(moment, code, header)] = member.pushes
    assert (moment, code) == (started + ROUND_TRIP_S, RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
    assert (header["topic"], header["broker_name"], header["queue_ids"], header["token"]) == (
        "t",
        "broker-a",
        [0],
        token,
    )
    [[_, _, refused, _]] = await member.commit(8, token)
    assert refused == int(ResponseCode.LEASE_LOST)
    assert await member.unlock(("t", 0, 9, token)) != []
    [[_, _, new_token, offset]], _ = await member.lock(0)
    assert (new_token > token, offset) == (True, 0)


@simulated
async def test_a_late_commit_of_anyone_who_gave_the_queue_back_cannot_undo_the_reset(world: World) -> None:
    operator, member, token = await consuming(world)
    await member.unlock(("t", 0, 5, token))
    await reset(operator, "earliest")
    [[_, _, refused, _]] = await member.commit(8, token)
    assert refused == int(ResponseCode.LEASE_LOST)
    assert await member.committed() == 0


@simulated
async def test_anyone_who_waited_for_the_queue_is_reported_that_it_is_free(world: World) -> None:
    operator, member, _ = await consuming(world)
    other = world.peer("b")
    await other.heartbeat(consumer())
    await other.lock(0)
    await world.sleep(1)
    other.pushes.clear()
    await reset(operator, "latest")
    await world.sleep(1)
    assert [code for _, code, _ in other.pushes] == [RequestCode.NOTIFY_QUEUES_RELEASED]
    [expired] = world.of_kind(EventKind.LOCK_EXPIRED)
    assert (expired.client, expired.detail) == (member.client_id, "reset")


@simulated
async def test_each_reset_queue_is_an_event_and_all_have_one_cause(world: World) -> None:
    operator, member, _ = await consuming(world)
    world.events.clear()
    await reset(operator, "shift", -1, queue_ids=[0])
    await reset(operator, "earliest")
    first, *others = world.of_kind(EventKind.OFFSET_RESET)
    assert (first.group, first.topic, first.queue_id, first.client) == ("g", "t", 0, member.client_id)
    assert (first.offset, first.detail, first.cause) == (3, "shift", first.id)
    assert [(event.queue_id, event.offset, event.cause) for event in others] == [
        (0, 0, others[0].id),
        (1, 0, others[0].id),
    ]


@simulated
async def test_the_event_of_a_reset_is_behind_all_leases_before_it_whether_its_queue_has_an_owner_or_not(
    world: World,
) -> None:
    operator, member, token = await consuming(world)
    world.events.clear()
    await reset(operator, "earliest")
    await reset(operator, "latest")
    had, had_not = world.of_kind(EventKind.OFFSET_RESET)[::2]
    assert (had.client, had_not.client) == (member.client_id, "")
    assert had.version == had_not.version >= token
    assert await member.token_of(0) == had.version + 1


@simulated
async def test_a_reset_that_was_answered_survives_a_restart_and_so_does_the_end_of_the_lease(world: World) -> None:
    operator, member, token = await consuming(world)
    await reset(operator, "earliest")
    await world.stop_broker()
    await world.start_broker()
    await world.sleep(1)  # until the peers have seen that their connections are gone
    assert await operator.committed() == 0
    await member.heartbeat(consumer())
    [[_, _, refused, _]] = await member.commit(8, token)
    assert refused == int(ResponseCode.LEASE_LOST)


@simulated
async def test_a_group_that_no_one_knows_may_be_given_its_offsets_and_the_answer_says_that_it_is_new(
    world: World,
) -> None:
    await world.start_broker()
    operator = world.peer("operator")
    await operator.put_topic(read=1)
    await operator.send()
    for known in (False, True):
        header = {"group": "new", "topic": "t", "to": "latest"}
        answer = await operator.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        assert answer.header["known"] is known
    assert await operator.committed(group="new") == 1


@simulated
async def test_what_cannot_be_reset_is_refused(world: World) -> None:
    operator, member, _ = await consuming(world)
    with pytest.raises(TopicNotExist):
        await reset(operator, "earliest", topic="nowhere")
    with pytest.raises(InvalidParameter, match="not to 'tomorrow'"):
        await reset(operator, "tomorrow")
    with pytest.raises(InvalidParameter, match="cannot have the value -5"):
        await reset(operator, "offset", -5)
    with pytest.raises(NoPermission, match="is not readable"):
        await reset(operator, "earliest", topic="SCHEDULE_TOPIC_XXXX")
    await member.heartbeat(consumer(model=MessageModel.BROADCASTING))
    with pytest.raises(IllegalOperation, match="each member keeps offsets of its own"):
        await reset(operator, "earliest")
