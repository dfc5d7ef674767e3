from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.events import Event, EventKind
from pipeline.trace.intervals import BOUNDS, KINDS, NAMES, NUMBERS, REASONS, SCHEMA, intervals_of
from tests.spark.trace_twin import Row, ownership

END_MS = 1_000.0
BROKERS_SAY = (EventKind.LOCK_GRANTED, EventKind.LOCK_EXPIRED)


@st.composite
def told(draw: st.DrawFn) -> list[Event]:
    """What two members and two brokers may tell of a few queues, in any order: also what never happens."""
    events = []
    for seq in range(draw(st.integers(0, 40))):
        kind = draw(st.sampled_from(KINDS))
        client, broker = draw(st.sampled_from(["c1", "c2"])), draw(st.sampled_from(["a", "b"]))
        events.append(
            Event(
                t_ms=float(draw(st.integers(0, 30))),
                node=broker if kind in BROKERS_SAY else client,
                seq=seq,
                kind=kind.value,
                cause=f"x/{draw(st.integers(0, 3))}",
                group="g",
                topic=draw(st.sampled_from(["t", "u"])),
                broker=broker,
                queue_id=draw(st.integers(0, 1)),
                client=client,
                version=draw(st.integers(-1, 3)),
                offset=draw(st.integers(-1, 50)),
                n=draw(st.integers(-1, 20)),
                detail=draw(st.sampled_from(["", "revoked", "lost", "reset", "expiry"])),
            )
        )
    return events


def table(events: list[Event]) -> pa.Table:
    claims: dict[tuple[object, ...], int] = {}
    rows = []
    for event in events:
        claim = (event.group, event.topic, event.broker, event.queue_id, event.client)
        unknown = (
            () if event.kind == EventKind.QUEUE_ACQUIRED else NAMES if event.kind in BOUNDS else (*NAMES, *REASONS)
        )
        row = event._asdict() | dict.fromkeys(unknown)
        numbers = {"claim": -claims.setdefault(claim, len(claims)), "by_client": int(event.node == event.client)}
        rows.append({**row, **numbers, "kind": KINDS.index(EventKind(event.kind))})
    kinds = {"t_ms": pa.float64(), "kind": pa.int8(), "by_client": pa.int8()}
    kinds |= dict.fromkeys(("claim", "queue_id", "seq", "version", "offset", "n"), pa.int64())
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in (*NUMBERS, *NAMES, *REASONS)])
    return pa.Table.from_pylist(rows, schema=schema)


def in_order(rows: list[Any]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["topic"], row["broker"], row["queue_id"], row["owner"], row["from_ms"]))


def event(kind: EventKind, t_ms: float, **columns: Any) -> Event:
    node = "b" if kind in BROKERS_SAY else "c1"
    place: dict[str, Any] = {"group": "g", "topic": "t", "broker": "b", "queue_id": 0, "client": "c1"}
    return Event(t_ms, node, int(t_ms), kind.value, f"x/{t_ms:.0f}", **place | columns)


@given(told(), st.randoms())
def test_intervals_equal_those_of_a_twin_that_goes_over_the_events_one_by_one(events: list[Event], rng: Any) -> None:
    expected = ownership(events, END_MS)
    rng.shuffle(events)
    found = intervals_of(table(events), END_MS)
    assert found.schema == SCHEMA
    assert in_order(found.to_pylist()) == in_order(expected)


def test_a_lease_that_ends_ends_the_interval_and_the_next_grant_begins_another() -> None:
    events = [
        event(EventKind.LOCK_GRANTED, 10, version=7, n=90),
        event(EventKind.QUEUE_ACQUIRED, 11, version=7, offset=10),
        event(EventKind.FIRST_PULL, 12),
        event(EventKind.FIRST_PULL, 13),
        event(EventKind.MESSAGES_HANDED_OUT, 20, n=34, offset=44),
        event(EventKind.LOCK_EXPIRED, 25, version=6),
        event(EventKind.LOCK_EXPIRED, 30, version=7),
        event(EventKind.LOCK_GRANTED, 40, version=8, offset=44),
        event(EventKind.QUEUE_DROPPED, 50, detail="revoked"),
    ]
    found = in_order(intervals_of(table(events), END_MS).to_pylist())
    wanted = ("from_ms", "to_ms", "began", "ended", "cause", "end_cause", "token", "backlog", "first_pull_ms", "reach")
    assert [tuple(row[name] for name in wanted) for row in found] == [
        (11.0, 30.0, "acquired", "expired", "x/11", "x/30", 7, 90, 12.0, 44),
        (40.0, 50.0, "resumed", "revoked", "x/40", "x/50", 8, None, None, 44),
    ]


def test_a_lease_that_the_broker_ends_for_a_reset_ends_the_interval_as_a_reset() -> None:
    events = [
        event(EventKind.QUEUE_ACQUIRED, 11, version=7),
        event(EventKind.LOCK_EXPIRED, 30, version=7, detail="reset"),
        event(EventKind.QUEUE_DROPPED, 31, version=7, detail="reset"),
    ]
    (row,) = intervals_of(table(events), END_MS).to_pylist()
    assert (row["to_ms"], row["ended"]) == (30.0, "reset")


@pytest.mark.parametrize("events", [[], [event(EventKind.LOCK_GRANTED, 10, version=7)]])
def test_without_an_acquisition_there_is_no_interval(events: list[Event]) -> None:
    assert intervals_of(table(events), END_MS) == SCHEMA.empty_table()


def test_columns_that_an_event_does_not_have_are_taken_as_unknown() -> None:
    acquired = table([event(EventKind.QUEUE_ACQUIRED, 11)]).to_pylist()[0] | {"version": None, "cause": None}
    (row,) = intervals_of(pa.Table.from_pylist([acquired], schema=table([]).schema), END_MS).to_pylist()
    assert (row["token"], row["cause"], row["ended"], row["to_ms"]) == (-1, "", "open", END_MS)
