from __future__ import annotations

import json

import pytest

from model.event_log import encode_events
from model.events import Event, EventKind
from tests.unit.traces.check.histories import clean, numbered
from traces.check.reading import BadLine, Sorter, in_order, parse_event


def test_what_a_node_writes_is_read() -> None:
    events = numbered(clean())
    assert [parse_event(line) for line in encode_events(events).splitlines()] == events


def test_a_line_of_another_version_is_read_as_far_as_it_is_known() -> None:
    line = json.dumps({"kind": "X", "t_ms": 1, "node": "b", "seq": 2, "new": [1]})
    assert parse_event(line) == Event(1, "b", 2, "X")


@pytest.mark.parametrize(
    "line",
    [b"", b"xx", b"[]", b"3", b'{"t_ms": 1}', b'{"t_ms": "1", "node": "b", "seq": 2, "kind": "X"}', b"[" * 9_999],
)
def test_a_line_that_is_not_an_event_says_so(line: bytes) -> None:
    with pytest.raises(BadLine, match="not an event"):
        parse_event(line)


def test_events_that_come_a_little_late_are_sorted_with_bounded_memory() -> None:
    events = [Event(float(n ^ 3), "b", n, EventKind.LOCK_GRANTED) for n in range(100)]
    assert [event.t_ms for event in in_order(events, ahead=4)] == [float(n) for n in range(100)]


def test_a_trace_that_grows_is_reported_as_far_as_it_has_settled() -> None:
    sorter = Sorter()
    for t_ms in (5.0, 1.0, 9.0):
        assert sorter.add(Event(t_ms, "b", 1, "X")) == []
    assert [event.t_ms for event in sorter.older_than(6.0)] == [1.0, 5.0]
    assert [event.t_ms for event in sorter.remaining()] == [9.0]
    assert sorter.remaining() == []
