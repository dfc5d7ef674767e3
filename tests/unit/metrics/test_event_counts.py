from __future__ import annotations

from metrics.event_counts import EventCounts
from metrics.families import (
    EVENTS,
    HANDED_OUT,
    LEASES_GRANTED,
    MAX_GROUP_LABELS,
    MEMBERS_LEFT,
    MOVES,
    OTHER_GROUPS,
    PASSES,
    WAITED,
    Family,
)
from model.event_log import EventLog
from model.events import Event, EventKind
from model.names import retry_topic


def counted(counts: EventCounts, family: Family) -> dict[tuple[str, ...], float]:
    found = dict([*counts.client_metrics(), *counts.broker_metrics()])[family]
    return {tuple(labels): value for labels, value in found}


def emit(counts: EventCounts, kind: EventKind, **columns: object) -> None:
    columns.setdefault("group", "g")
    EventLog("n", lambda: 0.0, sink=counts).emit(kind, **columns)  # type: ignore[arg-type]


def test_a_lease_that_its_last_owner_gets_again_is_granted_and_not_moved() -> None:
    counts = EventCounts()
    for client in ("c1", "c1", "c2", "c1"):
        emit(counts, EventKind.LOCK_GRANTED, topic="t", queue_id=0, client=client)
    emit(counts, EventKind.LOCK_GRANTED, topic="t", queue_id=1, client="c1")
    assert counted(counts, LEASES_GRANTED) == {("g",): 5}
    assert counted(counts, MOVES) == {("g",): 4}


def test_a_lease_of_an_earlier_run_that_is_confirmed_is_not_moved() -> None:
    counts = EventCounts()
    counts.owned_before("g", "t", 0, "c1")
    emit(counts, EventKind.LOCK_GRANTED, topic="t", queue_id=0, client="c1")
    assert counted(counts, MOVES) == {}
    emit(counts, EventKind.LOCK_GRANTED, topic="t", queue_id=0, client="c2")
    assert counted(counts, MOVES) == {("g",): 1}


def test_queues_of_retry_topics_are_granted_and_not_counted_as_moves() -> None:
    counts = EventCounts()
    emit(counts, EventKind.LOCK_GRANTED, topic=retry_topic("g"), queue_id=0, client="c1")
    assert (counted(counts, LEASES_GRANTED), counted(counts, MOVES)) == ({("g",): 1}, {})


def test_what_was_handed_out_is_counted_with_the_time_that_it_waited() -> None:
    counts = EventCounts()
    emit(counts, EventKind.MESSAGES_HANDED_OUT, n=10, detail="waited_ms=20.0 max_ms=50.0")
    emit(counts, EventKind.MESSAGES_HANDED_OUT, n=5)
    assert counted(counts, HANDED_OUT) == {("g",): 15}
    assert counted(counts, WAITED) == {("g",): 0.2}


def test_members_that_left_are_counted_by_reason_and_passes_by_trigger() -> None:
    counts = EventCounts()
    for reason in ("close", "unregister", "close"):
        emit(counts, EventKind.MEMBER_LEAVE, detail=reason)
    emit(counts, EventKind.REBALANCE_END, detail="NOTIFY+ROUTE balanced")
    assert counted(counts, MEMBERS_LEFT) == {("g", "close"): 2, ("g", "unregister"): 1}
    assert counted(counts, PASSES) == {("g", "NOTIFY+ROUTE"): 1}
    assert counted(counts, EVENTS) == {("MEMBER_LEAVE",): 3, ("REBALANCE_END",): 1}


def test_the_queues_of_a_process_are_those_that_it_acquired_and_did_not_drop() -> None:
    counts = EventCounts()
    for queue_id in range(3):
        emit(counts, EventKind.QUEUE_ACQUIRED, topic="t", broker="b", queue_id=queue_id, client="c1")
    emit(counts, EventKind.QUEUE_DROPPED, topic="t", broker="b", queue_id=1, client="c1")
    assert counts.owned() == {"g": 2}


def test_groups_beyond_the_limit_are_counted_together() -> None:
    counts = EventCounts()
    for number in range(MAX_GROUP_LABELS + 5):
        emit(counts, EventKind.MEMBER_LEAVE, group=f"g{number}", detail="close")
    found = counted(counts, MEMBERS_LEFT)
    assert len(found) == MAX_GROUP_LABELS + 1
    assert found[OTHER_GROUPS, "close"] == 5


def test_events_are_passed_on() -> None:
    passed: list[Event] = []
    emit(EventCounts(passed.append), EventKind.BROKER_UP)
    assert [event.kind for event in passed] == ["BROKER_UP"]
