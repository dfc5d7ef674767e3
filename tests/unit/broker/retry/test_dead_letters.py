"""The memory of what was re-sent, over the wire: it survives restarts, and ends with the topic."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.retry.dead_letters import ResentMarks
from model.errors import InvalidParameter, SystemBusy, TopicNotExist
from model.limits import MAX_RESENT_MARKS
from remoting.request_code import RequestCode
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
async def test_a_topic_of_dead_letters_that_is_recreated_has_no_marks(world: World) -> None:
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
async def test_what_is_not_a_letter_cannot_be_marked(world: World) -> None:
    peer = await with_letters(world)
    for wrong in ([5], [-1], ["0"], [0.0], {"0": 1}, b"\xc1", list(range(5)) * 1_000):
        with pytest.raises(InvalidParameter, match="must be an array"):
            await mark(peer, body=wrong)
    with pytest.raises(InvalidParameter, match="has no queue 1"):
        await mark(peer, 0, queue_id=1)
    assert await mark(peer) == (0, [])


@given(st.lists(st.tuples(st.sets(st.integers(0, 30), max_size=8), st.integers(0, 20)), max_size=12))
def test_marks_equal_a_naive_set(steps: list[tuple[set[int], int]]) -> None:
    resent, twin, oldest = ResentMarks(), set[int](), 0
    for offsets, trimmed in steps:
        oldest = max(oldest, trimmed)
        resent.mark(offsets, oldest=oldest)
        twin |= offsets | set(range(oldest))
        assert [offset for offset in range(40) if offset in resent] == sorted(twin)
        assert resent.below not in resent
        assert all(offset > resent.below for offset in resent.above)
        again = ResentMarks(resent.below, resent.above)
        assert [offset for offset in range(40) if offset in again] == sorted(twin)


def test_marks_with_gaps_are_bounded_and_what_is_refused_changes_nothing() -> None:
    resent = ResentMarks()
    gaps = range(1, 2 * MAX_RESENT_MARKS, 2)
    resent.mark(gaps, oldest=0)
    with pytest.raises(SystemBusy, match="re-send that at offset 0 first"):
        resent.mark([2 * MAX_RESENT_MARKS + 1], oldest=0)
    assert resent.above == list(gaps)
    resent.mark([0], oldest=0)
    assert resent.below == 2
    resent.mark([2 * MAX_RESENT_MARKS + 1], oldest=0)
