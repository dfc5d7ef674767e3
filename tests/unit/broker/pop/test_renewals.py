"""Invisible times that the broker extends while the client is connected."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.pop.renewals import Renewals
from model.heartbeat import ConsumeType
from model.limits import MAX_RENEWAL_S, MAX_RENEWED_OF_CONNECTION
from remoting.connection import Connection
from remoting.request_code import RequestCode
from tests.unit.broker.harness import Peer, World, consumer, simulated
from tests.unit.broker.pop.pop_peer import INVISIBLE_S, Popped, ack, extend, header, pop, pop_one, popped, world_of

SLICE_MS = 10_000


async def keep(peer: Peer, *batches: Popped, **fields: Any) -> None:
    rows = [[batch.topic, batch.queue_id, batch.token] for batch in batches]
    await peer.call(RequestCode.KEEP_MESSAGES, {"group": "g", "client_id": peer.client_id, **fields}, rows)


async def pop_renewed(peer: Peer, **fields: Any) -> Popped:
    """Pop, and keep what has come."""
    batch = await pop_one(peer, **{"invisible_ms": SLICE_MS, **fields})
    await keep(peer, batch)
    return batch


@simulated
async def test_a_message_stays_invisible_under_its_handle_while_its_client_is_connected(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=2)
    batch = await pop_renewed(a)
    for _ in range(10):
        await world.sleep(9)
        assert await pop(b) == []
    assert await ack(a, batch.row) == []
    assert await a.committed() == 2


@pytest.mark.parametrize("lived_s", [1.0, 14.0, 25.5])
@simulated
async def test_the_messages_of_a_client_that_is_gone_are_visible_at_the_end_of_a_slice(
    world: World, lived_s: float
) -> None:
    a, b = await world_of(world, "a", "b", messages=2)
    batch = await pop_renewed(a)
    await world.sleep(lived_s)
    await a.close()
    start = world.now
    held = await b.begin(RequestCode.POP_MESSAGE, header(b, suspend_ms=30_000))
    [again] = popped(await held)
    assert (again.offsets, again.attempts) == ([0, 1], [2, 2])
    assert SLICE_MS / 1000 - lived_s % 10 - 0.1 < world.now - start < SLICE_MS / 1000 - lived_s % 10 + 0.1
    assert await ack(b, batch.row) == [["t", 0, 0], ["t", 0, 1]]


@simulated
async def test_messages_are_extended_once_their_client_has_reported_that_it_has_them(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=3)
    kept, lost = await pop_one(a, max_n=1), await pop_one(a, max_n=1)
    await keep(a, kept)
    await keep(a, kept)
    await keep(b, lost)
    await keep(a, lost, group="other")
    await world.sleep(INVISIBLE_S - 1)
    late = await pop_one(a, max_n=1)
    await world.sleep(1.1)
    assert (await pop_one(b)).offsets == lost.offsets
    await keep(a, late._replace(token=late.token + 1), lost)
    await world.sleep(8 * INVISIBLE_S)
    assert [batch.offsets for batch in await pop(b)] == [[*lost.offsets, *late.offsets]]
    await world.stop_broker()
    await world.sleep(1)
    await world.start_broker()
    await a.heartbeat(consumer(consume_type=ConsumeType.POP))
    await world.sleep(2 * INVISIBLE_S)
    assert await ack(a, kept.row) == []


@simulated
async def test_messages_that_are_visible_again_are_not_kept(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=1)
    batch = await pop_one(a)
    await world.sleep(INVISIBLE_S + 1)
    await keep(a, batch)
    assert (await pop_one(b)).attempts == [2]


@simulated
async def test_a_client_that_comes_back_over_another_connection_keeps_its_messages(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=2)
    batch = await pop_renewed(a, max_n=1)
    await a.close()
    await world.sleep(5)
    again = world.peer("a")
    other = await pop_renewed(again)
    await world.sleep(60)
    assert await pop(b) == []
    assert await ack(again, batch.row, other.row) == []


@simulated
async def test_over_a_restart_of_the_broker_the_messages_of_a_member_that_comes_back_stay_its_own(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=2)
    member = consumer(consume_type=ConsumeType.POP)
    await a.heartbeat(member)
    batch = await pop_renewed(a)
    await world.sleep(25)
    await world.stop_broker()
    await world.sleep(1)
    await world.start_broker()
    await a.heartbeat(member)
    for _ in range(8):
        await world.sleep(6)
        assert await pop(b) == []
        await a.heartbeat(member)
    assert await ack(a, batch.row) == []


@simulated
async def test_a_client_that_is_not_there_after_a_restart_has_lost_its_messages_after_a_slice(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=1)
    await pop_renewed(a)
    await world.sleep(25)
    await world.stop_broker()
    await world.sleep(1)
    await world.start_broker()
    await world.sleep(3)
    assert await pop(b) == []
    await world.sleep(1.1)
    assert (await pop_one(b)).attempts == [2]


@simulated
async def test_a_client_that_unregisters_has_its_messages_delivered_to_others_at_once(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=3)
    await pop_renewed(a, max_n=1)
    await pop_one(a, max_n=1, invisible_ms=60_000)
    held = await b.begin(RequestCode.POP_MESSAGE, header(b, max_n=32, suspend_ms=30_000))
    assert popped(await held)[0].offsets == [2]
    held = await b.begin(RequestCode.POP_MESSAGE, header(b, max_n=32, suspend_ms=30_000))
    start = world.now
    await a.unregister("g")
    [again] = popped(await held)
    assert (again.offsets, world.now - start < 0.1) == ([0], True)


@simulated
async def test_a_new_process_with_the_id_of_an_old_one_does_not_keep_the_messages_of_that(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=1)
    member = consumer(consume_type=ConsumeType.POP)
    await a.heartbeat(member, run_id="one")
    await pop_renewed(a)
    await a.close()
    again = world.peer("a")
    await again.heartbeat(member, run_id="two")
    assert (await pop_one(b)).attempts == [2]


@simulated
async def test_a_member_whose_heartbeats_fail_loses_its_messages_at_the_end_of_the_slice(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=1)
    await a.heartbeat(consumer(consume_type=ConsumeType.POP, session_timeout_s=15.0))
    await pop_renewed(a)
    await world.sleep(14)
    assert await pop(b) == []
    await world.sleep(6.1)
    assert (await pop_one(b)).attempts == [2]


@simulated
async def test_no_message_is_kept_for_more_than_three_hours(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=1)
    await pop_renewed(a)
    await world.sleep(MAX_RENEWAL_S - 1)
    assert await pop(b) == []
    await world.sleep(1.1)
    assert (await pop_one(b)).attempts == [2]


@simulated
async def test_a_message_whose_invisible_time_is_changed_is_not_extended_any_more(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=2)
    batch = await pop_renewed(a)
    await extend(a, batch, 0, 15_000)
    await world.sleep(15.1)
    assert (await pop_one(b)).offsets == [0]
    await world.sleep(60)
    assert await ack(a, [*batch.row[:3], [1]]) == []


class OpenConnection:
    closed = False


def test_of_the_clients_behind_one_connection_the_first_are_forgotten_at_the_limit() -> None:
    groups: Any = SimpleNamespace(connection_of=lambda group, client_id: None)
    core: Any = SimpleNamespace(loop=SimpleNamespace(time=lambda: 5.0), barrier=SimpleNamespace(metadata_changed=int))
    renewals = Renewals(core, groups, cast(Any, None))
    connection = cast(Connection, OpenConnection())
    for n in range(MAX_RENEWED_OF_CONNECTION + 1):
        renewals.record_client("g", str(n), connection)

    def is_extended(client_id: str) -> bool:
        batch: Any = SimpleNamespace(client_id=client_id, renew_s=1.0, since=0.0)
        return renewals.until(cast(Any, SimpleNamespace(key=SimpleNamespace(group="g"))), batch) is not None

    assert [is_extended(str(n)) for n in (0, 1, MAX_RENEWED_OF_CONNECTION)] == [False, True, True]
    renewals.closed(connection)
    assert not is_extended("1")
