from __future__ import annotations

from typing import Any

import pytest

from model.counted import plural
from model.events import EventKind
from pipeline.report.data import Totals
from pipeline.report.words import describe_duplicates, member_name, name_change, offsets, sentence_of_rebalance, summary

pytestmark = pytest.mark.walk

SHOWN_BY_NAME = frozenset(
    EventKind(kind)
    for kind in [
        "FAULT_BEGAN",
        "FAULT_DONE",
        "FAULT_HEALED",
        "MEMBER_AWAY",
        "MEMBER_BACK",
        "CONSUMER_SUSPENDED",
        "GROUP_SETTINGS_CHANGED",
        "GROUP_INCONSISTENT",
        "CLIENT_ID_CONFLICT",
        "REPLICA_JOINED",
        "REPLICA_IN_SYNC",
        "REPLICA_REMOVED",
        "MASTER_ELECTED",
        "MASTER_DEPOSED",
        "HANDOVER",
        "LOG_CUT",
        "NOTIFY_SENT",
        "NOTIFY_RECEIVED",
        "REBALANCE_END",
        "ASSIGNMENT_MADE",
        "QUEUE_ACQUIRED",
        "QUEUE_RELEASED",
        "LOCK_GRANTED",
        "LOCK_REFUSED",
        "LOCK_EXPIRED",
        "FIRST_PULL",
        "FIRST_MESSAGE",
        "MESSAGES_HANDED_OUT",
        "LISTENER_TIMED_OUT",
        "MESSAGES_UNDECODABLE",
        "OFFSET_COMMITTED",
        "OFFSET_MOVED",
        "MESSAGES_DELETED",
        "MESSAGES_DAMAGED",
        "MESSAGES_REDELIVERED",
        "DEAD_LETTER",
        "MESSAGE_RECALLED",
        "HALF_STORED",
        "TRANSACTION_COMMITTED",
        "TRANSACTION_ROLLED_BACK",
        "TRANSACTION_CHECKED",
        "TRANSACTION_GIVEN_UP",
        "ACCESS_REFUSED",
    ]
)
"""Kinds with which a rebalance does not usually begin; a report that meets one shows its bare name."""


def rebalance(kind: str, detail: str = "") -> dict[str, object]:
    return {"kind": kind, "detail": detail, "client": "127.0.0.1@c4"}


@pytest.mark.parametrize(
    ("kind", "detail", "reported", "short"),
    [
        ("MEMBER_JOIN", "t=*", "c4 joined", "join"),
        ("MEMBER_LEAVE", "unregister", "c4 left", "leave: unregister"),
        ("MEMBER_LEAVE", "close", "c4 lost its connection", "leave: close"),
        ("MEMBER_LEAVE", "expiry", "c4 was silent too long", "leave: expiry"),
        ("MEMBER_LEAVE", "new", "c4 left", "leave: new"),
        ("ROUTE_CHANGED", "", "the queues of a topic changed", "route"),
        ("NOTIFY_SENT", "", "NOTIFY_SENT", "notify_sent"),
        ("", "", "unknown", "unknown"),
    ],
)
def test_a_rebalance_is_reported_by_its_cause(kind: str, detail: str, reported: str, short: str) -> None:
    assert (sentence_of_rebalance(rebalance(kind, detail)), name_change(rebalance(kind, detail))) == (reported, short)


@pytest.mark.parametrize("kind", EventKind)
def test_every_kind_of_event_can_be_reported(kind: EventKind) -> None:
    assert sentence_of_rebalance(rebalance(kind))
    assert name_change(rebalance(kind))


@pytest.mark.parametrize("kind", EventKind)
def test_a_kind_that_a_rebalance_may_begin_with_has_words_of_its_own(kind: EventKind) -> None:
    assert (sentence_of_rebalance(rebalance(kind)) == kind) == (kind in SHOWN_BY_NAME)


def test_a_lost_connection_is_distinguished_from_a_broker_that_stopped() -> None:
    row = {"kind": "BROKER_DOWN", "detail": "10.0.0.1:1", "client": ""}
    assert sentence_of_rebalance(row) == "a broker went down"
    assert sentence_of_rebalance(row | {"client": "127.0.0.1@c4"}) == "c4 lost its connection to 10.0.0.1:1"


def test_members_go_by_the_name_that_people_gave_them() -> None:
    assert [member_name(client) for client in ("10.0.0.1@c1", "c2", None)] == ["c1", "c2", "no owner"]


def test_numbers_of_things_and_messages() -> None:
    assert [plural(n, "queue") for n in (1, 2_000)] == ["1 queue", "2,000 queues"]
    assert [offsets({"start_offset": 1_200}, n) for n in (1, 3)] == ["1,200", "1,200 to 1,202"]


def test_a_group_that_moved_nothing_is_said_to_have_moved_nothing() -> None:
    nothing: dict[str, Any] = dict.fromkeys(Totals.__dataclass_fields__, 0) | {"group": "g"}
    assert summary(Totals(**nothing), None) == "No queue of the group moved to another member in this trace."
    reported = summary(Totals(**nothing | {"rebalances": 1, "moves": 4, "orphans": 1, "double_ms": 5.0}), "c1 left")
    assert "No message is known to have come twice" in reported
    assert "two owners at once for 5 ms" in reported
    assert "1 queue had no owner" in reported


def test_what_may_have_come_twice_is_distinguished_from_what_did() -> None:
    nothing: dict[str, Any] = dict.fromkeys(Totals.__dataclass_fields__, 0) | {"group": "g", "rebalances": 1}
    reported = summary(Totals(**nothing | {"possible_duplicates": 40}), None)
    assert "Up to 40 may have come twice" in reported
    assert "No message" not in reported
    assert [describe_duplicates(*counts) for counts in ((0, 0), (12, 0), (12, 40), (0, 40))] == [
        "",
        "12",
        "12 to 52",
        "0 to 40",
    ]
