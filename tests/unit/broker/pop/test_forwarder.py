"""Where a message goes that is not delivered from its queue again."""

from __future__ import annotations

from model.events import EventKind
from model.record import iter_records
from tests.unit.broker.harness import World, consumer, simulated
from tests.unit.broker.pop.pop_peer import INVISIBLE_S, pop, pop_one, world_of


@simulated
async def test_a_message_is_a_dead_letter_after_its_last_delivery(world: World) -> None:
    [a] = await world_of(world, "a", messages=2)
    for n in (1, 2):
        batch = await pop_one(a, max_attempts=2)
        assert batch.attempts == [n, n]
        await world.sleep(INVISIBLE_S)
    assert await pop(a, max_attempts=2) == []
    await world.sleep(1)
    letters = await pop_one(a, group="operator", topic="%DLQ%g")
    assert letters.offsets == [0, 1]
    assert await a.committed() == 2
    [event] = world.of_kind(EventKind.DEAD_LETTER)
    assert (event.topic, event.offset, event.n) == ("t", 0, 2)


@simulated
async def test_what_is_not_acknowledged_while_a_queue_is_handed_over_goes_to_the_retry_topic(world: World) -> None:
    a, b = await world_of(world, "a", "b", messages=2)
    await b.heartbeat(consumer())
    await pop_one(a)
    await b.lock(0)
    await world.sleep(INVISIBLE_S + 1)
    [[_, _, _, offset]], _ = await b.lock(0)
    assert offset == 2
    answer = await b.pull("%RETRY%g", 0, 0)
    assert [record.times_delivered for record in iter_records(answer.body or b"")] == [1, 1]
