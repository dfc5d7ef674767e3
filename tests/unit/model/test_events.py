"""Events: the columns that every reader of a trace relies on."""

from __future__ import annotations

import json

import pytest

from model.events import Event, EventKind

pytestmark = pytest.mark.walk


def test_an_event_has_every_column_whatever_it_is_about() -> None:
    event = Event(1.5, "broker-a", 17, EventKind.BROKER_UP)
    assert event._asdict() == {
        "t_ms": 1.5,
        "node": "broker-a",
        "seq": 17,
        "kind": "BROKER_UP",
        "cause": "",
        "group": "",
        "topic": "",
        "broker": "",
        "queue_id": -1,
        "client": "",
        "version": -1,
        "offset": -1,
        "n": -1,
        "detail": "",
    }


def test_an_event_is_named_by_its_node_and_number() -> None:
    assert Event(0.0, "10.0.0.5@1234#7f", 17, EventKind.MEMBER_JOIN).id == "10.0.0.5@1234#7f/17"


def test_an_event_survives_json() -> None:
    event = Event(
        0.25, "n", 1, EventKind.QUEUE_ACQUIRED, cause="n/1", topic="t", broker="b", queue_id=3, detail="NOTIFY"
    )
    assert Event(**json.loads(json.dumps(event._asdict()))) == event


def test_kinds_travel_as_their_names() -> None:
    assert all(kind.value == kind.name for kind in EventKind)


def test_every_kind_that_a_trace_promises_is_there() -> None:
    promised = (
        "MEMBER_JOIN MEMBER_LEAVE SUBSCRIPTION_CHANGE NOTIFY_SENT NOTIFY_RECEIVED REBALANCE_BEGIN REBALANCE_END "
        "QUEUE_ACQUIRED QUEUE_DROPPED QUEUE_RELEASED LOCK_GRANTED LOCK_REFUSED LOCK_EXPIRED FIRST_PULL FIRST_MESSAGE "
        "OFFSET_COMMITTED OFFSET_RESET ROUTE_CHANGED BROKER_UP BROKER_DOWN"
    )
    assert set(promised.split()) <= set(EventKind)
