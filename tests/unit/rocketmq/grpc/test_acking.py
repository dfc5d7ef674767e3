"""Acknowledgements, changes of the invisible time and dead letters over gRPC."""

from __future__ import annotations

import pytest

from model.limits import MAX_INVISIBLE_MS
from rocketmq.grpc import proto
from tests.unit.broker.harness import World, simulated
from tests.unit.rocketmq.grpc.grpc_client import ack_of, bodies, change_of, dead_letter_of, received, with_messages
from tests.unit.rocketmq.test_sending import read


@simulated
async def test_each_entry_of_an_acknowledgement_has_a_result(world: World) -> None:
    client = await with_messages(world, 2)
    first, second = await received(client)
    done = await client.one("AckMessage", ack_of(first))
    assert (done.status.code, [entry.status.code for entry in done.entries]) == (proto.OK, [proto.OK])
    mixed = await client.one("AckMessage", ack_of(first, second))
    assert mixed.status.code == proto.MULTIPLE_RESULTS
    assert [entry.status.code for entry in mixed.entries] == [proto.INVALID_RECEIPT_HANDLE, proto.OK]
    assert mixed.entries[1].receipt_handle == second.system_properties.receipt_handle
    dead = await client.one("AckMessage", ack_of(first, second))
    assert dead.status.code == proto.INVALID_RECEIPT_HANDLE
    assert "is dead" in dead.status.message
    assert (await client.one("AckMessage", ack_of())).status.code == proto.BAD_REQUEST


@simulated
async def test_a_text_that_is_no_handle_is_refused_and_the_others_are_acknowledged(world: World) -> None:
    client = await with_messages(world, 1)
    [message] = await received(client)
    request = ack_of(message, message)
    request.entries[0].receipt_handle = "garbage"
    found = await client.one("AckMessage", request)
    assert [entry.status.code for entry in found.entries] == [proto.INVALID_RECEIPT_HANDLE, proto.OK]
    del request.entries[1]
    assert (await client.one("AckMessage", request)).status.code == proto.INVALID_RECEIPT_HANDLE


@simulated
async def test_a_changed_invisible_time_gives_a_new_handle_and_ends_the_old_one(world: World) -> None:
    client = await with_messages(world, 1)
    [message] = await received(client)
    changed = await client.one("ChangeInvisibleDuration", change_of(message, 2_000))
    assert changed.status.code == proto.OK
    old = message.system_properties.receipt_handle
    assert changed.receipt_handle != old
    refused = await client.one("ChangeInvisibleDuration", change_of(message, 2_000))
    assert (refused.status.code, refused.receipt_handle) == (proto.INVALID_RECEIPT_HANDLE, old)
    began = world.now
    [again] = await received(client, poll_ms=20_000)
    assert world.now - began == pytest.approx(2, abs=0.1)
    assert again.system_properties.delivery_attempt == 2


@simulated
async def test_an_invisible_time_of_zero_makes_a_message_visible_at_once(world: World) -> None:
    client = await with_messages(world, 1)
    [message] = await received(client)
    assert (await client.one("ChangeInvisibleDuration", change_of(message, 0))).status.code == proto.OK
    assert bodies(await received(client, poll_ms=0)) == [b"0"]


@simulated
async def test_a_change_that_is_refused_has_the_old_handle(world: World) -> None:
    client = await with_messages(world, 1)
    [message] = await received(client)
    wrong = change_of(message, MAX_INVISIBLE_MS + 1)
    found = await client.one("ChangeInvisibleDuration", wrong)
    assert (found.status.code, found.receipt_handle) == (proto.ILLEGAL_INVISIBLE_TIME, wrong.receipt_handle)
    wrong = change_of(message, 1_000)
    wrong.receipt_handle = "garbage"
    found = await client.one("ChangeInvisibleDuration", wrong)
    assert (found.status.code, found.receipt_handle) == (proto.INVALID_RECEIPT_HANDLE, "garbage")


@simulated
async def test_a_dead_letter_is_in_the_dlq_of_the_group_and_acknowledged(world: World) -> None:
    client = await with_messages(world, 1)
    [message] = await received(client)
    found = await client.one("ForwardMessageToDeadLetterQueue", dead_letter_of(message))
    assert found.status.code == proto.OK
    [dead] = await read(world.peer("b"), "%DLQ%g")
    assert dead.body == b"0"
    assert (await client.one("AckMessage", ack_of(message))).status.code == proto.INVALID_RECEIPT_HANDLE
    again = await client.one("ForwardMessageToDeadLetterQueue", dead_letter_of(message))
    assert (again.status.code, "is dead" in again.status.message) == (proto.OK, True), "a client would ask for ever"
    assert len(await read(world.peer("b"), "%DLQ%g")) == 1
