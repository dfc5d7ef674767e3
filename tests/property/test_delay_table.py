"""The delay table against a naive twin, over any order of arrival, delivery and restart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.retry.delay_table import DelayTable, LowWater

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 50)),
        st.tuples(st.just("deliver"), st.integers(0, 50)),
        st.tuples(st.just("fail"), st.integers(0, 50)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=40,
)


def restarted(low: LowWater, parked: list[int], marks: list[int]) -> DelayTable:
    """What a broker does after a restart: it reads both queues from the low water on."""
    table = DelayTable(low)
    for offset in range(low.delayed, len(parked)):
        table.add(offset, parked[offset])
    for mark in range(low.marks, len(marks)):
        table.done(marks[mark], mark)
    return table


@given(steps)
def test_every_message_is_delivered_once_it_is_due_and_never_twice(steps: list[tuple[str, int]]) -> None:
    parked: list[int] = []  # the log: due time of each parked message
    marks: list[int] = []  # the log: which message each mark names
    table = DelayTable()
    for step, at in steps:
        waiting = [offset for offset in range(len(parked)) if offset not in marks]
        if step == "add":
            table.add(len(parked), at)
            parked.append(at)
        elif step == "restart":
            table = restarted(table.low_water(), parked, marks)
        else:
            due = table.take_due(at, 100)
            assert sorted(due) == sorted((parked[offset], offset) for offset in waiting if parked[offset] <= at)
            for due_ms, offset in due:
                if step == "fail":
                    table.put_back(offset, due_ms)
                else:
                    table.done(offset, len(marks))
                    marks.append(offset)
        waiting = [offset for offset in range(len(parked)) if offset not in marks]
        assert len(table) == len(waiting)
        assert table.low_water().delayed == (waiting[0] if waiting else len(parked))
        earliest = min((parked[offset] for offset in waiting), default=None)
        assert earliest is None or (table.next_due_ms() or 0) <= earliest
