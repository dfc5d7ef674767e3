"""The memory of what was re-sent, over the wire: it survives restarts, and ends with the topic."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import InvalidParameter, TopicNotExist
from remoting.wire.request_code import RequestCode
from tests.unit.broker.harness import Peer, World, simulated, unpacked

DLQ = "%DLQ%g"


async def mark(peer: Peer, *offsets: int, queue_id: int = 0, body: Any = None) -> tuple[int, list[int]]:
    """Mark letters of group `g`; returns (all below are marked, and those from there on)."""
    header = {"group": "g", "queue_id": queue_id}
    answer = await peer.call(RequestCode.MARK_DEAD_LETTERS, header, list(offsets) if body is None else body)
    return answer.header["below"], unpacked(answer)


async def with_letters(world: World, n: int = 5) -> Peer:
    await world.start_broker()
    peer = world.peer("operator")
    await peer.put_topic(DLQ, read=1)
    for _ in range(n):
        await peer.send(DLQ)
    return peer


@simulated
async def test_marks_add_up_and_asking_marks_nothing(world: World) -> None:
    peer = await with_letters(world)
    assert await mark(peer) == (0, [])
    assert await mark(peer, 3) == (0, [3])
    assert await mark(peer, 0, 1) == (2, [3])
    assert await mark(peer, body=b"") == (2, [3])
    assert await mark(peer, 2) == (4, [])


@simulated
async def test_marks_survive_a_restart(world: World) -> None:
    peer = await with_letters(world)
    await mark(peer, 0, 3)
    await world.stop_broker()
    await world.start_broker()
    await world.sleep(1)
    assert await mark(peer) == (1, [3])


@simulated
async def test_a_topic_of_dead_letters_that_is_made_again_has_no_marks(world: World) -> None:
    peer = await with_letters(world)
    await mark(peer, 0, 3)
    await peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": DLQ})
    with pytest.raises(TopicNotExist):
        await mark(peer)
    await peer.put_topic(DLQ, read=1)
    assert await mark(peer) == (0, [])
    await world.stop_broker()
    await world.start_broker()
    await world.sleep(1)
    assert await mark(peer) == (0, [])


@simulated
async def test_what_is_no_letter_cannot_be_marked(world: World) -> None:
    peer = await with_letters(world)
    for wrong in ([5], [-1], ["0"], [0.0], {"0": 1}, b"\xc1", list(range(5)) * 1_000):
        with pytest.raises(InvalidParameter, match="must be an array"):
            await mark(peer, body=wrong)
    with pytest.raises(InvalidParameter, match="has no queue 1"):
        await mark(peer, 0, queue_id=1)
    assert await mark(peer) == (0, [])
