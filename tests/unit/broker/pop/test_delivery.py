"""Which messages a pop gets: of which queues, through a filter, in order."""

from __future__ import annotations

from model.message import tag_hash
from remoting.request_code import RequestCode
from tests.unit.broker.harness import World, consumer, simulated
from tests.unit.broker.pop.pop_peer import INVISIBLE_S, ack, header, pop, pop_one, popped, world_of


@simulated
async def test_no_queue_starves_while_another_is_full(world: World) -> None:
    [a] = await world_of(world, "a", messages=400, queues=4)
    seen = [batch.queue_id for _ in range(8) for batch in await pop(a)]
    assert sorted(seen) == [0, 0, 1, 1, 2, 2, 3, 3]


@simulated
async def test_one_pop_takes_from_several_queues(world: World) -> None:
    [a] = await world_of(world, "a", messages=6, queues=4)
    batches = await pop(a, max_n=5)
    assert sum(len(batch.offsets) for batch in batches) == 5
    assert len({batch.queue_id for batch in batches}) == len(batches)


@simulated
async def test_what_a_filter_passes_over_is_done_with_for_the_group(world: World) -> None:
    [a] = await world_of(world, "a")
    for tag in ("x", "y", "x", "y"):
        await a.send(tag=tag)
    batch = await pop_one(a, tag_hashes=[tag_hash("y")])
    assert batch.offsets == [1, 3]
    await ack(a, batch.row)
    assert await a.committed() == 4


@simulated
async def test_a_filter_that_nothing_passes_moves_the_group_on(world: World) -> None:
    [a] = await world_of(world, "a", messages=3)
    assert await pop(a, tag_hashes=[tag_hash("y")]) == []
    assert await a.committed() == 3


@simulated
async def test_in_order_one_batch_of_a_queue_is_in_flight_at_a_time(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=5)
    first = await pop_one(a, max_n=2, order=True)
    assert await pop(b, order=True) == []
    held = await b.begin(RequestCode.POP_MESSAGE, header(b, order=True, suspend_ms=30_000))
    await ack(a, [*first.row[:3], [0]])
    assert not held.done()
    await ack(a, [*first.row[:3], [1]])
    [second] = popped(await held)
    assert second.offsets == [2, 3, 4]


@simulated
async def test_in_order_what_failed_is_redelivered_before_what_follows(world: World) -> None:
    [a] = await world_of(world, "a", messages=5)
    first = await pop_one(a, max_n=3, order=True)
    await ack(a, [*first.row[:3], [1]])
    await world.sleep(INVISIBLE_S)
    assert (await pop_one(a, max_n=1, order=True)).offsets == [0]
    await world.sleep(INVISIBLE_S)
    again = await pop_one(a, order=True)
    assert (again.offsets, again.attempts) == ([0, 2, 3, 4], [3, 2, 1, 1])


@simulated
async def test_the_retry_topic_of_the_group_is_served_too(world: World) -> None:
    [a] = await world_of(world, "a", messages=1)
    await a.heartbeat(consumer())
    [batch] = await pop(a)
    await ack(a, batch.row)
    fields = {"group": "g", "topic": "t", "queue_id": 0, "offset": 0, "max_attempts": 16, "delay_ms": 0}
    await a.call(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
    held = await a.begin(RequestCode.POP_MESSAGE, header(a, suspend_ms=5_000))
    [again] = popped(await held)
    assert (again.topic, again.attempts) == ("%RETRY%g", [2])
    assert await ack(a, again.row) == []
