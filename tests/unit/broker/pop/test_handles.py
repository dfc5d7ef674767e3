"""Messages that go to the dead-letter queue because their consumer asks for it."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from model.errors import ReceiptHandleDead, StorageFull
from model.events import EventKind
from model.record import iter_records
from remoting.request_code import RequestCode
from tests.unit.broker.harness import FailingDisk, Peer, World, simulated, unpacked
from tests.unit.broker.pop.pop_peer import (
    INVISIBLE_S,
    Popped,
    ack,
    extend,
    header,
    pop,
    pop_one,
    popped,
    world_of,
)


async def dead_letter(peer: Peer, batch: Popped, offset: int, token: int = 0) -> None:
    place = {"group": "g", "client_id": peer.client_id, "topic": batch.topic, "queue_id": batch.queue_id}
    await peer.call(RequestCode.POP_DEAD_LETTER, {**place, "offset": offset, "token": token or batch.token})


@simulated
async def test_a_message_is_a_dead_letter_at_the_request_of_its_consumer_and_acknowledged(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=3)
    batch = await pop_one(a)
    await dead_letter(a, batch, 1)
    [record] = iter_records((await a.pull("%DLQ%g", 0, 0)).body or b"")
    assert record.times_delivered == 1
    assert await ack(a, batch.row) == [["t", 0, 1]]
    assert await a.committed() == 3
    await world.sleep(2 * INVISIBLE_S)
    assert await pop(b) == []
    [event] = world.of_kind(EventKind.DEAD_LETTER)
    assert (event.topic, event.offset, event.n) == ("t", 1, 1)


@simulated
async def test_a_failed_message_waits_for_the_delay_of_its_group_where_operators_have_set_any(world: World) -> None:
    [a] = await world_of(world, "a", messages=1)
    batch = await pop_one(a)
    token = await extend(a, batch, 0, 3_000, failed_attempts=1)
    await a.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {"group": "g", "retry_delays_ms": [500, 1_000]})
    await world.sleep(2.9)
    assert await pop(a) == []
    await world.sleep(0.2)
    for attempts, delay_s in ((2, 1.0), (3, 1.0)):
        batch = await pop_one(a)
        assert batch.attempts == [attempts]
        await extend(a, batch, 0, 3_000, failed_attempts=attempts)
        await world.sleep(delay_s - 0.1)
        assert await pop(a) == []
        await world.sleep(0.2)
    batch = await pop_one(a)
    token = await extend(a, batch, 0, 3_000)
    await world.sleep(2.9)
    assert await pop(a) == []
    assert await ack(a, ["t", 0, token, [0]]) == []


async def give_back(peer: Peer, *rows: list[Any]) -> list[list[Any]]:
    request = {"group": "g", "client_id": peer.client_id}
    dead: list[list[Any]] = unpacked(await peer.call(RequestCode.RETURN_MESSAGES, request, list(rows)))
    return dead


@simulated
async def test_messages_that_are_returned_are_received_by_another_at_once_as_if_never_delivered(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=3)
    batch = await pop_one(a)
    await a.call(RequestCode.KEEP_MESSAGES, {"group": "g", "client_id": a.client_id}, [["t", 0, batch.token]])
    held = await b.begin(RequestCode.POP_MESSAGE, header(b, suspend_ms=30_000))
    await world.sleep(1)
    start = world.now
    assert await give_back(a, [*batch.row[:3], [0, 2]]) == []
    [again] = popped(await held)
    assert (again.offsets, again.attempts, world.now - start < 0.1) == ([0, 2], [1, 1], True)
    assert await give_back(a, batch.row) == [["t", 0, 0], ["t", 0, 2]]
    assert (await pop_one(b)).offsets == [1]
    assert await give_back(a, ["t", 0, 7, [1]], ["u", 0, 7, [1]]) == [["t", 0, 1], ["u", 0, 1]]


@simulated
async def test_a_message_that_was_returned_is_acknowledged_by_its_old_handle_until_it_is_delivered_again(
    world: World,
) -> None:
    [a] = await world_of(world, "a", messages=2)
    batch = await pop_one(a)
    await give_back(a, batch.row)
    assert await give_back(a, batch.row) == [["t", 0, 0], ["t", 0, 1]], "they are visible"
    assert await ack(a, [*batch.row[:3], [0]]) == []
    await world.stop_broker()
    await world.sleep(1)
    await world.start_broker()
    again = await pop_one(a)
    assert (again.offsets, again.attempts) == ([1], [1])


@simulated
async def test_a_dead_handle_moves_nothing(world: World) -> None:
    [a] = await world_of(world, "a", messages=2)
    batch = await pop_one(a)
    await ack(a, [*batch.row[:3], [0]])
    await extend(a, batch, 1, 1_000)
    for offset in (0, 1, 7):
        with pytest.raises(ReceiptHandleDead, match=f"message {offset} of t:0 is dead"):
            await dead_letter(a, batch, offset)
    assert "%DLQ%g" not in world.broker.topics.table.names().values()


@simulated
async def test_a_message_in_order_makes_room_for_the_next_one_as_a_dead_letter(world: World) -> None:
    [a] = await world_of(world, "a", messages=2)
    first = await pop_one(a, order=True, max_n=1)
    assert await pop(a, order=True) == []
    await dead_letter(a, first, 0)
    assert (await pop_one(a, order=True)).offsets == [1]


@simulated
async def test_a_message_that_was_delivered_again_and_again_keeps_its_number_of_deliveries(world: World) -> None:
    [a] = await world_of(world, "a", messages=1)
    for n in (1, 2):
        assert (await pop_one(a)).attempts == [n]
        await world.sleep(INVISIBLE_S)
    batch = await pop_one(a)
    await dead_letter(a, batch, 0)
    [record] = iter_records((await a.pull("%DLQ%g", 0, 0)).body or b"")
    assert record.times_delivered == 3


@simulated
async def test_a_message_of_the_retry_topic_can_be_one_too(world: World) -> None:
    [a] = await world_of(world, "a")
    await a.put_topic("%RETRY%g", read=1)
    await a.send("%RETRY%g")
    batch = await pop_one(a)
    assert batch.topic == "%RETRY%g"
    await dead_letter(a, batch, 0)
    assert len(list(iter_records((await a.pull("%DLQ%g", 0, 0)).body or b""))) == 1


@simulated
async def test_a_handle_is_as_dead_after_a_restart_and_there_is_one_dead_letter(world: World) -> None:
    [a] = await world_of(world, "a", messages=1)
    batch = await pop_one(a)
    await dead_letter(a, batch, 0)
    await world.stop_broker()
    await world.sleep(1)
    await world.start_broker()
    with pytest.raises(ReceiptHandleDead):
        await dead_letter(a, batch, 0)
    await world.sleep(INVISIBLE_S)
    assert await pop(a) == []
    assert len(list(iter_records((await a.pull("%DLQ%g", 0, 0)).body or b""))) == 1


@simulated
async def test_on_a_full_disk_the_message_is_no_dead_letter_and_delivered_again_soon(world: World) -> None:
    disk = FailingDisk()
    [a] = await world_of(world, "a", messages=1, files=disk)
    batch = await pop_one(a)
    disk.errno = errno.ENOSPC
    with pytest.raises(StorageFull):
        await dead_letter(a, batch, 0)
    disk.errno = None
    await world.sleep(2.0)
    assert (await pop_one(a)).offsets == [0]
