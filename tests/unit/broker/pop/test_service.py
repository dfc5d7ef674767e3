"""Pops that are held, beside leases, and over restarts."""

from __future__ import annotations

import pytest

from broker.config import Part
from broker.retention.plan import RetentionOptions
from broker.store.disk.options import StoreOptions
from model.assignment import BROKER_STRATEGY
from model.errors import RequestCodeNotSupported, StorageFull
from model.events import EventKind
from model.heartbeat import ConsumeFrom, ConsumeType
from model.limits import MAX_PARKED_REQUESTS_PER_QUEUE
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from tests.unit.broker.harness import World, consumer, records, simulated, unpacked
from tests.unit.broker.pop.pop_peer import INVISIBLE_S, ack, extend, header, pop, pop_one, popped, world_of


@simulated
async def test_a_pop_is_held_until_something_comes_or_its_time_is_over(world: World) -> None:
    [a] = await world_of(world, "a")
    start = world.now
    assert await pop(a, suspend_ms=2_000) == []
    assert 2 <= world.now - start <= 2.1
    held = await a.begin(RequestCode.POP_MESSAGE, header(a, suspend_ms=30_000))
    await a.send()
    assert [batch.offsets for batch in popped(await held)] == [[0]]


@simulated
async def test_a_message_wakes_one_of_those_who_wait_and_the_one_that_waits_longest(world: World) -> None:
    a, b = await world_of(world, "a", "b")
    first = await a.begin(RequestCode.POP_MESSAGE, header(a, suspend_ms=30_000))
    await world.sleep(1)
    second = await b.begin(RequestCode.POP_MESSAGE, header(b, suspend_ms=30_000))
    await world.sleep(1)
    await a.send()
    assert len(popped(await first)) == 1
    await world.sleep(1)
    assert not second.done()
    assert world.broker.pop.stats()["held_pops"] == 1


@simulated
async def test_one_that_was_dropped_is_given_messages_all_the_same_and_is_listed_again_with_its_next_heartbeat(
    world: World,
) -> None:
    a, b = await world_of(world, "a", "b", messages=2)
    member = consumer(consume_type=ConsumeType.POP, session_timeout_s=5.0)
    await a.heartbeat(member)
    batch = await pop_one(a, max_n=1)
    await world.sleep(6)
    assert await b.members() == []
    assert (await pop_one(a, max_n=1)).offsets == [1]
    assert await ack(a, batch.row) == []
    await a.heartbeat(member)
    assert await b.members() == [a.client_id]


@simulated
async def test_a_pop_of_a_connection_that_is_gone_takes_nothing(world: World) -> None:
    a, b = await world_of(world, "a", "b")
    held = await b.begin(RequestCode.POP_MESSAGE, header(b, suspend_ms=30_000))
    await world.sleep(1)
    assert not held.done()
    await b.close()
    await world.sleep(1)
    await a.send()
    assert len(await pop(a)) == 1


@simulated
async def test_the_pops_of_a_group_in_order_are_in_order_whatever_they_ask_for(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=4)
    held = await b.begin(RequestCode.POP_MESSAGE, header(b, suspend_ms=30_000, queue_id=0))
    assert popped(await held)[0].offsets == [0, 1, 2, 3]
    await world.sleep(INVISIBLE_S)
    await a.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {"group": "g", "fifo": True})
    first = await pop_one(a, max_n=2)
    assert await pop(b) == []
    await ack(a, [*first.row[:3], [1]])
    assert await pop(b) == [], "message 0 is invisible"
    await world.sleep(INVISIBLE_S)
    assert (await pop_one(b, max_n=1)).offsets == [0]
    assert len(await pop(b, group="other")) == 1
    assert await pop(a, group="g") == []
    await a.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {"group": "g", "fifo": False})
    assert (await pop_one(a)).offsets == [2, 3]


@simulated
async def test_a_topic_that_is_deleted_ends_its_pops_and_its_handles(world: World) -> None:
    [a] = await world_of(world, "a", messages=1)
    batch = await pop_one(a)
    held = await a.begin(RequestCode.POP_MESSAGE, header(a, suspend_ms=30_000))
    await a.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    assert (await held).code == ResponseCode.TOPIC_NOT_EXIST
    await a.put_topic(read=1)
    await a.send()
    assert await ack(a, batch.row) == [["t", 0, 0]]
    assert (await pop_one(a)).attempts == [1]


@simulated
async def test_a_group_that_is_deleted_begins_again(world: World) -> None:
    [a] = await world_of(world, "a", messages=1)
    batch = await pop_one(a)
    await a.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"group": "g"})
    assert await ack(a, batch.row) == [["t", 0, 0]]
    assert (await pop_one(a)).attempts == [1]


@simulated
async def test_a_queue_that_a_member_has_leased_is_passed_over(world: World) -> None:
    [a] = await world_of(world, "a", messages=2, queues=2)
    await a.heartbeat(consumer())
    token = await a.token_of(0)
    assert [batch.queue_id for batch in await pop(a)] == [1]
    held = await a.begin(RequestCode.POP_MESSAGE, header(a, suspend_ms=30_000))
    await a.unlock(("t", 0, -1, token))
    assert [batch.queue_id for batch in popped(await held)] == [0]


@pytest.mark.parametrize("is_stale", ["told to pop", "pops by itself", "gave the topic up", "left", ""])
@simulated
async def test_a_queue_that_becomes_free_goes_to_held_pops_unless_a_member_waits_to_pull_it(
    world: World, is_stale: str
) -> None:
    a, b, c = await world_of(world, "a", "b", "c", messages=1)
    for peer in (a, b):
        await peer.heartbeat(consumer(strategy=BROKER_STRATEGY))
    token = await a.token_of(0)
    assert (await b.lock(0))[0] == []
    match is_stale:
        case "told to pop":
            mode = {"group": "g", "topic": "t", "mode": "POP", "pop_share_queue_num": -1}
            await a.call(RequestCode.SET_MESSAGE_REQUEST_MODE, mode)
        case "pops by itself":
            await b.heartbeat(consumer(consume_type=ConsumeType.POP))
        case "gave the topic up":
            await b.heartbeat(consumer("g", "u", strategy=BROKER_STRATEGY))
        case "left":
            await b.unregister("g")
    held = await c.begin(RequestCode.POP_MESSAGE, header(c, suspend_ms=30_000))
    await world.sleep(1)
    assert not held.done()
    await a.unlock(("t", 0, -1, token))
    await world.sleep(1)
    assert held.done() == bool(is_stale)
    if not is_stale:
        assert len((await b.lock(0))[0]) == 1


@simulated
async def test_a_lease_is_refused_while_messages_are_in_flight_and_anyone_who_asked_is_notified_when_none_is(
    world: World,
) -> None:
    a, b = await world_of(world, "a", "b", messages=3)
    await b.heartbeat(consumer())
    batch = await pop_one(a, max_n=2)
    granted, refused = await b.lock(0)
    assert (granted, refused) == ([], [["t", 0, ""]])
    assert await pop(a) == []  # the queue drains
    await ack(a, [*batch.row[:3], [0]])
    assert b.pushed(RequestCode.NOTIFY_QUEUES_RELEASED) == []
    await ack(a, [*batch.row[:3], [1]])
    await world.sleep(1)
    assert len(b.pushed(RequestCode.NOTIFY_QUEUES_RELEASED)) == 1
    [[_, _, _, offset]], _ = await b.lock(0)
    assert offset == 2


@simulated
async def test_no_one_else_commits_a_queue_of_which_messages_are_in_flight_but_an_operator_may_reset_it(
    world: World,
) -> None:
    [a] = await world_of(world, "a", messages=3)
    batch = await pop_one(a, max_n=2)
    [[_, _, code, _]] = await a.commit(3)
    assert code == ResponseCode.LEASE_LOST
    assert await a.commit(1, reset=True) == []
    assert await ack(a, batch.row) == [["t", 0, 0], ["t", 0, 1]]
    assert (await pop_one(a)).offsets == [1, 2]


@simulated
async def test_after_a_restart_the_group_has_committed_what_it_had(world: World) -> None:
    [a] = await world_of(world, "a", messages=6)
    batch = await pop_one(a, max_n=6)
    await ack(a, [*batch.row[:3], [0, 1, 2]])
    await world.stop_broker()
    await world.sleep(1)
    await world.start_broker()
    assert await a.committed() == 3
    await ack(a, batch.row)
    await world.stop_broker()
    await world.sleep(1)
    await world.start_broker()
    assert await a.committed() == 6


@simulated
async def test_a_queue_whose_handles_are_forgotten_keeps_its_commit_over_a_restart(world: World) -> None:
    [a] = await world_of(world, "a", messages=6)
    await ack(a, (await pop_one(a, max_n=4)).row)
    # Nothing new for the group's commit, so nobody but the ledger stores it; and the window goes.
    assert await a.commit(4, reset=True) == []
    await world.stop_broker()
    await world.sleep(1)
    await world.start_broker()
    assert await a.committed() == 4
    await ack(a, (await pop_one(a)).row)
    await a.heartbeat(consumer())
    assert await a.token_of(0) > 0
    await world.stop_broker()
    await world.sleep(1)
    await world.start_broker()
    assert await a.committed() == 6


@simulated
async def test_after_a_restart_handles_are_as_good_and_times_go_on(world: World) -> None:
    [a] = await world_of(world, "a", messages=6)
    first = await pop_one(a, max_n=2, invisible_ms=20_000)
    second = await pop_one(a, max_n=4)
    await ack(a, [*first.row[:3], [0]], [*second.row[:3], [3]])
    token = await extend(a, second, 2, 15_000)
    await world.stop_broker()
    await world.sleep(5)
    await world.start_broker()
    assert await ack(a, first.row) == [["t", 0, 0]]
    assert await ack(a, ["t", 0, token, [2]]) == []
    start = world.now
    [again] = popped(await (await a.begin(RequestCode.POP_MESSAGE, header(a, suspend_ms=30_000))))
    assert (again.offsets, again.attempts) == ([4, 5], [2, 2])
    assert world.now - start < INVISIBLE_S - 5 + 0.1
    assert await a.committed() == 4


# --- when something is wrong -----------------------------------------------------------------------------------------
@simulated
async def test_when_the_member_that_a_queue_drains_for_leaves_pops_go_on(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=3)
    await b.heartbeat(consumer())
    await pop_one(a, max_n=1)
    await b.lock(0)
    held = await a.begin(RequestCode.POP_MESSAGE, header(a, suspend_ms=30_000))
    await world.sleep(1)
    assert not held.done()
    await b.unregister("g")
    assert [batch.offsets for batch in popped(await held)] == [[1, 2]]


@simulated
async def test_on_a_full_disk_nothing_is_handed_out_or_acknowledged_and_all_of_it_is_there_again_later(
    world: World,
) -> None:
    [a] = await world_of(world, "a", messages=40)
    batch = await pop_one(a)
    db = world.broker.metadata._db
    (pages,) = db.execute("pragma page_count").fetchone()
    db.execute(f"pragma max_page_count = {pages}")
    codes = []
    for n in range(100):
        answer = await (await a.begin(RequestCode.POP_MESSAGE, header(a, group=f"{'x' * 100}{n}")))
        codes.append(answer.code)
    assert codes[-1] == ResponseCode.STORAGE_FULL
    with pytest.raises(StorageFull):
        await ack(a, batch.row)
    with pytest.raises(StorageFull):
        await a.call(RequestCode.POP_MESSAGE, header(a))
    db.execute("pragma max_page_count = 1000000")
    rest = await pop_one(a)
    assert (rest.offsets, set(rest.attempts)) == ([*range(32, 40)], {1})
    assert await a.committed() == 32


@simulated
async def test_messages_that_were_deleted_while_they_were_in_flight_are_passed_over_and_that_is_reported(
    world: World,
) -> None:
    store, retention = StoreOptions(segment_bytes=1_000), RetentionOptions(retain_ms=None, retain_bytes_max=3_000)
    [a] = await world_of(world, "a", store=store, retention=retention)
    for _ in range(10):
        await a.send(body=bytes(100))
    await pop_one(a, max_n=3)
    for _ in range(40):
        await a.send(body=bytes(100))
    await world.sleep(30)
    low = world.broker.store.min_offset(world.broker.topics.table.existing("t").topic_id, 0)
    assert low > 10
    batch = await pop_one(a)
    assert (batch.offsets[0], batch.attempts[0]) == (low, 1)
    await ack(a, batch.row)
    assert await a.committed() == batch.offsets[-1] + 1
    assert {(event.topic, event.offset) for event in world.of_kind(EventKind.OFFSET_MOVED)} == {("t", low)}


@simulated
async def test_no_more_pops_are_held_than_the_limit_says(world: World) -> None:
    a, *others = await world_of(world, "a", "b", "c", "d", "e")
    for peer in others:
        for _ in range(MAX_PARKED_REQUESTS_PER_QUEUE // 4 - (peer is others[-1])):
            other = await peer.begin(RequestCode.POP_MESSAGE, header(peer, suspend_ms=30_000))
            assert not other.done()
    await world.sleep(1)
    held = await a.begin(RequestCode.POP_MESSAGE, header(a, suspend_ms=30_000))
    answer = await (await a.begin(RequestCode.POP_MESSAGE, header(a, suspend_ms=30_000)))
    assert answer.code == ResponseCode.POLLING_FULL
    assert not held.done()


@simulated
async def test_one_of_two_who_wait_gets_what_is_left_when_the_first_messages_were_deleted_in_flight(
    world: World,
) -> None:
    store, retention = StoreOptions(segment_bytes=1_000), RetentionOptions(retain_ms=None, retain_bytes_max=3_000)
    a, b = await world_of(world, "a", "b", store=store, retention=retention)
    for _ in range(32):
        await a.send(body=bytes(100))
    await pop_one(a, invisible_ms=40_000)
    await world.sleep(30)
    low = world.broker.store.min_offset(world.broker.topics.table.existing("t").topic_id, 0)
    assert 0 < low < 31
    one = await a.begin(RequestCode.POP_MESSAGE, header(a, suspend_ms=30_000, max_n=31))
    other = await b.begin(RequestCode.POP_MESSAGE, header(b, suspend_ms=30_000, max_n=31))
    got = [popped(await answer) for answer in (one, other)]
    assert sorted(offset for batches in got for batch in batches for offset in batch.offsets) == [*range(low, 32)]


@simulated
async def test_a_broker_without_pop_refuses_pops_and_does_all_the_rest(world: World) -> None:
    [a] = await world_of(world, "a", messages=2, parts=frozenset(Part) - {Part.POP})
    for code, fields in (
        (RequestCode.POP_MESSAGE, header(a)),
        (RequestCode.GET_POP_STATS, {"group": "g"}),
    ):
        with pytest.raises(RequestCodeNotSupported):
            await a.call(code, fields)
    await a.heartbeat(consumer(consume_from=ConsumeFrom.FIRST_OFFSET))
    [[_, _, token, offset]], refused = await a.lock(0)
    assert (offset, refused) == (0, [])
    assert len(records(await a.pull(offset=0))) == 2
    await a.commit(2, token=token)
    info = unpacked(await a.call(RequestCode.GET_BROKER_RUNTIME_INFO))
    assert (info["held_pops"], info["pop_messages"]) == (0, 0)
    await a.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
