"""The delay table against a naive twin, over any order of arrivals, deliveries, deleted topics, copies, restarts."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.retry import delay_table
from broker.retry.delay_table import DelayTable, LowWaterMarks

steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["add", "deliver", "fail"]), st.integers(1, 50)),
        st.tuples(st.just("delete"), st.integers(0, 1)),
        st.tuples(st.sampled_from(["move", "restart"]), st.just(0)),
    ),
    max_size=40,
)


@dataclass
class Twin:
    """What is in the log, and which topics are there: the rest follows."""

    parked: list[tuple[int, str]] = field(default_factory=list)  # (due, topic) of each delayed message
    marks: list[int] = field(default_factory=list)  # which message each mark names
    gone: set[int] = field(default_factory=set)  # messages whose topic was deleted after they were parked

    @property
    def waiting(self) -> list[int]:
        return [offset for offset in range(len(self.parked)) if offset not in self.marks]

    def due(self, offset: int) -> int:
        return 0 if offset in self.gone else self.parked[offset][0]

    def restarted(self, low: LowWaterMarks) -> DelayTable:
        """What a broker does after a restart: it reads both queues from the low water on."""
        table = DelayTable(low)
        for offset in range(low.delayed, len(self.parked)):
            due_ms, topic = self.parked[offset]
            table.add(offset, due_ms, None if offset in self.gone else topic)
        for mark in range(low.marks, len(self.marks)):
            table.done(self.marks[mark], mark)
        return table


@pytest.fixture(autouse=True)
def _little_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the lists are made anew, and marks joined, in a few steps."""
    monkeypatch.setattr(delay_table, "_SLACK", 2)
    monkeypatch.setattr(delay_table, "MAX_DELAY_MARKS", 3)


@given(steps)
def test_every_message_is_delivered_once_it_is_due_and_never_twice(steps: list[tuple[str, int]]) -> None:
    twin, table = Twin(), DelayTable()
    for step, at in steps:
        waiting = twin.waiting
        if step == "add":
            topic = "even" if at % 2 == 0 else "odd"
            table.add(len(twin.parked), at, topic)
            twin.parked.append((at, topic))
        elif step == "restart":
            table = twin.restarted(table.low_water())
        elif step == "delete":
            topic = "even" if at == 0 else "odd"
            going = {offset for offset in waiting if twin.parked[offset][1] == topic} - twin.gone
            assert table.delete_topic(topic) == len(going)
            twin.gone |= going
        elif step == "move":
            for offset in waiting[:2]:
                assert table.due_times([offset])[offset] in (twin.due(offset), twin.parked[offset][0])
                copy, topic_now = len(twin.parked), table.topic_of(offset)
                table.add(copy, twin.parked[offset][0], topic_now)
                table.done(offset, len(twin.marks))
                twin.parked.append(twin.parked[offset])
                twin.marks.append(offset)
                if topic_now is None:
                    twin.gone.add(copy)
        else:
            due = dict.fromkeys(offset for _, offset in table.remove_due(at, 100))
            assert sorted(due) == [offset for offset in waiting if twin.due(offset) <= at]
            for offset in due:
                assert (table.topic_of(offset) is None) == (offset in twin.gone)
                if step == "fail":
                    table.requeue(offset, twin.due(offset))
                else:
                    table.done(offset, len(twin.marks))
                    twin.marks.append(offset)
        waiting = twin.waiting
        assert list(table.waiting()) == waiting
        assert len(table) == len(waiting)
        low = table.low_water()
        assert low.delayed == (waiting[0] if waiting else len(twin.parked))
        assert all(named < low.delayed for named in twin.marks[: low.marks]), "a restart would deliver it again"
        earliest = min((twin.due(offset) for offset in waiting), default=None)
        assert earliest is None or (table.next_due_ms() or 0) <= earliest
