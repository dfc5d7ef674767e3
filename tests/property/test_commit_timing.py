"""Laws of the two waits of a commit: for a pull at the member, and for its row at the broker."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from broker.leases.unstored_commits import GroupQueueKey, UnstoredCommits
from client.leases.commit_waits import CommitWaits
from model.limits import COMMIT_STORE_S, COMMIT_WAIT_S

STEPS = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.floats(0.0, 0.5)), max_size=60)


@dataclass(eq=False)
class Queue:
    unsent: bool = False


@given(STEPS)
def test_no_offset_waits_longer_than_the_limit_and_none_that_a_pull_took_is_sent(
    steps: list[tuple[int, bool, float]],
) -> None:
    waits: CommitWaits[Queue] = CommitWaits()
    queues, since, now = [Queue() for _ in range(4)], dict[Queue, float](), 0.0

    def advance(until: float) -> None:
        """Let time pass as the task does that waits for the next deadline."""
        nonlocal now
        while (deadline := waits.next_deadline()) is not None and deadline <= until:
            now = max(now, deadline)
            taken = waits.remove_due(now)
            assert set(taken) == {queue for queue in queues if queue.unsent}
            assert now == min(since[queue] for queue in taken) + COMMIT_WAIT_S
            for queue in taken:
                queue.unsent = False
        now = until

    for number, by_pull, later_s in steps:
        advance(now + later_s)
        queue = queues[number]
        if by_pull:
            queue.unsent = False
        elif not queue.unsent:
            queue.unsent = True
            since[queue] = now
            waits.add(queue, now)
    advance(now + 1)
    assert not any(queue.unsent for queue in queues)


@given(STEPS)
def test_each_commit_is_stored_within_the_limit_and_no_queue_more_often_than_that(
    steps: list[tuple[int, bool, float]],
) -> None:
    unstored, now = UnstoredCommits(), 0.0
    since: dict[GroupQueueKey, float] = {}  # the oldest commit of each queue that is not stored
    stored_at: dict[GroupQueueKey, float] = {}

    def advance(until: float) -> None:
        nonlocal now
        while (deadline := unstored.next_deadline()) is not None and deadline <= until:
            now = max(now, deadline)
            taken = unstored.remove_due(now)
            assert taken.keys() == since.keys()
            for place in taken:
                assert now - since.pop(place) <= COMMIT_STORE_S + 1e-9
                assert now - stored_at.get(place, -COMMIT_STORE_S) >= COMMIT_STORE_S - 1e-9
                stored_at[place] = now
        now = until

    for number, at_once, later_s in steps:
        advance(now + later_s)
        place = ("g", "t", number)
        if at_once:
            assert (unstored.pop(place) is not None) == (since.pop(place, None) is not None)
        else:
            unstored.add(place, "A", now)
            since.setdefault(place, now)
    advance(now + 2 * COMMIT_STORE_S)
    assert not since
