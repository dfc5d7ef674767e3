"""Where a queue begins and ends, and where it was at a time."""

from __future__ import annotations

import pytest

from broker.store.disk.options import StoreOptions
from model.errors import InvalidParameter, TopicNotExist
from remoting.wire.request_code import RequestCode
from tests.unit.broker.harness import Peer, World, simulated

QUESTIONS = (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)


async def ask(peer: Peer, code: RequestCode, queue_id: int = 0, topic: str = "t", timestamp_ms: int = 0) -> int:
    header = {"topic": topic, "queue_id": queue_id, "timestamp_ms": timestamp_ms}
    return int((await peer.call(code, header)).header["offset"])


@simulated
async def test_an_empty_queue_begins_and_ends_at_0(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    assert [await ask(a, code) for code in QUESTIONS] == [0, 0, 0]


@simulated
async def test_a_queue_tells_its_oldest_and_its_next_offset(world: World) -> None:
    await world.start_broker(store=StoreOptions(segment_bytes=1))
    a = world.peer("a")
    for _ in range(4):
        await a.send()
    assert [await ask(a, code) for code in QUESTIONS] == [0, 4, 0]
    store = world.broker.store
    store.trim(store.written_position)
    oldest = store.min_offset(world.broker.topics.existing("t").topic_id, 0)
    assert oldest > 0
    assert [await ask(a, code) for code in QUESTIONS] == [oldest, 4, oldest]


@simulated
async def test_a_time_is_found_as_the_first_offset_stored_then_or_later(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    times_ms = []
    for _ in range(3):
        await world.sleep(10)
        times_ms.append(world.simulation.clock_ms())
        await a.send()
    code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    assert [await ask(a, code, timestamp_ms=time_ms) for time_ms in times_ms] == [0, 1, 2]
    assert [await ask(a, code, timestamp_ms=time_ms + 1_000) for time_ms in times_ms] == [1, 2, 3]
    assert await ask(a, code, timestamp_ms=2**63) == 3


@pytest.mark.parametrize("code", QUESTIONS)
@simulated
async def test_a_queue_that_does_not_exist_has_no_offsets(world: World, code: RequestCode) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic("t", read=2, write=4)
    assert await ask(a, code, queue_id=3) == 0
    with pytest.raises(InvalidParameter, match="no queue 4"):
        await ask(a, code, queue_id=4)
    with pytest.raises(TopicNotExist, match="nowhere"):
        await ask(a, code, topic="nowhere")
