"""Pops that are cancelled while they wait, and while their deliveries are being stored."""

from __future__ import annotations

from typing import Any

import pytest

from model.response_code import ResponseCode
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode
from tests.unit.broker.harness import ADDRESS, Peer, World, simulated
from tests.unit.broker.pop.pop_peer import header, pop_one, popped, world_of


async def cancel(peer: Peer, opaque: int, **fields: Any) -> bool:
    request = {"group": "g", "client_id": peer.client_id, "pop": opaque, **fields}
    return bool((await peer.call(RequestCode.CANCEL_POP, request)).header["is_cancelled"])


def opaque_of(peer: Peer) -> int:
    """Opaque of the last request of a peer."""
    connection = peer.remoting.connected(ADDRESS)
    assert connection is not None
    return connection._session._opaque


@simulated
async def test_a_pop_that_is_cancelled_gets_nothing_and_the_message_goes_to_another(world: World) -> None:
    a, b = await world_of(world, "a", "b")
    held = await a.begin(RequestCode.POP_MESSAGE, header(a, suspend_ms=30_000))
    opaque = opaque_of(a)
    other = await b.begin(RequestCode.POP_MESSAGE, header(b, suspend_ms=30_000))
    await world.sleep(1)
    for wrong in ({"group": "other"}, {"pop": opaque + 1_000}, {"client_id": "another"}):
        assert not await cancel(a, opaque, **wrong)
    assert not await cancel(b, opaque + 1_000)
    assert await cancel(a, opaque)
    assert (await held).code == ResponseCode.PULL_NOT_FOUND
    assert not await cancel(a, opaque)
    await b.send()
    assert [batch.offsets for batch in popped(await other)] == [[0]]


@simulated
async def test_all_held_pops_of_a_member_are_cancelled_and_none_of_another_group(world: World) -> None:
    [a] = await world_of(world, "a")
    held = [
        await a.begin(RequestCode.POP_MESSAGE, header(a, group=group, suspend_ms=30_000)) for group in ("g", "g", "h")
    ]
    await world.sleep(1)
    answer = await a.call(RequestCode.CANCEL_POP, {"group": "g", "client_id": a.client_id})
    assert answer.header["is_cancelled"]
    assert [pop.done() for pop in held] == [True, True, False]


@simulated
async def test_messages_that_were_being_stored_for_a_cancelled_pop_are_visible_at_once_and_not_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await world_of(world, "a", "b", messages=2)
    shipped = world.broker.pop._answers.answer

    def cancelled(connection: Connection, request: Any, batches: Any) -> None:
        shipped(connection, request, batches)
        member = {"group": "g", "client_id": a.client_id}
        for named, is_cancelled in (({"pop": request.opaque + 1}, False), ({}, True)):
            cancel = Command(0, RequestCode.CANCEL_POP, 7, {**member, **named}, None)
            assert world.broker.pop._answers.cancel(connection, cancel) == is_cancelled

    with monkeypatch.context() as patched:
        patched.setattr(world.broker.pop._answers, "answer", cancelled)
        answer = await (await a.begin(RequestCode.POP_MESSAGE, header(a)))
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    again = await pop_one(b)
    assert (again.offsets, again.attempts) == ([0, 1], [1, 1])
