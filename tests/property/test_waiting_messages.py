"""The lag estimate of a replay, with arrays for all queues at once, against one that counts queue by queue."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.replay.costs import waiting_messages

Rows = list[list[float]]


def count_waiting(arriving: Rows, most: Rows, owner: list[list[int]], members: int, room: float) -> Rows:
    """The naive twin: in each step, every member shares its room out among its queues by what they want."""
    waiting = [0.0] * len(arriving[0])
    after: Rows = []
    for arrived, limits, owners in zip(arriving, most, owner, strict=True):
        waiting = [before + new for before, new in zip(waiting, arrived, strict=True)]
        wanted = [min(each, limit) for each, limit in zip(waiting, limits, strict=True)]
        for member in range(members):
            of_member = [queue for queue, each in enumerate(owners) if each == member]
            wish = sum(wanted[queue] for queue in of_member)
            for queue in of_member:
                waiting[queue] -= wanted[queue] * (min(1.0, room / wish) if wish else 0.0)
        after.append(waiting)
    return after


@given(st.data(), st.integers(1, 6), st.integers(1, 4), st.integers(1, 12), st.sampled_from([0.5, 1.0, 4.0]))
def test_waiting_messages_are_those_that_a_count_queue_by_queue_finds(
    data: st.DataObject, queues: int, members: int, steps: int, room: float
) -> None:
    def rows(values: st.SearchStrategy[float]) -> Rows:
        return data.draw(st.lists(st.lists(values, min_size=queues, max_size=queues), min_size=steps, max_size=steps))

    arriving = rows(st.sampled_from([0.0, 0.25, 1.0, 3.0]))
    most = rows(st.sampled_from([0.0, room / 2, room]))
    owner = [[int(each) for each in row] for row in rows(st.integers(0, members - 1).map(float))]
    found = waiting_messages(np.array(arriving), np.array(most), np.array(owner), members, room)
    assert found.tolist() == [pytest.approx(row) for row in count_waiting(arriving, most, owner, members, room)]
