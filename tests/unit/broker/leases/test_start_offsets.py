"""Where a group starts on a queue: at its commit, or else where its policy says, and never behind what it may miss."""

from __future__ import annotations

from typing import Any

from model.heartbeat import ConsumeFrom
from testbed.simulation.kernel.run import EPOCH_MS
from tests.unit.broker.harness import Peer, World, consumer, records, simulated


async def start_of(peer: Peer, queue_id: int = 0, topic: str = "t", group: str = "g") -> int:
    [[_, _, _, offset]], _ = await peer.lock(queue_id, topic=topic, group=group)
    return int(offset)


async def three_then_group_then_two(world: World, **changes: Any) -> Peer:
    """Three messages in queue 0, then group `g` is created, then two more; returns its member."""
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    for _ in range(3):
        await a.send()
        await world.sleep(10)
    await a.heartbeat(consumer(**changes))
    await world.sleep(10)
    for _ in range(2):
        await a.send()
    return a


@simulated
async def test_last_means_when_the_group_came_to_life_so_nothing_later_is_skipped(world: World) -> None:
    a = await three_then_group_then_two(world)
    assert await start_of(a) == 3


@simulated
async def test_first_means_the_oldest_message_that_is_left(world: World) -> None:
    a = await three_then_group_then_two(world, consume_from=ConsumeFrom.FIRST_OFFSET)
    assert await start_of(a) == 0


@simulated
async def test_a_timestamp_means_the_first_message_stored_then_or_later(world: World) -> None:
    a = await three_then_group_then_two(
        world, consume_from=ConsumeFrom.TIMESTAMP, consume_timestamp_ms=EPOCH_MS + 5_000
    )
    assert await start_of(a) == 1


@simulated
async def test_a_queue_that_was_created_after_the_group_starts_at_0(world: World) -> None:
    a = await three_then_group_then_two(world)
    await a.put_topic("t", read=8)
    await a.send(queue_id=7)
    assert await start_of(a, 7) == 0
    await a.send("young")
    assert await start_of(a, 0, "young") == 0


@simulated
async def test_a_member_that_knows_an_older_group_makes_it_start_earlier(world: World) -> None:
    a = await three_then_group_then_two(world)
    b = world.peer("b")
    await b.heartbeat(consumer(group_created_ms=EPOCH_MS + 15_000))
    assert await start_of(b) == 2
    assert await a.lock(1) is not None


@simulated
async def test_a_commit_counts_more_than_any_policy(world: World) -> None:
    a = await three_then_group_then_two(world, consume_from=ConsumeFrom.FIRST_OFFSET)
    await a.commit(4)
    assert await start_of(a) == 4


@simulated
async def test_a_retry_topic_is_always_read_from_its_beginning(world: World) -> None:
    a = await three_then_group_then_two(world)
    await a.send("%RETRY%g")
    b = world.peer("b")
    await b.heartbeat(consumer("g", "%RETRY%g"))
    assert await start_of(b, 0, "%RETRY%g") == 0
    assert len(records(await b.pull("%RETRY%g"))) == 1
