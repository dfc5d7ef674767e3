"""Events of one node: numbered without gaps, joined by their cause, bounded, and read back as they were."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.event_log import MAX_TEXT_CHARS, EventLog, decode_events, encode_events
from model.events import Event, EventKind
from model.limits import MAX_TRACE_BUFFER


def log_of(n: int = 0) -> EventLog:
    """A log with n events."""
    log = EventLog("node", lambda: 1.5)
    for _ in range(n):
        log.emit(EventKind.MEMBER_JOIN)
    return log


def seqs(events: list[Event]) -> list[int]:
    return [event.seq for event in events]


def test_events_are_stamped_and_numbered_from_1() -> None:
    log = log_of()
    log.emit(EventKind.MEMBER_JOIN, group="g", client="c", n=3, detail="t=*")
    log.emit(EventKind.NOTIFY_SENT)
    first, second = log.remove_all()
    assert first == Event(1.5, "node", 1, "MEMBER_JOIN", "node/1", group="g", client="c", n=3, detail="t=*")
    assert (second.seq, second.id) == (2, "node/2")


def test_each_run_of_a_node_has_numbers_and_causes_of_its_own() -> None:
    first, second = (EventLog("node", lambda: 1.5, run=run) for run in (0, 1))
    assert first.emit(EventKind.MEMBER_JOIN) == "node/1"
    assert second.next_id() == second.emit(EventKind.MEMBER_JOIN) == "node/1000000001"


def test_an_event_without_a_cause_is_its_own_and_hands_it_on() -> None:
    log = log_of()
    cause = log.emit(EventKind.MEMBER_JOIN)
    assert cause == "node/1"
    assert log.emit(EventKind.NOTIFY_SENT, cause=cause) == cause
    assert [event.cause for event in log.remove_all()] == [cause, cause]


def test_a_cause_can_be_known_ahead_of_its_event() -> None:
    log = log_of(1)
    cause = log.next_id()
    log.emit(EventKind.MEMBER_LEAVE)
    assert log.remove_all()[-1].id == cause


@pytest.mark.parametrize(
    ("named", "cause"), [("a/1", "a/1"), ("", "node/2"), (None, "node/2"), ("x" * 9_999, "x" * MAX_TEXT_CHARS)]
)
def test_the_cause_of_a_request_is_what_it_names_or_the_next_event(named: str | None, cause: str) -> None:
    assert log_of(1).cause_of(named) == cause


def test_texts_that_peers_choose_are_cut() -> None:
    log = log_of()
    assert log.emit(EventKind.MEMBER_JOIN, cause="c" * 9_999, detail="d" * 9_999) == "c" * MAX_TEXT_CHARS
    [event] = log.remove_all()
    assert (event.cause, event.detail) == ("c" * MAX_TEXT_CHARS, "d" * MAX_TEXT_CHARS)


def test_what_was_taken_does_not_are_redelivered() -> None:
    log = log_of(3)
    assert seqs(log.remove_all()) == [1, 2, 3]
    assert log.remove_all() == []


def test_the_sink_gets_every_event_at_once_whether_they_are_kept_or_not() -> None:
    for buffered in (True, False):
        seen: list[Event] = []
        log = EventLog("node", lambda: 0.0, sink=seen.append, buffered=buffered)
        log.emit(EventKind.BROKER_UP)
        assert seqs(seen) == [1]
        assert (log.remove_all() == seen) is buffered


def test_a_log_that_no_one_takes_from_keeps_the_newest_and_counts_the_others() -> None:
    log = log_of(MAX_TRACE_BUFFER)
    assert log.dropped == 0
    log.emit(EventKind.BROKER_DOWN)
    assert log.dropped == 1
    events = log.remove_all()
    assert (len(events), events[0].seq, events[-1].seq) == (MAX_TRACE_BUFFER, 2, MAX_TRACE_BUFFER + 1)


def test_events_that_could_not_be_sent_come_first_again() -> None:
    log = log_of(3)
    taken = log.remove_all()
    log.emit(EventKind.BROKER_DOWN)
    log.requeue(taken)
    assert seqs(log.remove_all()) == [1, 2, 3, 4]


@pytest.mark.parametrize(("newer", "kept"), [(0, 3), (MAX_TRACE_BUFFER - 2, 2), (MAX_TRACE_BUFFER, 0)])
def test_of_events_that_come_back_the_oldest_fall_out_when_there_is_no_room(newer: int, kept: int) -> None:
    log = log_of(3)
    taken = log.remove_all()
    for _ in range(newer):
        log.emit(EventKind.BROKER_DOWN)
    log.requeue(taken)
    assert log.dropped == 3 - kept
    assert seqs(log.remove_all()) == list(range(4 - kept, 4 + newer))


# --- JSON Lines ------------------------------------------------------------------------------------------------------
texts = st.text(max_size=20)
numbers = st.integers(-1, 2**53)
events = st.builds(
    Event,
    t_ms=st.floats(0, 1e13),
    node=texts,
    seq=numbers,
    kind=st.sampled_from([kind.value for kind in EventKind]),
    cause=texts,
    group=texts,
    topic=texts,
    broker=texts,
    queue_id=numbers,
    client=texts,
    version=numbers,
    offset=numbers,
    n=numbers,
    detail=texts,
)


@given(st.lists(events, max_size=5))
def test_events_are_read_back_as_they_were_written(written: list[Event]) -> None:
    encoded = encode_events(written)
    assert encoded.count(b"\n") == len(written)
    assert decode_events(encoded) == (written, 0)
    assert encoded == b"".join(json.dumps(event._asdict()).encode() + b"\n" for event in written)


def test_each_line_has_every_column() -> None:
    [line] = encode_events([Event(1.5, "node", 1, "BROKER_UP")]).splitlines()
    assert tuple(json.loads(line)) == Event._fields


def test_a_file_that_an_editor_has_marked_as_utf_8_is_read() -> None:
    event = Event(1.0, "n", 1, "K")
    assert decode_events(b"\xef\xbb\xbf" + encode_events([event])) == ([event], 0)


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"7", b'{"t_ms": 1}', b'{"t_ms": "1", "node": "n", "seq": 1, "kind": "K"}', b"[" * 100_000]
)
def test_a_line_that_is_not_an_event_is_counted_and_costs_no_other(line: bytes) -> None:
    event = Event(1.0, "n", 1, "K")
    lines = encode_events([event]) + line + b"\n" + b'{"t_ms": 2, "node": "n", "seq": 2, "kind": "K", "new": true}\n'
    assert decode_events(lines) == ([event, Event(2, "n", 2, "K")], 1)
