from __future__ import annotations

from model.limits import RUN_SEQS
from tests.unit.traces.figures.group_events import E, moved_story
from traces.figures.records import Rebalance
from traces.figures.trace import TraceFigures


def test_a_trace_has_its_groups_and_causes_without_a_group_are_known_to_all() -> None:
    one, other = moved_story(), moved_story()
    route = one.tell(1_000, "b", E.ROUTE_CHANGED, group="", topic="t", broker="b", n=2)
    one.queue(1_001, "c1", E.QUEUE_ACQUIRED, route, queue_id=5, version=1, offset=0)
    trace = TraceFigures()
    rows = [row for event in one.events for row in trace.feed(event)]
    for event in other.events:
        rows += trace.feed(event._replace(group="other", seq=event.seq + RUN_SEQS))
    rows += trace.finish()
    assert sorted(trace.groups) == ["g", "other"]
    assert {row.kind for row in rows if isinstance(row, Rebalance) and row.group == "g"} == {
        "CLIENT_START",
        "ROUTE_CHANGED",
    }
    only = TraceFigures("other")
    for event in one.events:
        only.feed(event)
    assert only.groups == {}
