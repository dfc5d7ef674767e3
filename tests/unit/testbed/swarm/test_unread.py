"""Which offsets of which queues hold what a group has still to read of a run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from client.admin.records import QueueProgress
from model.message_queue import MessageQueue
from testbed.swarm.unread import unread_ranges

QUEUES = [MessageQueue("t", "b", number) for number in range(3)]
OFFSETS = st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 6))


@given(begins=OFFSETS, ends=OFFSETS, committed=st.dictionaries(st.sampled_from(QUEUES), st.none() | st.integers(0, 6)))
def test_an_offset_is_unread_if_it_is_of_this_run_and_not_committed(
    begins: dict[MessageQueue, int], ends: dict[MessageQueue, int], committed: dict[MessageQueue, int | None]
) -> None:
    progress = [
        QueueProgress(queue=queue, min_offset=0, max_offset=ends.get(queue, 0), committed=offset, owner=None)
        for queue, offset in committed.items()
    ]
    found = unread_ranges(begins, ends, progress)
    for queue in QUEUES:
        unread = [
            offset
            for offset in range(ends.get(queue, 0))
            if offset >= begins.get(queue, 0) and offset >= (committed.get(queue) or 0)
        ]
        assert list(range(*found.get(queue, (0, 0)))) == unread


def test_the_retry_queues_of_the_group_are_searched_too() -> None:
    retry = MessageQueue("%RETRY%g", "b", 0)
    row = QueueProgress(queue=retry, min_offset=0, max_offset=4, committed=1, owner=None)
    assert unread_ranges({}, {}, [row]) == {retry: (1, 4)}
