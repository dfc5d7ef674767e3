"""Pops, acknowledgements and handles over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import InvalidParameter, ReceiptHandleDead, TopicNotExist
from model.events import EventKind
from model.limits import MAX_ACKED_OFFSETS
from remoting.request_code import RequestCode
from tests.unit.broker.harness import ROUND_TRIP_S, World, simulated, unpacked
from tests.unit.broker.pop.pop_peer import INVISIBLE_S, ack, extend, header, pop, pop_one, popped, world_of


@simulated
async def test_members_of_a_group_share_one_queue_message_by_message(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=5)
    own, other = await pop_one(a, max_n=2), await pop_one(b)
    assert (own.offsets, other.offsets) == ([0, 1], [2, 3, 4])
    assert (own.attempts, own.queue_id) == ([1, 1], 0)
    assert await pop(a) == []
    assert await ack(a, own.row) == await ack(b, other.row) == []
    assert await a.committed() == 5


@simulated
async def test_what_is_not_acknowledged_in_time_is_redelivered_at_once_with_another_handle(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=2)
    first = await pop_one(a)
    start = world.now
    held = await b.begin(RequestCode.POP_MESSAGE, header(b, suspend_ms=30_000))
    assert await ack(a, [*first.row[:3], [1]]) == []
    [again] = popped(await held)
    assert INVISIBLE_S - 2 * ROUND_TRIP_S < world.now - start <= INVISIBLE_S + ROUND_TRIP_S
    assert (again.offsets, again.attempts) == ([0], [2])
    assert again.token != first.token
    assert await ack(a, first.row) == [["t", 0, 0], ["t", 0, 1]]
    assert await ack(b, again.row) == []
    [event] = world.of_kind(EventKind.MESSAGES_REDELIVERED)
    assert (event.client, event.offset, event.n) == (b.client_id, 0, 1)


@simulated
async def test_a_late_acknowledgement_is_good_until_the_message_is_delivered_again(world: World) -> None:
    [a] = await world_of(world, "a", messages=1)
    batch = await pop_one(a)
    await world.sleep(INVISIBLE_S + 5)
    assert await ack(a, batch.row) == []
    assert await pop(a) == []


@simulated
async def test_the_floor_waits_for_the_oldest_message(world: World) -> None:
    [a] = await world_of(world, "a", messages=3)
    batch = await pop_one(a)
    await ack(a, [*batch.row[:3], [1, 2]])
    assert await a.committed() == 0
    await ack(a, [*batch.row[:3], [0]])
    assert await a.committed() == 3


@simulated
async def test_groups_pop_the_same_messages(world: World) -> None:
    [a] = await world_of(world, "a", messages=1)
    first, other = await pop_one(a), await pop_one(a, group="h")
    assert first.offsets == other.offsets == [0]
    assert await ack(a, first.row, group="h") == [["t", 0, 0]]


@simulated
async def test_a_message_has_another_time_and_another_handle_after_it_was_extended(world: World) -> None:
    [a] = await world_of(world, "a", messages=2)
    batch = await pop_one(a)
    token = await extend(a, batch, 0, 60_000)
    with pytest.raises(ReceiptHandleDead, match="message 0 of t:0 is dead"):
        await extend(a, batch, 0, 60_000)
    await world.sleep(INVISIBLE_S + 1)
    assert (await pop_one(a)).offsets == [1]
    assert await ack(a, ["t", 0, token, [0]]) == []


@simulated
async def test_a_message_that_is_given_back_is_there_at_once(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=1)
    batch = await pop_one(a)
    held = await b.begin(RequestCode.POP_MESSAGE, header(b, suspend_ms=30_000))
    start = world.now
    await extend(a, batch, 0, 0)
    [again] = popped(await held)
    assert (again.offsets, again.attempts) == ([0], [2])
    assert world.now - start <= 3 * ROUND_TRIP_S


@simulated
async def test_a_handle_that_was_made_up_or_belongs_elsewhere_does_nothing(world: World) -> None:
    [a] = await world_of(world, "a", messages=2, queues=2)
    first, second = sorted(await pop(a))
    for token in (0, 1, 2**64 - 1, -1, second.token, first.token ^ 1):
        assert await ack(a, ["t", 0, token, [0]]) == [["t", 0, 0]]
    for place in (["t", 1, first.token, [0]], ["u", 0, first.token, [0]], ["t", -1, first.token, [0]]):
        assert len(await ack(a, place)) == 1
    for offset in (-1, 1, 2**63):
        assert await ack(a, ["t", 0, first.token, [offset]]) == [["t", 0, offset]]
    assert await ack(a, first.row, second.row) == []


@simulated
async def test_one_that_is_named_twice_is_acknowledged_once(world: World) -> None:
    [a] = await world_of(world, "a", messages=4)
    batch = await pop_one(a)
    assert await ack(a, [*batch.row[:3], [3, 0, 3, 2]]) == [["t", 0, 3]]
    assert await a.committed() == 1


@pytest.mark.parametrize(
    "body",
    [None, b"\xc1", [1], [["t", 0, 1]], [["t", 0, 1, [1.0]]], [["t", 0, 1, [True]]], [[0, 0, 1, []]], {"a": 1}],
)
@simulated
async def test_what_is_not_an_acknowledgement_is_refused(world: World, body: Any) -> None:
    [a] = await world_of(world, "a")
    with pytest.raises(InvalidParameter, match=r"must be an array of \[topic, queue id, token"):
        await a.call(RequestCode.ACK_MESSAGE, {"group": "g", "client_id": "c"}, body)


@simulated
async def test_an_acknowledgement_names_as_many_messages_as_the_limit_says_and_no_more(world: World) -> None:
    [a] = await world_of(world, "a")
    half = MAX_ACKED_OFFSETS // 2
    rows = [["t", 0, 1, list(range(half))], ["t", 0, 2, list(range(half))]]
    assert len(await ack(a, *rows)) == MAX_ACKED_OFFSETS
    with pytest.raises(InvalidParameter, match="at most"):
        await ack(a, *rows, ["t", 0, 1, [0]])


@pytest.mark.parametrize(
    "fields",
    [{"group": "a b"}, {"client_id": "c d"}, {"queue_id": 7}, {"consume_from": "THERE"}, {"tag_hashes": ["x"]}],
)
@simulated
async def test_a_pop_that_makes_no_sense_is_refused(world: World, fields: dict[str, Any]) -> None:
    [a] = await world_of(world, "a")
    with pytest.raises(InvalidParameter):
        await a.call(RequestCode.POP_MESSAGE, header(a, **fields))
    with pytest.raises(TopicNotExist):
        await a.call(RequestCode.POP_MESSAGE, header(a, topic="nowhere"))


@simulated
async def test_what_is_in_flight_is_reported(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=5)
    batch = await pop_one(a, max_n=2)
    await world.sleep(1)
    await pop_one(b, max_n=1, invisible_ms=2_000)
    await ack(a, [*batch.row[:3], [0]])
    stats = unpacked(await a.call(RequestCode.GET_POP_STATS, {"group": "g"}))
    [[topic, queue_id, floor, next_offset, invisible, due, oldest_ms, next_ms, attempts, draining, by_client]] = stats
    assert (topic, queue_id, floor, next_offset, invisible, due) == ("t", 0, 1, 3, 2, 0)
    assert oldest_ms == pytest.approx(1_000, abs=50)
    assert next_ms == pytest.approx(2_000, abs=50)
    assert (attempts, draining) == (1, False)
    assert by_client == [[a.client_id, 1], [b.client_id, 1]]
    assert unpacked(await a.call(RequestCode.GET_POP_STATS, {"group": "g", "topic": "u"})) == []
